package etagcache

import (
	"net/http"

	"github.com/routesrv/routesrv/internal/wire"
	"github.com/routesrv/routesrv/table"
)

// Observer is told what clients show of themselves. Its methods are called from the goroutines of requests, concurrently, and must
// not block; they must not call the Cache, but for [Cache.Order].
type Observer interface {
	// Saw is told about each GET of a table after it was answered, and about streams.
	Saw(Seen)
	// Published is told about each table that is served from then on. Its number is higher than those before.
	Published(order uint64, digest table.Digest, revision uint64)
}

// Seen is what one request shows.
type Seen struct {
	Request *http.Request // of the stream, for one; read only
	Zone    string        // that was asked for
	// Digest and Revision are of the table that the client names, and for one that names none that it was sent as a whole. Zero:
	// neither. For a stream they are what it was brought to.
	Digest   table.Digest
	Revision uint64
	// Ahead says that the client has a table that this replica cannot be sure to be as new as.
	Ahead  bool
	Stream StreamPhase
	Sent   bool // Digest was sent, and not named
}

// StreamPhase says what Seen tells of a stream.
type StreamPhase uint8

// The phases of a stream.
const (
	NoStream StreamPhase = iota // an ordinary request
	StreamOpened
	StreamWritten // something was written, with success as far as is known
	StreamClosed
)

// Order returns the number of the last version that the table was part of, as the full one or that of a zone; 0 for a table that is
// not remembered.
func (c *Cache) Order(d table.Digest) uint64 {
	c.history.mu.Lock()
	defer c.history.mu.Unlock()
	if known, ok := c.history.seen[d]; ok {
		return known.order
	}
	return 0
}

// Changed returns the number of the version from which on the routes with these ids have been as they are in the current table, or a
// later one, as far as changes are remembered: a client that holds it or a later one has these routes.
func (c *Cache) Changed(ids []string) uint64 { return c.changes.changed(ids) }

// observe tells what a request has shown. whole says that the table was sent as a whole.
func (x *exchange) observe(whole bool) {
	o := x.cache.cfg.Observer
	if o == nil || x.r.Method != http.MethodGet {
		return
	}
	seen := Seen{Request: x.r, Zone: x.zone, Ahead: x.kept}
	if named := wire.ParseTags(x.r.Header[wire.HeaderIfNoneMatch]).List; len(named) > 0 {
		seen.Digest, seen.Revision = named[0].Digest, named[0].Revision
	}
	if whole && (seen.Digest == table.Digest{} || x.cache.cfg.ObserveSent) {
		seen.Digest, seen.Revision, seen.Ahead, seen.Sent = x.variant.table.Digest(), x.stamp.revision, false, true
	}
	o.Saw(seen)
}

// observe tells about a stream.
func (s *stream) observe(phase StreamPhase) {
	o := s.cache.cfg.Observer
	if o == nil {
		return
	}
	seen := Seen{Request: s.r, Zone: s.zone, Stream: phase, Ahead: s.ahead}
	if has := s.has.Load(); has != nil {
		seen.Digest, seen.Revision = has.Digest, has.Revision
	}
	o.Saw(seen)
}
