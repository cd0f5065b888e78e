package etagcache_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/routesrv/routesrv/etagcache"
	"github.com/routesrv/routesrv/table"
)

// kinds is the number of lists of one read.
const kinds = 4

// contents is what a table is made of: for each kind the number of its last write that changed something. Numbers only grow, so
// contents can be compared whatever the revisions say.
type contents [kinds]int

// cluster is a source with one revision counter, as an API server has.
type cluster struct {
	tb       testing.TB
	revision uint64
	log      [kinds][]write
	number   int // of the last write that changed something
	restored bool
	tables   map[contents]*table.Table
}

type write struct {
	revision uint64
	content  int
}

func newCluster(tb testing.TB) *cluster {
	c := &cluster{tb: tb, revision: 100, tables: make(map[contents]*table.Table)}
	for k := range kinds {
		c.write(k, true)
	}
	return c
}

// write changes an object of the kind, or only a part that affects no table, such as its status.
func (c *cluster) write(kind int, content bool) {
	c.revision++
	if content {
		c.number++
		c.log[kind] = append(c.log[kind], write{c.revision, c.number})
	} else {
		c.log[kind] = append(c.log[kind], write{c.revision, c.now()[kind]})
	}
}

func (c *cluster) now() contents {
	var now contents
	for k, log := range c.log {
		now[k] = log[len(log)-1].content
	}
	return now
}

// restore resets the cluster to its state at the revision.
func (c *cluster) restore(revision uint64) {
	c.restored, c.revision = true, revision
	for k, log := range c.log {
		for len(log) > 1 && log[len(log)-1].revision > revision {
			log = log[:len(log)-1]
		}
		c.log[k] = log[:len(log):len(log)]
	}
}

// table returns the table of the contents. The table of zone z uses only the first two kinds.
func (c *cluster) table(of contents) *table.Table {
	t, ok := c.tables[of]
	if !ok {
		t = parseTable(c.tb, fmt.Sprintf(`r: Path("/%d/%d") -> <"http://a?zone=z", "http://b?zone=z", "http://c?zone=z", "http://x%d.%d">;`,
			of[0], of[1], of[2], of[3]), 0, start)
		c.tables[of] = t
	}
	return t
}

// member is a route server with its own API server, whose caches lag, each kind independently.
type member struct {
	*etagcache.Cache
	cluster *cluster
	handler http.Handler
	metrics []*etagcache.Metrics // one for each start
	caches  [kinds]cacheOfKind
	fresh   bool // it has not read anything yet, and trusts no cache
	held    bool // a guard holds back every new table
	recheck bool
	poll    *modelPoll // nil if none is in progress
	made    *table.Table
}

// cacheOfKind models the API server's cache of one kind. It stands at a write to that kind and has the revision of that write, until a
// consistent read shows that nothing was written since.
type cacheOfKind struct {
	at       int
	revision uint64
}

// modelPoll is a read with the lists made so far.
type modelPoll struct {
	end        func(*table.Table, table.Read)
	shown      *table.Table // nil if it is held back
	consistent bool
	lists      int
	found      contents
	read       table.Read
	published  bool
}

func newMember(c *cluster) *member {
	m := &member{cluster: c}
	m.restart(false)
	m.pollNow()
	return m
}

// restart starts the process again, with the table from a last-known-good file or with none.
func (m *member) restart(fromFile bool) {
	before := m.Cache
	m.metrics = append(m.metrics, etagcache.NewMetrics(nil))
	m.Cache = newCache(m.cluster.tb, etagcache.Config{
		Metrics: m.metrics[len(m.metrics)-1], Recheck: func() { m.recheck = true },
	})
	m.handler, m.poll, m.made, m.recheck, m.fresh = m.Handler(), nil, nil, false, true
	if fromFile && before != nil && before.Current() != nil {
		m.Restore(before.Current(), start)
	}
}

// advance moves the cache of a kind to the next write, or to the last.
func (m *member) advance(kind int, all bool) {
	log, cache := m.cluster.log[kind], &m.caches[kind]
	for cache.at < len(log)-1 {
		cache.at++
		cache.revision = max(cache.revision, log[cache.at].revision)
		if !all {
			return
		}
	}
}

func (m *member) begin() {
	if m.poll == nil {
		m.poll = &modelPoll{end: m.Begin(), consistent: m.recheck}
		m.recheck = false
	}
}

