package api

import (
	"time"

	"github.com/routesrv/routesrv/table"
)

// Applied describes the applied table. It is a value; a later poll creates a new one.
type Applied struct {
	Digest   table.Digest `json:"digest"`
	Revision uint64       `json:"revision"`
	Routes   int          `json:"routes"`
	Bytes    int          `json:"bytes"` // of the text
	// Origin is the URL of the server that sent the table, without the password; for a table from the last-known-good file, the
	// origin stored in the file.
	Origin string `json:"origin"`
	// ETag is the server's name for the table. Empty if it has none, or if the table comes from the last-known-good file.
	ETag string `json:"etag,omitempty"`
	// Committed is when this process applied the table.
	Committed time.Time `json:"committed"`
	// Confirmed is when a server last confirmed that this is its table; zero if none has since the start.
	Confirmed time.Time `json:"confirmed,omitzero"`
	// SourceRead is when the server had last read its source, as far as an answer or the last-known-good file has proved it: by
	// X-Source-Read, or for a server without it by Date and Age. An answer that proves nothing does not change it. Zero if no
	// time has been proved yet.
	SourceRead time.Time `json:"source_read,omitzero"`
	// Stale means that the table comes from the last-known-good file and no server has confirmed it yet.
	Stale bool `json:"stale"`
	// LeftOut is how many parts of the server's text were left out: no reader can parse them, or no proxy survives them. It is 0 for a
	// table from the last-known-good file.
	LeftOut int `json:"left_out,omitempty"`
	// ServerState is the X-Table-State of the server's last answer: "stale", "held", "backends-held", or empty.
	ServerState string `json:"server_state,omitempty"`
}

// Fetch is the state of a client that fetches its table from route servers: in the status of a data plane and of a relay.
type Fetch struct {
	// Applied is nil before the first table.
	Applied *Applied `json:"applied,omitempty"`
	// AgeSeconds is the time since Applied.SourceRead; 0 if unknown.
	AgeSeconds float64 `json:"age_seconds"`
	// Held is the held table; nil if there is none.
	Held *Guard `json:"held,omitempty"`
	// Transport is the transport in use: "stream" or "poll"; empty before the first attempt.
	Transport string `json:"transport,omitempty"`
	// Stream describes the last stream; nil if there was none.
	Stream *FetchStream `json:"stream,omitempty"`
	// Zone is the last requested zone; empty for the full table.
	Zone string `json:"zone,omitempty"`

	// LastAttempt is when the last round or the last attempt to open a stream began. LastSuccess is when the last round with a
	// usable answer ended, or when a stream last confirmed the table. NextAttempt is when the next attempt is due, unless a
	// stream is open. Zero means never or unknown.
	LastAttempt time.Time `json:"last_attempt,omitzero"`
	LastSuccess time.Time `json:"last_success,omitzero"`
	NextAttempt time.Time `json:"next_attempt,omitzero"`
	// Failures counts the attempts without a usable answer since LastSuccess.
	Failures int `json:"failures"`
	// FailedTotal counts all such attempts.
	FailedTotal uint64 `json:"failed_total"`

	Servers       []FetchServer `json:"servers"` // in the order of preference
	LastKnownGood *File         `json:"last_known_good,omitempty"`
}

// FetchStream is the state of a stream.
type FetchStream struct {
	URL string `json:"url"` // of the server, without the password
	// Connected is when the stream was opened; zero if none is open.
	Connected time.Time `json:"connected,omitzero"`
	// LastEvent is when the last event arrived, whose type is Event. Zero before the first.
	LastEvent time.Time `json:"last_event,omitzero"`
	Event     string    `json:"event,omitempty"`
}

// FetchServer is the state of a server.
type FetchServer struct {
	URL         string    `json:"url"` // without the password
	InUse       bool      `json:"in_use"`
	LastAttempt time.Time `json:"last_attempt,omitzero"`
	LastSuccess time.Time `json:"last_success,omitzero"`
	// Failures counts the attempts since LastSuccess; Reason and LastError are from the last failed attempt, and empty while the
	// server is healthy.
	Failures  int    `json:"failures"`
	Reason    string `json:"reason,omitempty"`
	LastError string `json:"last_error,omitempty"`
	// RetryAt is when a failing server is tried again. Zero if it is healthy.
	RetryAt time.Time `json:"retry_at,omitzero"`
}
