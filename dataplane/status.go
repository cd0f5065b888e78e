package dataplane

import (
	"slices"
	"time"

	"github.com/routesrv/routesrv/guard"
	"github.com/routesrv/routesrv/publish"
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
	// Confirmed is when a server last confirmed that this is its table; zero if none has since Boot.
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

// Status is a summary of the client for people and machines.
type Status struct {
	// Applied is nil before the first table.
	Applied *Applied `json:"applied,omitempty"`
	// AgeSeconds is the time since Applied.SourceRead; 0 if unknown.
	AgeSeconds float64 `json:"age_seconds"`
	// Held is the held table; nil if there is none.
	Held *Held `json:"held,omitempty"`
	// Transport is the transport in use: "stream" or "poll"; empty before the first attempt.
	Transport string `json:"transport,omitempty"`
	// Stream describes the last stream; nil if there was none.
	Stream *StreamStatus `json:"stream,omitempty"`
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

	Servers       []ServerStatus      `json:"servers"` // in the order of Config.URLs
	LastKnownGood *publish.FileStatus `json:"last_known_good,omitempty"`
}

// Held describes a held table.
type Held struct {
	Digest   table.Digest `json:"digest"`
	Revision uint64       `json:"revision"`
	Routes   int          `json:"routes"`
	Bytes    int          `json:"bytes"`
	Origin   string       `json:"origin"`
	Reason   guard.Code   `json:"reason"`
	Detail   string       `json:"detail"`
	Since    time.Time    `json:"since"`
	// ReleaseAt is the earliest time of its release. Zero if time does not release it.
	ReleaseAt time.Time `json:"release_at,omitzero"`
	Polls     int       `json:"polls"` // that agreed so far
}

// StreamStatus is the state of a stream.
type StreamStatus struct {
	URL string `json:"url"` // of the server, without the password
	// Connected is when the stream was opened; zero if none is open.
	Connected time.Time `json:"connected,omitzero"`
	// LastEvent is when the last event arrived, whose type is Event. Zero before the first.
	LastEvent time.Time `json:"last_event,omitzero"`
	Event     string    `json:"event,omitempty"`
}

// ServerStatus is the state of a server.
type ServerStatus struct {
	URL         string    `json:"url"` // without the password
	InUse       bool      `json:"in_use"`
	LastAttempt time.Time `json:"last_attempt,omitzero"`
	LastSuccess time.Time `json:"last_success,omitzero"`
	// Failures counts the attempts since LastSuccess; Reason and LastError are from the last failed attempt, and empty while the
	// server is healthy.
	Failures  int    `json:"failures"`
	Reason    Reason `json:"reason,omitempty"`
	LastError string `json:"last_error,omitempty"`
	// RetryAt is when a failing server is tried again. Zero if it is healthy.
	RetryAt time.Time `json:"retry_at,omitzero"`
}

// Rejected says why the client does not accept the table that it was sent, in words for operators; empty if it does.
func (s *Status) Rejected() string {
	if s.Held != nil {
		return "guard: " + s.Held.Detail
	}
	for _, server := range s.Servers {
		if server.InUse && slices.Contains(verifyReasons, server.Reason) {
			return string(server.Reason) + ": " + server.LastError
		}
	}
	return ""
}

// loopState is the part of the status that rounds change.
type loopState struct {
	zone                                  string
	started                               time.Time // when Run began
	lastAttempt, lastSuccess, nextAttempt time.Time
	failures                              int
	failedTotal                           uint64
	transport                             string
	stream                                StreamStatus // without a URL before the first stream
	leftOut                               leftOut
}

// Current returns the applied table, or nil.
func (c *Client) Current() *table.Table { return c.publisher.Table() }

// Publisher returns the publisher that judges and keeps the tables.
func (c *Client) Publisher() *publish.Publisher { return c.publisher }

// appliedOf describes the applied table.
func appliedOf(s *publish.Served) *Applied {
	a := &Applied{
		Digest: s.Table.Digest(), Revision: s.Table.Revision(), Routes: s.Table.Len(), Bytes: s.Table.Bytes(), Origin: s.Origin,
		Committed: s.Committed, Confirmed: s.Confirmed, SourceRead: s.Read.At, Stale: s.Stale, ServerState: s.State,
	}
	if !s.Stale {
		a.ETag = firstOf(s.Names)
	}
	return a
}

// Status returns the state of the client.
func (c *Client) Status() Status {
	now := time.Now()
	s := Status{LastKnownGood: c.publisher.File(), Held: c.heldStatus()}
	if served := c.publisher.Served(); served != nil {
		s.Applied = appliedOf(served)
		s.AgeSeconds = age(now, s.Applied.SourceRead)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	s.Zone, s.Failures, s.FailedTotal = c.loop.zone, c.loop.failures, c.loop.failedTotal
	s.LastAttempt, s.LastSuccess, s.NextAttempt = c.loop.lastAttempt, c.loop.lastSuccess, c.loop.nextAttempt
	s.Transport = c.loop.transport
	if s.Applied != nil && s.Applied.Digest == c.loop.leftOut.of {
		s.Applied.LeftOut = c.loop.leftOut.count
	}
	if stream := c.loop.stream; stream.URL != "" {
		s.Stream = &stream
	}
	for _, server := range c.servers {
		s.Servers = append(s.Servers, server.status)
	}
	return s
}

// Progress returns the client's state in the form of a poller's.
func (c *Client) Progress() publish.Progress {
	s := c.Status()
	p := publish.Progress{
		LastAttempt: s.LastAttempt, LastSuccess: s.LastSuccess, Failures: s.Failures, FailedTotal: s.FailedTotal, NextAttempt: s.NextAttempt,
	}
	if s.Applied != nil {
		p.Revision = s.Applied.Revision
	}
	for _, server := range s.Servers {
		if server.InUse && s.Failures > 0 {
			p.LastError = server.LastError
		}
	}
	if served := c.publisher.Served(); served != nil {
		p.Initialized, p.Updated = served.Initialized, served.Updated
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	p.Started = c.loop.started
	return p
}

// age returns the time since at in seconds. It is never negative, although the clocks of two machines differ.
func age(now, at time.Time) float64 {
	if at.IsZero() {
		return 0
	}
	return max(0, now.Sub(at).Seconds())
}

// Guard returns the state of the guard.
func (c *Client) Guard() publish.State { return c.publisher.State() }

func (c *Client) heldStatus() *Held {
	held, g := c.publisher.Held(), c.publisher.State()
	if held == nil || !g.Held {
		return nil
	}
	return &Held{
		Digest: g.Digest, Revision: g.Revision, Routes: g.Routes, Bytes: g.Bytes, Origin: held.Origin,
		Reason: g.Reason, Detail: g.Detail, Since: g.Since, ReleaseAt: g.ReleaseAt,
		Polls: g.Polls,
	}
}
