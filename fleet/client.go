package fleet

import (
	"net/netip"
	"slices"
	"time"
	"unique"

	"github.com/routesrv/routesrv/table"
)

// client is one client as a Registry keeps it: some 160 bytes, besides its name and its report. Times are Unix nanoseconds, which
// take a third of a time.Time.
type client struct {
	key      string     // see keyOf
	address  netip.Addr // of the last request, where it is counted
	node     string
	zone     unique.Handle[string]
	version  unique.Handle[string]
	mode     unique.Handle[string]
	holds    *held // nil if it never named a table
	revision uint64
	since    int64  // since when it holds that
	aheadOf  uint32 // number of the version that this replica had when the client named one that may be newer; 0 for none
	first    int64
	heard    int64
	report   *reported // nil before the first
	interval milliseconds
	streams  int32 // open ones
	kind     kind
	pod      bool
	applied  appliedCode // of the report
}

// milliseconds is a time that takes four bytes.
type milliseconds int32

func (m milliseconds) duration() time.Duration { return time.Duration(m) * time.Millisecond }

// appliedCode is an Applied in one byte.
type appliedCode uint8

var applieds = [...]Applied{AppliedUnknown, AppliedFetched, AppliedDone}

// kind is a Kind in one byte.
type kind uint8

var kinds = [...]Kind{Proxy, Sidecar, RelayKind}

func kindOf(k Kind) kind { return kind(max(slices.Index(kinds[:], k), 0)) }

// keyOf is the name of a client in the Registry: its id, or for one that has none a zero byte, its address and its user agent.
func keyOf(id string, address netip.Addr, agent string) string {
	if id != "" {
		return id
	}
	bytes := address.As16()
	return "\x00" + string(bytes[:]) + agent[:min(len(agent), maxAgent)]
}

// agentAt is where the user agent begins in a key.
const agentAt = 1 + 16

func (c *client) inferred() bool { return c.key[0] == 0 }

// held is a table that clients hold. All of them share it.
type held struct {
	digest  table.Digest
	order   uint64 // of the last version that it is the table of, as of the last look; 0 if this replica has never had it
	clients int    // that refer to it, or whose proxies do
	holders int    // that hold it
}

// reported is what a client has said last.
type reported struct {
	at      int64
	fetched *held // nil if its proxy has fetched nothing
	took    int64 // when its proxy fetched
	reason  string
	figures *figures
}

// pace is how long nothing may be heard from the client: with a stream it asks for nothing, so only reports count, or what the stream
// could write.
func (c *client) pace() time.Duration {
	switch {
	case c.streams == 0:
		return c.interval.duration()
	case c.inferred():
		return streamInterval
	default:
		return max(c.interval.duration(), ReportEvery)
	}
}

// silent reports whether nothing was heard for three intervals.
func (c *client) silent(now int64) bool { return now-c.heard > 3*int64(c.pace()) }

// reporting reports whether what the client says of itself is as new as it should be.
func (c *client) reporting(now int64) bool {
	return c.report != nil && now-c.report.at <= 3*int64(max(c.interval.duration(), ReportEvery))
}

// learn takes the time since the client was heard before into account, for one that does not say how often it asks. A longer time
// counts half, so that one pause does not hide the next; a shorter one an eighth.
func (c *client) learn(now int64) {
	gap, before := time.Duration(now-c.heard), c.interval.duration()
	switch {
	case gap > time.Minute:
		return
	case gap > before:
		before = (before + gap) / 2
	default:
		before = max((7*before+gap)/8, time.Second)
	}
	c.interval = milliseconds(before.Milliseconds())
}
