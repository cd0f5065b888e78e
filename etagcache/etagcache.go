// Package etagcache serves the current routing table over conditional HTTP: GET and HEAD of /routes and /routes/{zone}, and
// streams of what changes it under /routes/watch.
//
// A [Cache] is told about the reads of the source, with the table that each showed, by [Cache.Begin]. Its [Cache.Handler] answers with 200, 206, 226, 304, 404, 405, 412, 416 or 429 as laid down in RFC
// 9110, RFC 3229 and docs/protocol.md.
//
// # What it guarantees
//
// Status, headers and body of one response come from one table. Readers never wait for Publish: the bodies (identity,
// gzip, zstd) are made before one pointer is swapped. A zone table is made when somebody asks for it first; those who ask
// for that zone wait, nobody else does. Equal content has an equal digest, and who names it gets 304, at whatever revision,
// on whichever replica, before or after a restart. Who names a newer table than this replica has is not sent back to the
// older one, unless the source itself has gone back. Who was sent a body that broke off does not get 304 for it.
//
// # The ETag
//
//	"<64 hex digits>[.<revision>][~<rotation>][+gzip|+zstd]"
//
// The digest is that of the uncompressed text. The revision is the highest of the read that first gave this content, so
// that the content has nothing that was written later; it is left out where the source has none. The rotation counts bodies that
// broke off (below). A tag matches if digest and encoding are the same and its body is not known to have broken off; so a bare
// digest, as other route servers issue it, matches, too. Clients must treat the tag as opaque. Package wire reads and writes it.
//
// # Order of tables
//
// Replicas poll independently, so a client behind a round-robin meets replicas that are older than its table. They are
// told apart by revisions, but a read has more than one: each of its lists has its own, lists come from caches of the API
// server that lag behind, and the list of a kind that nobody writes to keeps an old revision for hours. Two numbers are
// sound whatever the caches do ([table.Read]): the content is complete up to the Oldest of a read, and has nothing from
// after its Newest. What is between the two may be in it or not. So two tables with different content can overlap, and
// comparing one number of each would send clients back.
//
// A request that names another digest with revision R, which is the Newest of a read that gave the client's table, gets
// 200 with the table of this replica only if that is certainly not older:
//
//   - R is not above the Oldest of the last read that showed the table: whatever the client has is in it; or
//   - this replica itself served the named table, before its table or beside it (as that of another zone), and saw it in
//     the source at R or later: it is behind by our own observation. That is what nearly all clients name after a change.
//     The last maxHistory (512) digests are remembered; or
//   - the claim below is refuted.
//
// Otherwise the request makes a claim: it gets 304, and Config.Recheck is called once for the claim, which asks for a
// read that goes past all caches. Such a read has the Oldest to decide it: it ends the claim if it reaches R, and the
// next request gets 200. If it started after the claim and is still below R, etcd was restored, and the claim is refuted:
// requests that name exactly this table get 200 with the older one, which the metric routesrv_older_tables_served_total
// counts. A read through caches never refutes. While no read completes, the answer is 304.
//
// The revision of a table changes in two cases, which change neither bytes nor digest, so that nobody downloads
// anything. It is raised to the Newest of the last read when a client is sent the table for one with a higher revision:
// a table A of revision 10 that is there again at 12 is newer than a table B of revision 11, and under its old name a
// replica that still has B would send the client back to it. And it is lowered when a read ends below it, because the
// source has gone back; the history is void then.
//
// A table that comes from a checkpoint is not known to be newer than anything until a read has confirmed it. A
// source without revisions (Newest 0) cannot be ordered: only the digest counts there.
//
// There is a limit that no server can lift: a client that ignores the ETag of a 304, as Skipper does, and was told by
// 304 that its A of revision 10 is current at 12, still names 10, and a replica that lags behind with B of 11 sends
// B. Only content that changed and changed back within a few seconds is affected, and the client is right again one
// poll later. During a rolling upgrade to a version that prints a route differently, clients download once per change of
// replica.
//
// # Bodies that broke off
//
// Skipper remembers the ETag before the body has arrived, so a 304 after a cut connection would leave it with half a
// table. Package delivery finds out which bodies have not arrived, with [Cache.WrapListener] and [Cache.Track], and names its
// limits. Once a body has broken off, requests from the same address that name its ETag get 200, under an ETag with a higher
// rotation: others behind the same address download at most once more, and the client with half a body cannot get 304 for what it
// does not have. Only the replica that sent the body knows.
//
// # Cost
//
// A table is encoded block by block ([table.Block]), and what was encoded is kept for as long as a version has the block: a
// change of one route costs one block in each encoding. Which routes differ between the last 64 versions is known by their
// ids alone; a delta takes the texts of the table that it leads to. So it may have a route that changed and changed back,
// and history costs next to nothing. A delta is made once for all who ask for it.
//
// # Streams
//
// A stream is a client that polls, seen from the other side: it names what it was sent last, is answered as a request with that
// If-None-Match would be, and waits for the next table. So it has no queue, all that was said about the order of tables holds
// for it, and a slow reader costs nobody anything. How many there are is limited, and how many full tables are on their way on
// streams at a time. docs/protocol.md has the events.
//
// # What it does not do
//
// It does not decide whether a table is good (package guard), does not read the source, and limits neither connections
// nor rate.
package etagcache

