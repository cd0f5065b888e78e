package etagcache

import (
	"net/http"
	"time"

	"github.com/routesrv/routesrv/internal/api"
	"github.com/routesrv/routesrv/table"
)

// Seen is what one request, or one event of a stream, shows about its client, and what the client was sent.
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
	Sent   Sent
}

// Sent is the answer to a request, or the last event since the previous Seen that brings a stream to a table. The zero value means that
// there was none.
type Sent struct {
	// Began is when the request arrived or writing the event began. Ended is when the last byte was passed to the network.
	Began, Ended time.Time
	// Status is the status of the response. For a stream it is 226 for a delta and 200 for a table.
	Status int
	// Digest and Revision are of this replica's table from which the answer was made.
	Digest   table.Digest
	Revision uint64
	// Published is the digest of the full table: this table, or the one that it was derived from.
	Published table.Digest
	Encoding  string // as in the series of the responses
	Bytes     int    // of the body of a response; 0 for a stream
	Whole     bool   // the whole body was written
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

// answered counts an answer with n bytes of a body, and reports what a GET of a table has shown. whole means that the body was sent
// completely.
func (x *exchange) answered(status, n int, whole bool) {
	x.cache.cfg.Metrics.observeResponse(status, x.encoding, n)
	saw := x.cache.cfg.Saw
	if saw == nil || x.variant == nil || x.r.Method != http.MethodGet {
		return
	}
	seen := Seen{Request: x.r, Zone: x.zone, Ahead: x.kept, Sent: x.sent(status, n, whole)}
	if named := api.ParseTags(x.r.Header[api.HeaderIfNoneMatch]).List; len(named) > 0 {
		seen.Digest, seen.Revision = named[0].Digest, named[0].Revision
	}
	if whole && status == http.StatusOK && seen.Digest.IsZero() {
		seen.Digest, seen.Revision, seen.Ahead = seen.Sent.Digest, x.revision, false
	}
	saw(seen)
}

func (x *exchange) sent(status, n int, whole bool) Sent {
	return Sent{
		Began: x.began, Ended: time.Now(), Status: status, Digest: x.variant.table.Digest(), Revision: x.revision,
		Published: x.state.version.table.Digest(), Encoding: x.encoding.String(), Bytes: n, Whole: whole,
	}
}

// observe reports an event of a stream.
func (s *stream) observe(phase StreamPhase) {
	saw := s.cache.cfg.Saw
	if saw == nil {
		return
	}
	seen := Seen{Request: s.r, Zone: s.zone, Stream: phase, Ahead: s.ahead, Sent: s.sent}
	if s.sent = (Sent{}); s.has != nil {
		seen.Digest, seen.Revision = s.has.Digest, s.has.Revision
	}
	saw(seen)
}
