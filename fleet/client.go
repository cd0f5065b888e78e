package fleet

import (
	"net/netip"
	"time"

	"github.com/routesrv/routesrv/table"
)

// client is a client in a Registry.
type client struct {
	key      string     // see keyOf
	identity Identity   // of its last request; without one only Kind, Zone and a learned Interval
	address  netip.Addr // of the last request; the client counts for this address
	holds    *held      // nil if it never named a table
	revision uint64
	since    time.Time // since when it holds that table
	aheadOf  uint64    // this replica's version when the client named a table that may be newer; 0 for none
	first    time.Time
	heard    time.Time
	report   *reported // nil before the first report
	streams  int       // open ones
	once     bool      // it does not identify itself, and has not asked twice within [unknownFor]
}

// keyOf returns the key of a client in the Registry: its id, or without one, a zero byte, its address and its user agent.
func keyOf(id string, address netip.Addr, agent string) string {
	if id != "" {
		return id
	}
	bytes := address.As16()
	return "\x00" + string(bytes[:]) + agent[:min(len(agent), maxAgent)]
}

// agentAt is the offset of the user agent in a key.
const agentAt = 1 + 16

func (c *client) inferred() bool { return c.key[0] == 0 }

// held is a table that clients hold. They share it.
type held struct {
	digest  table.Digest
	order   uint64 // its last version, as of the last look; 0 if this replica never had it
	clients int    // clients that refer to it, directly or through their proxies
	holders int    // clients that hold it
}

// reported is a client's last report, with times of our clock.
type reported struct {
	*Report
	at      time.Time
	took    time.Time // when its proxy fetched
	fetched *held     // nil if its proxy has fetched nothing
	proven  *held     // nil if its proxy has lived with nothing
}

// pace returns the longest normal time without a sign of life. A client with a stream sends no requests, so only reports and
// successful writes to the stream count; and a replica may hear the reports of a client that polls or streams elsewhere.
func (c *client) pace() time.Duration {
	switch {
	case c.inferred() && c.streams > 0:
		return streamInterval
	case c.streams == 0 && c.report == nil:
		return c.identity.Interval
	default: // it reports, and may poll or stream elsewhere
		return max(c.identity.Interval, ReportEvery)
	}
}

// counts reports whether the client belongs to the fleet. Somebody unknown who asked once, such as a person with curl, does not,
// unless a stream is open.
func (c *client) counts() bool { return !c.once || c.streams > 0 }

// silent reports whether nothing was heard for three intervals.
func (c *client) silent(now time.Time) bool { return now.Sub(c.heard) > 3*c.pace() }

// reporting reports whether the client's last report is recent enough.
func (c *client) reporting(now time.Time) bool {
	return c.report != nil && now.Sub(c.report.at) <= 3*max(c.identity.Interval, ReportEvery)
}

// learn estimates the interval of a client that does not name one, from the time since it was heard before. A longer time counts
// half, so that one pause does not hide the next one; a shorter one counts an eighth.
func (c *client) learn(now time.Time) {
	gap, before := now.Sub(c.heard), c.identity.Interval
	switch {
	case gap > time.Minute:
		return
	case gap > before:
		before = (before + gap) / 2
	default:
		before = max((7*before+gap)/8, time.Second)
	}
	c.identity.Interval = before.Truncate(time.Millisecond)
}
