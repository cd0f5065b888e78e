package etagcache

import (
	"net/http"
	"time"

	"github.com/routesrv/routesrv/internal/wire"
	"github.com/routesrv/routesrv/table"
)

// Seen is what one request shows about its client.
type Seen struct {
	Request *http.Request // for a stream, its first request; read only
	Zone    string        // the requested zone
	// Digest and Revision are of the table that the client names; if it names none, of the table that it was sent completely.
	// Zero means neither. For a stream they are the table that it was brought to.
	Digest   table.Digest
	Revision uint64
	// Ahead means that the client has a table that may be newer than this replica's.
	Ahead  bool
	Stream StreamPhase
}

// StreamPhase is the stream event of a Seen.
type StreamPhase uint8

// The phases of a stream.
const (
	NoStream StreamPhase = iota // an ordinary request
	StreamOpened
	StreamWritten // something was written, apparently successfully
	StreamClosed
)

// Order returns the number of the last version with the table, full or for a zone; 0 if the table is not remembered.
func (c *Cache) Order(d table.Digest) uint64 { return c.history.order(d) }

// Changed returns the number of a version since which these routes have not changed, as far as changes are remembered: a client
// that holds that version or a later one has the current routes.
func (c *Cache) Changed(ids []string) uint64 { return c.history.lastChange(ids) }

// observe reports what a request has shown. whole means that the table was sent completely.
func (x *exchange) observe(whole bool) {
	saw := x.cache.cfg.Saw
	if saw == nil || x.r.Method != http.MethodGet {
		return
	}
	seen := Seen{Request: x.r, Zone: x.zone, Ahead: x.kept}
	if named := wire.ParseTags(x.r.Header[wire.HeaderIfNoneMatch]).List; len(named) > 0 {
		seen.Digest, seen.Revision = named[0].Digest, named[0].Revision
	}
	if whole && seen.Digest.IsZero() {
		seen.Digest, seen.Revision, seen.Ahead = x.variant.table.Digest(), x.revision, false
	}
	saw(seen)
}

// observe reports an event of a stream.
func (s *stream) observe(phase StreamPhase) {
	saw := s.cache.cfg.Saw
	if saw == nil {
		return
	}
	seen := Seen{Request: s.r, Zone: s.zone, Stream: phase, Ahead: s.ahead}
	if s.has != nil {
		seen.Digest, seen.Revision = s.has.Digest, s.has.Revision
	}
	saw(seen)
}

// Answer is one answer with a table: a response, or an event that brings a stream to the table.
type Answer struct {
	// Began is when the request arrived or writing the event began. Ended is when the last byte was passed to the network.
	Began, Ended time.Time
	// Status is the status of the response. For a stream it is 226 for a delta and 200 for a table.
	Status int
	Stream bool
	// Digest and Revision are of this replica's table from which the answer was made; zero before the first one.
	Digest   table.Digest
	Revision uint64
	// Published is the digest of the full table: this table, or the one that it was derived from.
	Published table.Digest
	Encoding  string // as in the series of the responses
	Bytes     int    // of the body of a response; 0 for a stream
	Whole     bool   // the whole body was written
}

// answered counts an answer with n bytes of a body, and reports it and what its request has shown.
func (x *exchange) answered(status, n int, whole bool) {
	x.cache.cfg.Metrics.observeResponse(status, x.encoding, n)
	x.tell(status, n, whole, false)
	if x.variant != nil {
		x.observe(whole && status == http.StatusOK)
	}
}

// tell reports an answer.
func (x *exchange) tell(status, n int, whole, stream bool) {
	told := x.cache.cfg.Answered
	if told == nil {
		return
	}
	a := Answer{Began: x.began, Ended: time.Now(), Status: status, Stream: stream, Encoding: x.encoding.String(), Bytes: n, Whole: whole}
	if x.variant != nil {
		a.Digest, a.Revision = x.variant.table.Digest(), x.revision
		a.Published = x.state.version.table.Digest()
	}
	told(a)
}
