// Package wire has the words of docs/protocol.md: the names of headers and events, the states of a table, the form of an ETag and
// the small JSON forms of a stream. Servers write them and clients read them through this package only, so that both sides agree.
//
// [Tag] is an ETag of a route server. [ParseTag] reads one spelling only, the one that [Tag.String] writes. [ParseTags] reads what
// a client sends in If-None-Match, and [ParseEntity] what a server sends in ETag.
//
// # What it does not do
//
// It has no I/O, decides nothing, and knows nothing about the rest of HTTP: preconditions, content negotiation and the framing of
// Server-Sent Events belong to the packages that serve and fetch. The delta itself is [table.Delta], whose JSON form is beside it:
// it is read within the limits of the decoder of tables, and nobody else reads or writes it.
package wire

import "time"

// Names of headers, in the canonical form of net/http: they may index an http.Header.
const (
	HeaderAcceptIM    = "A-Im"            // request: the client takes deltas, see DeltaForm
	HeaderClient      = "Routesrv-Client" // request: what the client says of itself, see fleet.Identity
	HeaderCount       = "X-Count"         // number of routes
	HeaderDeltaBase   = "Delta-Base"      // tag of the table that a delta is for, as the client named it
	HeaderETag        = "Etag"            // tag of the table
	HeaderIfNoneMatch = "If-None-Match"   // request: tags of the tables that the client has
	HeaderIM          = "Im"              // the body is a delta, see DeltaForm
	HeaderLastEventID = "Last-Event-Id"   // request for a stream: tag of the table that the client has
	HeaderRevision    = "X-Revision"      // revision of the table in decimal, 0 without revisions
	HeaderSourceRead  = "X-Source-Read"   // time of the last successful read of the source, see FormatTime
	HeaderTableState  = "X-Table-State"   // one of the states, or missing
)

// ReportPath is where a route server takes reports, beside /routes.
const ReportPath = "clients"

// Forms of content.
const (
	DeltaForm  = "eskip-delta"       // instance manipulation in A-IM and IM (RFC 3229)
	DeltaType  = "application/json"  // media type of a delta
	StreamType = "text/event-stream" // media type of a stream
)

// States of a table, in X-Table-State and in EventCurrent. A table that is neither has none.
const (
	StateStale = "stale" // from a checkpoint, not confirmed by a read yet
	StateHeld  = "held"  // the last read showed another intent, or another table, which a guard holds back
	// StateBackendsHeld says that some routes keep endpoints that the last read did not show.
	StateBackendsHeld = "backends-held"
	// StateUnknown is only in an answer that leaves a client with a table which the server does not have, and which may be newer: in
	// what state that is, the server cannot say.
	StateUnknown = "unknown"
)

// ParseState returns a state that it knows, and "" for every other text, so that the result is safe to log.
func ParseState(s string) string {
	if s == StateStale || s == StateHeld || s == StateBackendsHeld || s == StateUnknown {
		return s
	}
	return ""
}

// timeFormat is RFC 3339 with milliseconds.
const timeFormat = "2006-01-02T15:04:05.000Z07:00"

// FormatTime returns the time of a read as X-Source-Read and EventCurrent have it: RFC 3339 with milliseconds, in UTC.
func FormatTime(at time.Time) string { return at.UTC().Format(timeFormat) }

// ParseTime reads RFC 3339 with any fraction and zone.
func ParseTime(s string) (time.Time, error) { return time.Parse(time.RFC3339, s) }
