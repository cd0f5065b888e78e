// Package etagcache serves the current routing table over conditional HTTP: GET and HEAD of /routes and /routes/{zone}.
//
// A [Cache] is given tables by [Cache.Publish] and told about the reads of the source by [Cache.PollStarted] and
// [Cache.PollCompleted]. Its [Cache.Handler] answers with 200, 206, 304, 404, 405, 412 or 416 as laid down in RFC
// 9110 and in the protocol of the route server.
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
// The digest is that of the uncompressed text. The revision is the one of the read that first gave this content; it is
// left out where the source has none. The rotation counts bodies that broke off (below). A tag matches if digest and
// encoding are the same and its body is not known to have broken off; so a bare digest, as other route servers issue it,
// matches, too. Clients must treat the tag as opaque.
//
// # Order of tables
//
// Replicas poll independently, so a client behind a round-robin meets replicas that are older than its table. The read
// revision of a replica is that of the newest read which showed the served table. A request that names another digest
// with revision R
//
//   - newer than the read revision makes a claim: it gets 304, and Config.Recheck is called once for the claim. When a read that
//     started after the claim completes and the source is still older than R, the claim is refuted (etcd was restored):
//     requests that name exactly R get 200 with the older table, which the metric routesrv_older_tables_served_total
//     counts. A read that reaches R ends the claim. While no read completes, the answer is 304;
//   - between the table's revision and the read revision names content that this replica did not see, because it was there only between
//     two reads. A table A of revision 10, seen again by the read of revision 12, is newer than a table B of
//     revision 11. The client gets A with 200, and A is restamped: its ETag from then on carries the read
//     revision 12, or a replica that still has B would send the client back to it. The bytes and the digest are the
//     same, so nobody else downloads anything;
//   - older than the table's revision gets 200.
//
// A source without revisions (revision 0) cannot be ordered: only the digest counts there.
//
// There is a limit that no server can lift: a client that ignores the ETag of a 304, as Skipper does, and was told by
// 304 that its A of revision 10 is current at 12, still names 10, and a replica that lags behind with B of 11 sends
// B. Only content that changed and changed back within a few seconds is affected, and the client is right again one
// poll later. And revisions are no finer than the reads: two replicas that read different content at one revision
// cannot be ordered. During a rolling upgrade to a version that prints a route differently, clients download once per
// change of replica.
//
// # Bodies that broke off
//
// Skipper remembers the ETag before the body has arrived, so a 304 after a cut connection would leave it with half a
// table. A body is known to have broken off if writing it failed, if the request was cancelled during it, or if the
// connection was closed before its last byte was acknowledged. The last takes [Cache.WrapListener] and
// [Cache.ConnContext], because the kernel's buffer can swallow a whole body. From then on requests from the same address
// that name this ETag get 200, under an ETag with a higher rotation: others behind the same address download at
// most once more, and the broken one cannot get 304 for what it does not have.
//
// It is the replica that sent the body which knows, until it restarts or has seen maxBroken (4096) more breaks. What
// a client gives up after the last byte was handed to the kernel is not noticed over HTTP/2, nor over TLS if the
// client had asked for the connection to be closed, nor on other systems than Linux unless the connection is reset.
//
// # What it does not do
//
// It does not decide whether a table is good (package guard), does not read the source, and limits neither connections
// nor rate.
package etagcache

import (
	"errors"
	"log/slog"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/routesrv/routesrv/table"
)

// DefaultRetryAfter is the default of Config.RetryAfter.
const DefaultRetryAfter = 3 * time.Second

// Config is what a Cache needs. The zero value is usable.
type Config struct {
	// Logger gets a line for each change of state; nil discards.
	Logger *slog.Logger
	// Metrics counts; nil counts nowhere.
	Metrics *Metrics
	// Recheck asks for an early read of the source that is at least as new as the call. It is called when a client names
	// a newer table, from the goroutine of the request: it must not block. Calls may come close together; joining and
	// limiting them is left to it. nil: claims are decided by the reads that come anyway.
	Recheck func()
	// Now is the clock for the duration of encoding; nil means time.Now. Times in headers are those of the tables and
	// reads.
	Now func() time.Time
	// RetryAfter is the advice to clients that come before the first table, rounded up to seconds. 0 means
	// DefaultRetryAfter.
	RetryAfter time.Duration
}

// Cache serves the current table. All methods are safe for concurrent use.
type Cache struct {
	cfg        Config // set by New, read only
	retryAfter []string

	state   atomic.Pointer[state] // never nil
	started atomic.Uint64         // sequence number of the last poll that started
	claims  claims
	bodies  bodies

	encoders encoders

	mu        sync.Mutex // held by who changes state
	completed uint64     // sequence number of the last poll that completed; guarded by mu
}

// state is all that a response is made from. It is immutable, apart from zones that are still to be made and stamps.
type state struct {
	version  *version  // nil before the first table
	read     uint64    // the read revision: through which version is known to be the content of the source
	lastRead time.Time // of the last read with success; zero if there was none
	stale    bool      // version comes from a checkpoint, and no read has confirmed it yet
	held     bool      // the last read showed another table, which is held back

	sourceRead []string // header values
	tableState []string
}

