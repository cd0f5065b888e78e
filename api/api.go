// Package api defines the vocabulary of docs/reference/protocol.md: the names of headers and events, the states of a table, the
// form of an ETag and the JSON documents. Servers and clients use only this package to write and read them.
//
// [Tag] is an ETag of a route server. [ParseTag] accepts only the spelling that [Tag.String] writes. [ParseTags] parses
// If-None-Match of a request, and [ParseEntity] parses ETag of an answer. [Backoff] returns the delay before a retry.
//
// Preconditions, content negotiation and the framing of Server-Sent Events belong to the packages that serve and fetch.
//
// Other modules should not import it: it may change with every release.
package api

import (
	"encoding/json"
	"fmt"
	"time"
)

// Names of headers in the canonical form of net/http, so that they can index an http.Header.
const (
	HeaderAcceptIM    = "A-Im"            // request: the client accepts deltas, see DeltaForm
	HeaderClient      = "Routesrv-Client" // request: how the client identifies itself, see fleet.Identity
	HeaderCount       = "X-Count"         // number of routes
	HeaderDeltaBase   = "Delta-Base"      // tag of the table that a delta applies to, as the client named it
	HeaderETag        = "Etag"            // tag of the table
	HeaderIfNoneMatch = "If-None-Match"   // request: tags of the tables that the client has
	HeaderIM          = "Im"              // the body is a delta, see DeltaForm
	HeaderLastEventID = "Last-Event-Id"   // request for a stream: tag of the table that the client has
	HeaderRank        = "Routesrv-Rank"   // rank of a client that asks for it in its report, see rollout.Order.Rank
	HeaderRevision    = "X-Revision"      // revision of the table in decimal, 0 without revisions
	HeaderSourceRead  = "X-Source-Read"   // time of the last successful read of the source, see FormatTime
	HeaderTableState  = "X-Table-State"   // one of the states, or missing
)

// ReportPath is the path, relative to that of /routes, where a route server accepts reports.
const ReportPath = "clients"

// User-Agents that apply no table, so they are not clients of the fleet.
const (
	AgentPeer = "routesrv-peer" // a replica that queries another one
	AgentTool = "routesrv-tool" // a command, such as routesrv diff
)

// IsClient reports whether a User-Agent may belong to a client of the fleet.
func IsClient(agent string) bool { return agent != AgentPeer && agent != AgentTool }

// Forms of content.
const (
	DeltaForm  = "eskip-delta"       // instance manipulation in A-IM and IM (RFC 3229)
	DeltaType  = "application/json"  // media type of a delta
	StreamType = "text/event-stream" // media type of a stream
)

// States of a table, in X-Table-State and in EventCurrent. Other tables have no state.
const (
	StateStale = "stale" // from a last-known-good file that no read has confirmed yet
	StateHeld  = "held"  // the last read showed another intent or table, which a guard holds back

	StateBackendsHeld = "backends-held" // some routes keep endpoints that the last read did not show
	StateUnknown      = "unknown"       // the client keeps a table that the server does not know and that may be newer
)

// ParseState returns a known state, or "" for any other text, so that the result is safe to log.
func ParseState(s string) string {
	if s == StateStale || s == StateHeld || s == StateBackendsHeld || s == StateUnknown {
		return s
	}
	return ""
}

// timeFormat is RFC 3339 with milliseconds.
const timeFormat = "2006-01-02T15:04:05.000Z07:00"

// FormatTime formats the time of a read for X-Source-Read and EventCurrent: RFC 3339 with milliseconds, in UTC.
func FormatTime(at time.Time) string { return at.UTC().Format(timeFormat) }

// ParseTime parses RFC 3339 with any fraction and zone.
func ParseTime(s string) (time.Time, error) { return time.Parse(time.RFC3339, s) }

// AgeSeconds returns the time from at until now, or 0 if at is unknown. It is never negative, although the clocks of two machines
// differ.
func AgeSeconds(now, at time.Time) float64 {
	if at.IsZero() {
		return 0
	}
	return max(0, now.Sub(at).Seconds())
}

// Names of the events of a stream.
const (
	EventDelta     = "delta"     // a delta that leads to the table named by the id
	EventFetch     = "fetch"     // the client must fetch the table named by the id
	EventCurrent   = "current"   // the client now has the table named by the id; see Current
	EventReconnect = "reconnect" // the server ends the stream; see FormatReconnect
)

// Events returns the names of all events.
func Events() []string {
	return []string{EventDelta, EventFetch, EventCurrent, EventReconnect}
}

// Current is the data of EventCurrent.
type Current struct {
	Revision   uint64 `json:"revision"` // of the table that the client now has
	Count      int    `json:"count"`    // number of its routes
	SourceRead string `json:"source_read,omitempty"`
	State      string `json:"state,omitempty"`
}

// String returns the JSON form, on one line.
func (c Current) String() string {
	data, err := json.Marshal(c)
	if err != nil {
		panic(err) // cannot happen: numbers and plain texts
	}
	return string(data)
}

// ParseCurrent parses the JSON form. It ignores the revision and the number of routes, because the id of the event names the
// table. read is in the format of FormatTime, and state may be any text: see [ParseTime] and [ParseState].
func ParseCurrent(data string) (read, state string, err error) {
	var c struct {
		SourceRead string `json:"source_read"`
		State      string `json:"state"`
	}
	err = json.Unmarshal([]byte(data), &c)
	return c.SourceRead, c.State, err
}

// FormatReconnect returns the data of EventReconnect: the time after which the client should reconnect, in whole milliseconds.
func FormatReconnect(after time.Duration) string {
	return fmt.Sprintf(`{"after_ms":%d}`, after.Milliseconds())
}

// ParseReconnect returns the time after which to reconnect: 0 to 2^32 ms, by default 0.
func ParseReconnect(data string) time.Duration {
	var advice struct {
		AfterMS uint32 `json:"after_ms"`
	}
	_ = json.Unmarshal([]byte(data), &advice) // invalid data means no advice
	return time.Duration(advice.AfterMS) * time.Millisecond
}

// DefaultInterval is the default time between two reads, for everything that produces or compares tables.
const DefaultInterval = 3 * time.Second

// Backoff returns the delay after a number of consecutive failures, at least one. It doubles with each failure, from twice the
// interval up to most, and is never shorter than the interval. chance, in [0, 1), randomises the upper half of the delay, so that
// the members of a fleet do not return all at once.
func Backoff(failures int, interval, most time.Duration, chance float64) time.Duration {
	d := interval
	for range failures {
		if d > most/2 {
			d = most
			break
		}
		d *= 2
	}
	least := max(d/2, interval)
	return least + time.Duration(chance*float64(d-least))
}
