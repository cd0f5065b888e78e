package model_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/routesrv/routesrv/api"
	"github.com/routesrv/routesrv/compile/rules"
	"github.com/routesrv/routesrv/dataplane"
	"github.com/routesrv/routesrv/etagcache"
	"github.com/routesrv/routesrv/guard"
	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/poller"
	"github.com/routesrv/routesrv/publish"
	"github.com/routesrv/routesrv/table"
)

// The levels, from the cluster to the proxy.
const (
	root = iota
	relayed
	plane
)

var levelNames = [...]string{"root", "relay", "plane"}

// level is one process of the chain, with its disk, and a client that polls it.
type level struct {
	name      string
	cache     *etagcache.Cache
	publisher *publish.Publisher
	accept    func(publish.Acceptance) (*table.Table, error)
	stop      func()

	home, away string               // the folder of the last-known-good file, and its name while the disk is unavailable
	gone       bool                 // the disk is unavailable
	missed     atomic.Bool          // something was served since the disk became unavailable
	served     map[string]time.Time // when each table was last seen to be served, by digest

	mu        sync.Mutex
	decisions []api.Decision
	asked     int // how many of them were checked

	watch    watchman
	now      *seen  // the table last read; nil if nothing is served
	etag     string // of the client
	revision uint64 // likewise
	restores int    // of the source, that the client has seen
	late     int    // samples in which the table of the level above should have arrived
}

func (l *level) file() string { return filepath.Join(l.home, "table.eskip") }

func (l *level) decided(d api.Decision) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.decisions = append(l.decisions, d)
}

// recorded reports whether the decision about the table was recorded.
func (l *level) recorded(what, digest string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, d := range l.decisions {
		if d.What == what && d.Digest.String() == digest {
			return true
		}
	}
	return false
}

// newDecision returns the latest decision about the table since the last call. It also accepts a decision of a moment ago about a
// table that another one has already replaced. It returns an empty text if there is none.
func (l *level) newDecision(digest string) (what string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := l.asked; i < len(l.decisions); i++ {
		if d := l.decisions[i]; d.What != api.DecidedHeld && (d.Digest.String() == digest || time.Since(d.Time) <= 2*sampling) {
			what, l.asked = d.What, i+1
		}
	}
	return what
}

// begin starts the process of a level.
func (m *model) begin(at int, peer *table.Table) {
	l := m.levels[at]
	l.cache = m.must(etagcache.New(etagcache.Config{MaxStreams: 100, Recheck: func() { m.recheck(at) }})).(*etagcache.Cache)
	var run func(context.Context) error
	var recheck func()
	switch at {
	case root:
		p := m.beginRoot(l, peer)
		l.accept, run, recheck = p.Accept, p.Run, p.Recheck
	case relayed:
		cfg := m.fetch(l, "root", nil)
		cfg.Guard = guard.Config{Hold: modelHold, Window: modelWindow}
		r := m.must(dataplane.NewRelay(dataplane.RelayConfig{Fetch: cfg, Cache: l.cache})).(*dataplane.Relay)
		r.Boot()
		l.publisher, l.accept, run, recheck = r.Publisher(), r.Accept, r.Run, r.Recheck
	default:
		cfg := m.fetch(l, "relay", l.cache)
		cfg.Guard = guard.Config{Hold: modelHold, Window: modelWindow}
		c := m.must(dataplane.New(cfg)).(*dataplane.Client)
		c.Boot()
		l.publisher, l.accept, run, recheck = c.Publisher(), c.Accept, c.Run, c.Recheck
	}
	m.mu.Lock()
	m.rechecks[at] = recheck
	m.mu.Unlock()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- run(ctx) }()
	l.stop = func() {
		cancel()
		if err := <-done; err != nil {
			m.t.Error(err)
		}
	}
	m.network.Set(l.name, l.cache.Handler())
}

// half replaces the jitter, so that a script always gives the same result.
func half() float64 { return 0.5 }

func (m *model) must(v any, err error) any {
	if err != nil {
		m.t.Fatal(err)
	}
	return v
}