import (
	"errors"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/routesrv/routesrv/internal/delivery"
	"github.com/routesrv/routesrv/table"
)

// Defaults of Config.
const (
	DefaultRetryAfter    = 3 * time.Second
	DefaultMaxTableSends = 8
)

// Config is what a Cache needs. The zero value is usable.
type Config struct {
	// Logger gets a line for each change of state; nil discards.
	Logger *slog.Logger
	// Metrics counts; nil counts nowhere.
	Metrics *Metrics
	// Recheck asks for an early and consistent read of the source. It is called when a client names a table that this
	// replica cannot be sure to be as new as, from the goroutine of the request: it must not block. Calls may come close
	// together; joining and limiting them is left to it. nil: claims are decided by the reads that come anyway.
	Recheck func()
	// Published is told of each table that is served from now on and is another one than before; stale says that it comes from a
	// checkpoint. It is called while the cache is locked, one call at a time: it must not block, nor use the cache. nil: nobody is told.
	Published func(t *table.Table, stale bool)
	// Now is the clock for the duration of encoding; nil means time.Now. Times in headers are those of the tables and
	// reads.
	Now func() time.Time
	// RetryAfter is the advice to clients that come before the first table, rounded up to seconds. 0 means
	// DefaultRetryAfter.
	RetryAfter time.Duration
	// SharedMaxAge is for how long an HTTP cache between server and clients may serve an answer without asking again (RFC 9111 §5.2.2.10,
	// in whole seconds), and then for as long while it asks (RFC 5861 §3); while no server answers it may serve what it has for a day
	// (RFC 5861 §4). 0 means that caches ask for each request.
	SharedMaxAge time.Duration
	// EncodeOnDemand compresses a table when somebody asks for it in an encoding, and not when it is published: for a cache with one
	// client, or few. The first who asks waits for it.
	EncodeOnDemand bool
	// MaxStreams is how many streams may be open; 0 means that there is no /routes/watch.
	MaxStreams int
	// MaxTableSends is how many of them may be sent a full table at a time; the others wait for their turn, of which each lasts a
	// second at most. 0 means DefaultMaxTableSends.
	MaxTableSends int
	// Observer is told what clients show of themselves; nil means that nobody is. ObserveSent says that a table that was sent as a
	// whole counts also for a client that has named another one.
	Observer    Observer
	ObserveSent bool
	// Random is where jitter comes from: [0, 1), called concurrently. nil means math/rand.
	Random func() float64
	// Answered is told of each answer about a table, after it was written, for traces. It is called from the goroutines of requests,
	// concurrently, and must not block. nil costs nothing.
	Answered func(Answer)
}

// Cache serves the current table. All methods are safe for concurrent use.
type Cache struct {
	cfg        Config // set by New, read only
	retryAfter []string
	control    []string // the Cache-Control of answers with a table

	state   atomic.Pointer[state] // never nil
	started atomic.Uint64         // sequence number of the last poll that started
	claims  claims
	history history
	changes changeLog
	streams streams
	bodies  *delivery.Ledger
	sends   sends

	pieces   pieces
	encoders sync.Pool // of *encoder

	mu       sync.Mutex // held by who changes state, guards what follows
	ended    uint64     // sequence number of the last poll that ended
	versions uint64     // made so far
}