// abort ends a poll, unsuccessfully unless its table is made.
func (m *member) abort() {
	if m.poll != nil && m.poll.published {
		m.end()
	}
	m.recheck = m.recheck || m.poll != nil && m.poll.consistent
	m.poll = nil
}

// list makes the next list of the poll.
func (m *member) list() {
	p := m.poll
	if p == nil || p.lists == kinds {
		return
	}
	log, cache := m.cluster.log[p.lists], &m.caches[p.lists]
	if p.consistent || m.fresh {
		*cache = cacheOfKind{len(log) - 1, m.cluster.revision}
	}
	p.found[p.lists] = log[cache.at].content
	if p.lists == 0 || cache.revision < p.read.Oldest {
		p.read.Oldest = cache.revision
	}
	p.read.Newest = max(p.read.Newest, cache.revision)
	p.lists++
}

// publish makes the missing lists and their table, as the poller does. The table is shown when the poll ends, unless it is held
// back.
func (m *member) publish() {
	p := m.poll
	for p.lists < kinds {
		m.list()
	}
	p.published, m.fresh = true, false
	p.read.At, p.read.Consistent = start, p.consistent
	t := m.cluster.table(p.found)
	if m.made == nil || m.made.Digest() != t.Digest() {
		m.made = t.WithRevision(p.read.Newest) // the first read that found it
	}
	p.shown = m.made
	switch cur := m.Current(); {
	case cur != nil && cur.Digest() == t.Digest():
		p.shown = cur
	case cur != nil && m.held:
		p.read.Held, p.shown = true, nil
	}
}

// end advances the end of the poll by one step: the table, then the result of the read.
func (m *member) end() {
	switch p := m.poll; {
	case p == nil:
	case !p.published:
		m.publish()
	default:
		m.poll = nil
		p.end(p.shown, p.read)
	}
}

func (m *member) pollNow() {
	m.begin()
	for m.poll != nil {
		m.end()
	}
}

// older returns how many responses were counted as going back.
func (m *member) older() (n float64) {
	for _, metrics := range m.metrics {
		n += testutil.ToFloat64(metrics.OlderTables)
	}
	return n
}

// proxy is a client. A client that updates uses the ETag of a 304; the other kind, such as Skipper, only that of a 200.
type proxy struct {
	cluster *cluster
	path    string
	updates bool
	addr    string

	etag    string
	holds   contents // -1 for kinds that its table does not use
	fetched int
	back    int // downloads under a lower revision than before
}

// ask sends one request and checks the response against what is true for every history.
func (c *proxy) ask(m *member) {
	tb := c.cluster.tb
	tb.Helper()
	w := ask(m.handler, c.path, c.etag, c.addr)
	etag := w.Header().Get("Etag")
	switch w.Code {
	case http.StatusNotFound: // no table yet
		return
	case http.StatusNotModified:
		if c.etag == "" || etag[:65] != c.etag[:65] {
			tb.Fatalf("304 with %s to a client that has %s", etag, c.etag)
		}
		if c.updates {
			c.etag = etag
		}
		return
	case http.StatusOK:
	default:
		tb.Fatalf("status %d", w.Code)
	}
	got := contentsOf(tb, w)
	if c.etag != "" {
		if got == c.holds {
			tb.Fatalf("downloaded %v again: named %s, got %s", got, c.etag, etag)
		}
		for k := range kinds {
			if got[k] < c.holds[k] && !c.cluster.restored {
				tb.Fatalf("sent from %v (%s) to %v (%s)", c.holds, c.etag, got, etag)
			}
		}
		if revisionOf(etag) < revisionOf(c.etag) {
			c.back++
		}
	}
	c.etag, c.holds = etag, got
	c.fetched++
}

// contentsOf reads the table of a response.
func contentsOf(tb testing.TB, w *httptest.ResponseRecorder) contents {
	tb.Helper()
	got := contents{-1, -1, -1, -1}
	text := w.Body.String()
	if _, err := fmt.Sscanf(text, "r: Path(\"/%d/%d\")", &got[0], &got[1]); err != nil {
		tb.Fatalf("body %q: %v", text, err)
	}
	if _, rest, ok := strings.Cut(text, "http://x"); ok {
		if _, err := fmt.Sscanf(rest, "%d.%d", &got[2], &got[3]); err != nil {
			tb.Fatalf("body %q: %v", text, err)
		}
	}
	return got
}