// New checks cfg and fills in its defaults. The Cache has no table and starts nothing.
func New(cfg Config) (*Cache, error) {
	if cfg.RetryAfter < 0 {
		return nil, errors.New("retry after: want no negative time")
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
	c := &Cache{cfg: cfg, retryAfter: []string{strconv.Itoa(int(seconds))}}
	c.bodies.init(cfg.Metrics.BrokenBodies)
	c.state.Store(&state{})
	return c, nil
}

// Publish makes t the current table. It returns when t is served: the bodies are made first, which takes some 100 ms for
// 40 MB. The revision of t becomes the read revision. A table with the content of the current one changes no ETag and no
// Last-Modified.
//
// The order within one poll is PollStarted, Publish if the table changed and may be served, PollCompleted or PollHeld.
func (c *Cache) Publish(t *table.Table) {
	c.publish(t, t.Time(), false)
}

// Restore makes t, which comes from a checkpoint, the current table. It is marked stale until a read confirms or
// replaces it. lastRead is when the source was last read with success before the restart; zero if that is not known.
func (c *Cache) Restore(t *table.Table, lastRead time.Time) {
	c.publish(t, lastRead, true)
}

func (c *Cache) publish(t *table.Table, lastRead time.Time, stale bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	old := c.state.Load()
	next := &state{version: old.version, read: t.Revision(), lastRead: old.lastRead, stale: stale}
	if lastRead.After(next.lastRead) {
		next.lastRead = lastRead
	}
	if old.version == nil || old.version.table.Digest() != t.Digest() {
		next.version = c.newVersion(t, old.version)
	}
	next.version.restampDown(next.read)
	c.swap(next)
	c.cfg.Metrics.observeTable(next.version)
	if next.version != old.version {
		c.cfg.Logger.Info("table published", "routes", t.Len(), "bytes", t.Bytes(), "digest", t.Digest().String(), "revision", t.Revision(), "stale", stale)
	}
}

// PollStarted says that a read of the source begins and returns its number, which goes to PollCompleted or PollHeld.
// A read that fails needs no further call.
func (c *Cache) PollStarted() (seq uint64) {
	return c.started.Add(1)
}

// PollCompleted says that the read seq completed at the given time, with the given revision (0 if the source has none),
// and that the current table is what it showed, whether or not that is a new one. A call for a read that started before
// one that has completed already is ignored.
func (c *Cache) PollCompleted(seq, revision uint64, at time.Time) {
	c.complete(seq, revision, at, false)
}

// PollHeld is PollCompleted for a read that showed another table than the current one, which a guard holds back. The
// current table is then not known to be that of the given revision: a client that got the newer table elsewhere
// must keep it.
func (c *Cache) PollHeld(seq, revision uint64, at time.Time) {
	c.complete(seq, revision, at, true)
}

func (c *Cache) complete(seq, revision uint64, at time.Time, held bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if seq <= c.completed {
		return
	}
	c.completed = seq
	old := c.state.Load()
	next := &state{version: old.version, read: old.read, lastRead: at, stale: old.stale, held: held}
	if !held {
		next.read = revision
		next.stale = false
		if next.version != nil {
			next.version.restampDown(revision)
		}
	}
	c.swap(next)
	if n := c.claims.complete(seq, revision, next.read); n > 0 {
		c.cfg.Logger.Warn("source is older than tables that clients hold", "revision", revision, "claims", n)
	}
}

// swap publishes next. The caller holds mu.
func (c *Cache) swap(next *state) {
	if !next.lastRead.IsZero() {
		next.sourceRead = []string{next.lastRead.UTC().Format("2006-01-02T15:04:05.000Z07:00")}
		c.cfg.Metrics.LastRead.Set(float64(next.lastRead.UnixMilli()) / 1000)
	}
	switch {
	case next.stale:
		next.tableState = tableStale
	case next.held:
		next.tableState = tableHeld
	}
	c.cfg.Metrics.observeState(next)
	c.state.Store(next)
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
	Digest       table.Digest // of the current table; zero before the first
	Revision     uint64       // in the ETag of the current table
	ReadRevision uint64       // of the newest read that showed the current table
	LastRead     time.Time    // of the source, with success
	Stale        bool         // from a checkpoint, not yet confirmed by a read
	Held         bool         // the last read showed another table, which is held back
	Claims       int          // revisions named by clients that this replica has not seen
}

// Status returns a summary of what is served.
func (c *Cache) Status() Status {
	st := c.state.Load()
	s := Status{ReadRevision: st.read, LastRead: st.lastRead, Stale: st.stale, Held: st.held, Claims: c.claims.len()}
	if st.version != nil {
		s.Digest = st.version.table.Digest()
		s.Revision = st.version.full.stamp.Load().revision
	}
	return s
}

// Handler serves /routes and /routes/{zone}, and 404 for every other path.
func (c *Cache) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/routes", func(w http.ResponseWriter, r *http.Request) { c.serve(w, r, "") })
	mux.HandleFunc("/routes/{zone}", func(w http.ResponseWriter, r *http.Request) { c.serve(w, r, r.PathValue("zone")) })
	return mux
}