// recheck forwards a recheck request of a cache.
func (m *model) recheck(at int) {
	m.mu.Lock()
	ask := m.rechecks[at]
	m.mu.Unlock()
	if ask != nil {
		ask()
	}
}

func (m *model) beginRoot(l *level, peer *table.Table) *poller.Poller {
	compiler := m.must(poller.NewCompiler(rules.Options{
		EndpointSlices: true, DisableCatchAllRoutes: true, Healthcheck: m.generated,
	}, nil, nil)).(*poller.Compiler)
	cfg := publish.Config{
		Sink: &trippingSink{l.cache, m}, Guard: m.guardConfig(), Builder: &trippingBuilder{compiler, m}, Decided: l.decided,
		File: publish.LastKnownGood(l.home),
	}
	if m.planted.publisher != nil {
		m.planted.publisher(&cfg)
	}
	g := m.must(publish.New(cfg)).(*publish.Publisher)
	g.Boot(1<<30, nil)
	if peer != nil {
		g.CompareWith(peer)
	}
	p := m.must(poller.New(poller.Config{
		Source: m, Publisher: g, Interval: 3 * time.Second, MaxBackoff: 3 * time.Second,
		Compile: func(s *kube.Snapshot) table.List {
			m.trip("compile")
			return compiler.Compile(s)
		},
	})).(*poller.Poller)
	l.publisher = g
	return p
}

// Read implements poller.Source.
func (m *model) Read(context.Context, kube.ReadOptions) (*kube.Snapshot, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.world.read()
}

func (m *model) guardConfig() guard.Config {
	w := &m.levels[root].watch
	return guard.Config{
		Hold: modelHold, Window: modelWindow, Manual: w.manual, MaxRoutes: w.maxRoutes,
	}
}

func (m *model) fetch(l *level, from string, sink publish.Sink) dataplane.Config {
	cfg := dataplane.Config{
		URLs: []string{"http://" + from}, Transport: m.network, StateDir: l.home, Sink: sink, Decided: l.decided, MaxBackoff: 3 * time.Second,
		Random: half,
	}
	if m.polling {
		cfg.UpdateMode = dataplane.Poll
	}
	if l.name == levelNames[plane] {
		cfg.Transport = roundTripper(m.names)
	}
	return cfg
}

// trippingSink panics when the model says so, and so does trippingBuilder.
type trippingSink struct {
	publish.Sink
	m *model
}

func (s *trippingSink) Begin() func(*table.Table, table.Read) {
	end := s.Sink.Begin()
	return func(t *table.Table, r table.Read) {
		s.m.trip("sink")
		end(t, r)
	}
}

func (s *trippingSink) Publish(t *table.Table) {
	s.m.trip("sink")
	s.Sink.Publish(t)
}

type trippingBuilder struct {
	publish.Builder
	m *model
}

func (b *trippingBuilder) CompileBeside(s *kube.Snapshot) table.List {
	b.m.trip("beside")
	return b.Builder.CompileBeside(s)
}

