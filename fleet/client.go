package fleet

import (
	"net/netip"
	"strings"
	"time"
)

// client is a client in a Registry.
type client struct {
	Client // as in an answer, except for what depends on the time of the answer

	key       string     // see keyOf
	address   netip.Addr // of the last request; the client counts for this address
	order     uint64     // of the table that it holds, as of the last look; 0 if this replica never had it
	aheadOf   uint64     // this replica's version when the client named a table that may be newer; 0 for none
	interval  time.Duration
	streams   int     // open ones
	once      bool    // it does not identify itself, and has not asked twice within [unknownFor]
	below     *Counts // its own clients, as reported by a relay; nil for other clients
	mentioned bool    // its last report had a suspect
}

// keyOf returns the key of a client: its id, or, without one, its address and its user agent. Only the latter has a space.
func keyOf(id string, address netip.Addr, agent string) string {
	if id != "" {
		return id
	}
	return address.String() + " " + printable(agent, maxAgent)
}

func (c *client) is(i Identity) {
	c.interval = i.Interval
	set(&c.Kind, i.Kind)
	if c.Pod = ""; i.Pod {
		c.Pod = c.key
	}
	set(&c.Node, i.Node)
	set(&c.Zone, i.Zone)
	set(&c.Version, i.Version)
	set(&c.Mode, i.Mode)
}

func (c *client) infer(s Sighting) {
	c.Kind, c.Inferred = Proxy, true
	_, c.Version, _ = strings.Cut(c.key, " ")
	set(&c.Zone, printable(s.Zone, maxWord))
}

// set copies a text, unless it has not changed: the whole header would stay in memory with a part of it.
func set[T ~string](to *T, text T) {
	if *to != text {
		*to = T(strings.Clone(string(text)))
	}
}

// pace returns the longest normal time without a sign of life. A client with a stream sends no requests, so only reports and
// successful writes to the stream count; and a replica may hear the reports of a client that polls or streams elsewhere.
func (c *client) pace() time.Duration {
	switch {
	case c.Inferred && c.streams > 0:
		return streamInterval
	case c.streams == 0 && c.Reported.IsZero():
		return c.interval
	default: // it reports, and may poll or stream elsewhere
		return max(c.interval, ReportEvery)
	}
}

// counts reports whether the client belongs to the fleet. An anonymous one-off request makes none, unless it is a stream.
func (c *client) counts() bool { return !c.once || c.streams > 0 }

func (c *client) silent(now time.Time) bool { return now.Sub(c.LastHeard) > 3*c.pace() }

func (c *client) reporting(now time.Time) bool {
	return !c.Reported.IsZero() && now.Sub(c.Reported) <= 3*max(c.interval, ReportEvery)
}

// learn estimates the interval of a client that does not name one, from the time since it was last heard. A longer time has a
// weight of one half, so that one pause does not hide the next one; a shorter time has a weight of one eighth.
func (c *client) learn(now time.Time) {
	switch gap := now.Sub(c.LastHeard); {
	case gap > time.Minute:
	case gap > c.interval:
		c.interval = (c.interval + gap) / 2
	default:
		c.interval = max((7*c.interval+gap)/8, time.Second)
	}
}

// rejects reports whether the client has rejected the table, and has not been seen with another one since.
func (c *client) rejects() bool {
	return c.Reason != "" && (c.Holds == nil || !c.Holds.Since.After(c.Reported))
}

func (c *client) report(r *Report, now time.Time) {
	c.LastHeard, c.Reported, c.Reason, c.Pre = now, now, r.Rejected, r.Pre
	c.Refused, c.MetricsError, c.Proven = r.Refused, r.MetricsError, nil
	if !r.Proven.IsZero() {
		c.Proven = &Table{Digest: r.Proven.Digest}
	}
	if r.Clients != nil && c.Kind == RelayKind {
		c.below = r.Clients
	}
	c.addSuspects(r.Suspects, now)
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
