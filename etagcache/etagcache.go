// Package etagcache serves the current routing table over conditional HTTP: GET and HEAD of /routes and /routes/{zone}, and
// streams of its changes under /routes/watch.
//
// [Cache.Begin] tells a [Cache] about each read of the source and the table that it showed. [Cache.Handler] answers as defined in
// RFC 9110, RFC 3229 and docs/reference/protocol.md.
//
// Status, headers and body of one response come from one table. Readers never wait for Publish, which swaps one pointer. A zone
// table or a compressed body is built on its first request; only requests for the same bytes wait. Equal content has an equal
// digest, and a client that names it gets 304, at any revision, on any replica, before or after a restart.
//
// # The ETag
//
//	"<64 hex digits>[.<revision>][~<rotation>][+gzip|+zstd]"
//
// The digest is computed over the uncompressed text. The revision is the highest list revision of the read that first produced
// this content; the tag omits it if the source has no revisions. The rotation counts bodies that broke off (below). A tag matches
// if digest and encoding are equal and its body is not known to have broken off; so a bare digest matches, too.
//
// # Order of tables
//
// Replicas poll independently, so a client behind a load balancer meets replicas whose table is older than its own. Revisions
// order tables, but each list of a read has its own, and the list of a kind without writes keeps an old one for hours. Two numbers
// are reliable ([table.Read]): the content is complete up to the Oldest of a read, and has nothing newer than its Newest.
//
// A request that names another digest with revision R, the Newest of a read that produced the client's table, gets 200 with this
// replica's table only if that table is certainly not older:
//
//   - R is not above the highest Oldest of the reads so far: this replica's table includes everything that the client has; or
//   - this replica itself served the named table, before its current table or beside it (for another zone), and saw it in the
//     source at R or later. The last 512 digests are remembered; or
//   - the claim below is refuted.
//
// Otherwise the request makes a claim: it gets 304, and the cache calls Config.Recheck, which requests a read that bypasses all
// caches. If the Oldest of that read reaches R, the claim ends, and the next request gets 200. If it is still below R, although
// the read started after the claim, etcd was restored, and the claim is refuted: requests that name exactly this table get 200
// with the older one, which routesrv_older_tables_served_total counts. While no read completes, the answer is 304.
//
// When a client that names a higher revision is sent the table, its revision is raised to the Newest of the last read: if content
// A of revision 10 is current again at 12, it is newer than table B of revision 11, and under its old revision a replica that
// still has B would send the client back to B. If the source goes back in time, the history is discarded, and claims decide.
//
// A table from a last-known-good file does not count as newer than any other table until a read has confirmed it. Tables of a
// source without revisions (Newest 0) have no order: only the digest counts.
//
// One limitation is beyond a server's control: a client that ignores the ETag of a 304, as Skipper does, still names revision 10
// after a 304 said that its A is current at 12, and a lagging replica with B of revision 11 sends B. The next poll corrects it.
//
// # Bodies that broke off
//
// Skipper remembers the ETag before the body has arrived, so a 304 after a cut connection would leave it with half a table.
// Therefore the cache remembers bodies whose writing failed, and requests from the same address that name the ETag of such a body
// get 200 with an ETag of a higher rotation. Only the replica that sent the body knows this, and it does not notice a connection
// that ends after the kernel has taken the whole body.
//
// # Cost
//
// A table is encoded block by block ([table.Block]) when the first client asks for an encoding; versions share the results. The
// cache remembers only the ids of changed routes of the last 64 versions; a delta contains the texts of its target table, and is
// built once for all clients. A stream gets, whenever there is a new table, the same answer as a request with its last table in
// If-None-Match. So it needs no queue, and a slow reader does not affect others.
//
// Other modules should not import it: it may change with every release.
package etagcache

import (
	"cmp"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/routesrv/routesrv/api"
	"github.com/routesrv/routesrv/table"
)

// Config configures a Cache. The zero value is usable.
type Config struct {
	// Logger logs each change of state; nil discards.
	Logger *slog.Logger
	// Metrics counts; nil counts nothing.
	Metrics *Metrics
	// Recheck requests an early and consistent read of the source: a client names a table that may be newer than this replica's.
	// It must not block, and merges and limits such requests. If nil, the regular reads decide claims.
	Recheck func()
	// Published is called for each newly served table, with a number higher than all previous ones; stale means that it comes
	// from a last-known-good file. It is called with the cache locked: it must not block or use the cache. It may be nil.
	Published func(order uint64, t *table.Table, stale bool)
	// MaxStreams is how many streams may be open; 0 turns /routes/watch off.
	MaxStreams int
	// Saw is called after each GET of a table was answered, and for streams. It is called concurrently, in the goroutines of
	// requests, must not block, and must not call the Cache, except [Cache.Order]. It may be nil.
	Saw func(Seen)
}

// Cache serves the current table. All methods are safe for concurrent use.
type Cache struct {
	*compressors
	cfg Config // set by New, read only

	state   atomic.Pointer[serving] // never nil
	started atomic.Uint64           // sequence number of the last poll that started
	claims  claims
	history history
	streams streams
	broken  brokenBodies

	mu       sync.Mutex // guards the fields below; held while state changes
	ended    uint64     // sequence number of the last poll that ended
	versions uint64     // number of versions so far
}

// New checks cfg and fills in its defaults. The Cache has no table and starts no goroutine.
func New(cfg Config) (*Cache, error) {
	if cfg.MaxStreams < 0 {
		return nil, errors.New("max streams must not be negative")
	}
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler)).With("component", "etagcache")
	if cfg.Metrics == nil {
		cfg.Metrics = NewMetrics(nil)
	}
	if cfg.Recheck == nil {
		cfg.Recheck = func() {}
	}
	c := &Cache{
		compressors: newCompressors(), cfg: cfg,
		streams: streams{max: cfg.MaxStreams, metrics: cfg.Metrics, draining: make(chan struct{})},
	}
	c.state.Store(&serving{superseded: make(chan struct{})})
	return c, nil
}

// Current returns the served table, or nil before the first one.
func (c *Cache) Current() *table.Table {
	if v := c.state.Load().version; v != nil {
		return v.table
	}
	return nil
}

// Status describes the served table; nil before the first one.
func (c *Cache) Status() *api.Table {
	st := c.state.Load()
	if st.version == nil {
		return nil
	}
	t := st.version.table
	return &api.Table{
		Digest: t.Digest(), Revision: st.version.full.revision.Load(), ReadRevision: st.newest, Routes: t.Len(), Bytes: t.Bytes(),
		Zones: append([]string{}, t.Zones()...), Time: t.Time(), LastRead: st.read.At, AgeSeconds: api.AgeSeconds(time.Now(), st.read.At),
		Stale: st.read.Stale, Held: st.read.Held,
	}
}

// Handler returns the handler of /routes, /routes/{zone} and, if streams are allowed, /routes/watch. Other paths get 404.
func (c *Cache) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/routes", func(w http.ResponseWriter, r *http.Request) { c.serve(w, r, "") })
	if c.cfg.MaxStreams > 0 {
		mux.HandleFunc("/routes/watch", c.watch)
	}
	mux.HandleFunc("/routes/{zone}", func(w http.ResponseWriter, r *http.Request) { c.serve(w, r, r.PathValue("zone")) })
	return mux
}