func (m *model) trip(what string) {
	m.mu.Lock()
	panics := m.panics
	m.mu.Unlock()
	if panics == what {
		panic("planted: " + what)
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// names forwards a request of the data plane to the relay.
func (m *model) names(r *http.Request) (*http.Response, error) {
	m.checkNames(r)
	return m.network.RoundTrip(r)
}

// checkNames checks the tables that the data plane names: it must serve or hold them.
func (m *model) checkNames(r *http.Request) {
	m.mu.Lock()
	defer m.mu.Unlock()
	l := m.levels[plane]
	if m.planted.request != nil {
		m.planted.request(r)
	}
	if r.Method != http.MethodGet {
		return
	}
	has := make(map[string]bool)
	if t := l.publisher.Table(); t != nil {
		has[t.Digest().String()] = true
	}
	if c := l.publisher.Held(); c != nil {
		has[c.Table.Digest().String()] = true
	}
	for name := range strings.SplitSeq(r.Header.Get("If-None-Match"), ", ") {
		if d, _ := parseETag(name); d != "" && !has[d] {
			m.violates("Names", "the data plane names %s, which it neither serves nor holds", name)
		}
	}
}

// parseETag returns the digest and revision of an ETag.
func parseETag(etag string) (digest string, revision uint64) {
	text := strings.Trim(strings.TrimPrefix(etag, "W/"), `"`)
	if i := strings.IndexAny(text, "~+"); i >= 0 {
		text = text[:i]
	}
	digest, number, _ := strings.Cut(text, ".")
	revision, _ = strconv.ParseUint(number, 10, 64)
	return digest, revision
}

// get sends a request to a level.
func (l *level) get(etag string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, "/routes", nil)
	if etag != "" {
		r.Header.Set("If-None-Match", etag)
	}
	w := httptest.NewRecorder()
	l.cache.Handler().ServeHTTP(w, r)
	return w
}

// look reads what a level serves, and polls it as a client.
func (m *model) look(l *level) {
	l.now = nil
	if w := l.get(""); w.Code == http.StatusOK {
		l.now = m.read(l, w)
	}
	w := l.get(l.etag)
	if w.Code != http.StatusOK {
		return
	}
	m.read(l, w)
	_, revision := parseETag(w.Header().Get("Etag"))
	if revision < l.revision && l.restores == m.restores {
		m.violates("Monotonic", "a client of the %s goes from revision %d back to %d", l.name, l.revision, revision)
	}
	if revision < l.revision {
		l.restores = m.restores
	}
	l.etag, l.revision = w.Header().Get("Etag"), revision
}

// read checks a response on its own.
func (m *model) read(l *level, w *httptest.ResponseRecorder) *seen {
	s := &seen{}
	s.digest, s.revision = parseETag(w.Header().Get("Etag"))
	sum := sha256.Sum256(w.Body.Bytes())
	if hex.EncodeToString(sum[:]) != s.digest {
		m.violates("Names", "the %s serves %x under the name %s", l.name, sum, s.digest)
	}
	if known := m.parsed[s.digest]; known != nil {
		s.routes, s.asked = known.routes, known.asked
		return s
	}
	var err error
	if s.routes, err = readTable(w.Body.String()); err != nil {
		m.violates("Complete", "the %s serves what does not parse: %v", l.name, err)
	}
	s.asked = contentOf(s).count()
	if wrong := m.world.madeOf(s); wrong != "" {
		m.violates("Complete", "the %s: %s", l.name, wrong)
	}
	m.parsed[s.digest] = s
	return s
}

// looksAtFile checks the last-known-good file of a level.
func (m *model) looksAtFile(l *level) {
	if l.gone {
		l.missed.Store(true)
		return
	}
	text, err := os.ReadFile(l.file())
	if err != nil {
		if l.now != nil && !l.missed.Load() {
			m.violates("File", "the %s has no last-known-good file: %v", l.name, err)
		}
		return
	}
	t, _, err := table.ReadFile(bytes.NewReader(text))
	if err != nil {
		m.violates("File", "the last-known-good file of the %s does not parse: %v", l.name, err)
		return
	}
	const behind = 35 * time.Second // it is written every 30 s
	digest := t.Digest().String()
	switch since := time.Since(l.served[digest]); {
	case l.served[digest].IsZero():
		m.violates("File", "the last-known-good file of the %s has %s, which was never served", l.name, digest)
	case l.now != nil && digest == l.now.digest:
		l.missed.Store(false)
	case l.now != nil && since > behind && !l.missed.Load():
		m.violates("File", "the last-known-good file of the %s has %s, which was served %v ago, served is %s", l.name, digest, since, l.now.digest)
	}
}

func (l *level) String() string {
	if l.now == nil {
		return l.name + " serves nothing"
	}
	c := contentOf(l.now)
	return fmt.Sprintf("%s serves %s at %d: %v %v", l.name, l.now.digest[:8], l.now.revision, c.versions, c.addresses)
}