// New checks cfg and fills in its defaults. The Cache has no table and starts nothing.
func New(cfg Config) (*Cache, error) {
	if cfg.RetryAfter < 0 {
		return nil, errors.New("retry after: want no negative time")
	}
	if cfg.MaxStreams < 0 || cfg.MaxTableSends < 0 {
		return nil, errors.New("max streams and max table sends: want no negative number")
	}
	if cfg.SharedMaxAge < 0 || cfg.SharedMaxAge%time.Second != 0 {
		return nil, errors.New("shared max age: want whole seconds")
	}
	if cfg.MaxTableSends == 0 {
		cfg.MaxTableSends = DefaultMaxTableSends
	}
	if cfg.Random == nil {
		cfg.Random = rand.Float64
	}
	if cfg.RetryAfter == 0 {
		cfg.RetryAfter = DefaultRetryAfter
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	cfg.Logger = cfg.Logger.With("component", "etagcache")
	if cfg.Metrics == nil {
		cfg.Metrics = NewMetrics(nil)
	}
	if cfg.Recheck == nil {
		cfg.Recheck = func() {}
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	seconds := (cfg.RetryAfter + time.Second - 1) / time.Second
	c := &Cache{cfg: cfg, retryAfter: []string{strconv.Itoa(int(seconds))}, bodies: delivery.New(cfg.Metrics.BrokenBodies.Inc)}
	c.control = cacheControl(int(cfg.SharedMaxAge / time.Second))
	c.state.Store(&state{superseded: make(chan struct{}), outdated: make(chan struct{})})
	c.streams.init(cfg.MaxStreams, cfg.MaxTableSends)
	return c, nil
}

// Current returns the table that is served, nil before the first.
func (c *Cache) Current() *table.Table {
	if v := c.state.Load().version; v != nil {
		return v.table
	}
	return nil
}

// Status is a summary for /status.
type Status struct {
	Digest           table.Digest // of the current table; zero before the first
	Revision         uint64       // in the ETag of the current table
	ReadRevision     uint64       // Newest of the last read that showed the current table
	CompleteRevision uint64       // Oldest of that read; 0 if it is not known
	LastRead         time.Time    // of the source, with success
	Stale            bool         // from a checkpoint, not yet confirmed by a read
	Held             bool         // the last read showed another table, which is held back
	Claims           int          // tables named by clients that this replica cannot be sure to be as new as
}

// Status returns a summary of what is served.
func (c *Cache) Status() Status {
	st := c.state.Load()
	s := Status{
		ReadRevision: st.newest, CompleteRevision: st.oldest,
		LastRead: st.lastRead, Stale: st.stale, Held: st.held, Claims: c.claims.len(),
	}
	if st.version != nil {
		s.Digest = st.version.table.Digest()
		s.Revision = st.version.full.stamp.Load().revision
	}
	return s
}

// WrapListener makes the connections of l fit for [Cache.Track]. It belongs below TLS: wrap the TCP listener, then call Serve or
// ServeTLS.
func (c *Cache) WrapListener(l net.Listener) net.Listener { return delivery.WrapListener(l) }

// Track lets the cache find out which bodies arrived, on the connections of [Cache.WrapListener]. Call it before srv serves. Hooks
// that srv has already are kept.
func (c *Cache) Track(srv *http.Server) { delivery.Track(srv) }

// Handler serves /routes, /routes/{zone} and, if streams are allowed, /routes/watch, and 404 for every other path.
func (c *Cache) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/routes", func(w http.ResponseWriter, r *http.Request) { c.serve(w, r, "") })
	if c.cfg.MaxStreams > 0 {
		mux.HandleFunc("/routes/watch", c.watch)
	}
	mux.HandleFunc("/routes/{zone}", func(w http.ResponseWriter, r *http.Request) { c.serve(w, r, r.PathValue("zone")) })
	return mux
}
