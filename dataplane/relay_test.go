package dataplane_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/routesrv/routesrv/api"
	"github.com/routesrv/routesrv/dataplane"
	"github.com/routesrv/routesrv/etagcache"
	"github.com/routesrv/routesrv/guard"
	"github.com/routesrv/routesrv/publish"
	"github.com/routesrv/routesrv/table"
)

// newTable makes a table of n routes, one of which contains the revision.
func relayTable(t testing.TB, revision uint64, n int) *table.Table {
	t.Helper()
	var doc strings.Builder
	for i := range n {
		endpoints := `<roundRobin, "http://10.0.0.1:80?zone=x", "http://10.0.0.2:80?zone=x", "http://10.0.0.3:80?zone=x", "http://10.0.0.4:80?zone=y">`
		if i == 0 {
			endpoints = fmt.Sprintf(`"http://10.0.1.%d:80"`, revision)
		}
		fmt.Fprintf(&doc, "r%d: Path(\"/%x\") -> %s;\n", i, i*7919, endpoints)
	}
	routes, err := table.Parse(doc.String())
	if err != nil {
		t.Fatal(err)
	}
	tab, err := table.New(routes, revision, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return tab
}

// node is a route server of a tree: a root, for which the test makes the reads, or a relay.
type node struct {
	*etagcache.Cache
	*dataplane.Relay
	rechecks chan struct{}      // of a root
	metrics  *etagcache.Metrics // of a root
	stop     func()             // of a relay
}

// tree is a set of route servers in memory, by the hosts of their URLs.
type tree struct {
	t       *testing.T
	network *localNetwork
	nodes   map[string]*node
}

func newTree(t *testing.T) *tree {
	return &tree{t: t, network: &localNetwork{}, nodes: make(map[string]*node)}
}

func (tr *tree) root(name string) *node {
	tr.t.Helper()
	n := &node{rechecks: make(chan struct{}, 1), metrics: etagcache.NewMetrics(nil)}
	var err error
	if n.Cache, err = etagcache.New(etagcache.Config{MaxStreams: 100, Metrics: n.metrics, Recheck: func() {
		select {
		case n.rechecks <- struct{}{}:
		default:
		}
	}}); err != nil {
		tr.t.Fatal(err)
	}
	tr.nodes[name] = n
	tr.network.Set(name, n.Cache.Handler())
	return n
}

// relay makes a relay and runs it. The file is in dir, unless dir is empty.
func (tr *tree) relay(name, dir string, upstream ...string) *node {
	tr.t.Helper()
	return tr.relayWith(name, dataplane.RelayConfig{Fetch: tr.fetch(dir, upstream...)})
}

func (tr *tree) fetch(dir string, upstream ...string) dataplane.Config {
	cfg := dataplane.Config{Transport: tr.network}
	for _, u := range upstream {
		cfg.URLs = append(cfg.URLs, "http://"+u)
	}
	if dir != "" {
		cfg.StateDir = dir
	}
	return cfg
}

func (tr *tree) relayWith(name string, cfg dataplane.RelayConfig) *node {
	tr.t.Helper()
	n := &node{}
	var err error
	if n.Cache, err = etagcache.New(etagcache.Config{MaxStreams: 100, Metrics: n.metrics, Recheck: func() { n.Relay.Recheck() }}); err != nil {
		tr.t.Fatal(err)
	}
	cfg.Cache = n.Cache
	if n.Relay, err = dataplane.NewRelay(cfg); err != nil {
		tr.t.Fatal(err)
	}
	n.Boot()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- n.Run(ctx) }()
	n.stop = func() {
		cancel()
		if err := <-done; err != nil {
			tr.t.Errorf("%s: %v", name, err)
		}
	}
	tr.nodes[name] = n
	tr.network.Set(name, n.Cache.Handler())
	return n
}

// end ends all relays.
func (tr *tree) end() {
	for _, n := range tr.nodes {
		if n.stop != nil {
			n.stop()
		}
	}
	tr.network.Wait()
}

// kill removes a node without notice.
func (tr *tree) kill(name string) {
	tr.network.Set(name, nil)
	tr.network.Cut(name)
	if stop := tr.nodes[name].stop; stop != nil {
		stop()
	}
	delete(tr.nodes, name)
}

// reads tells a root of a read. A consistent read is complete up to its revision.
func (n *node) reads(t *table.Table, consistent bool) {
	r := table.Read{Newest: t.Revision(), Consistent: consistent, At: time.Now()}
	if consistent {
		r.Oldest = t.Revision()
	}
	n.Begin()(t, r)
}

func relayAfter(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// head requests the headers of a node.
func (n *node) head(path string, header ...string) http.Header {
	r := httptest.NewRequest(http.MethodHead, path, nil)
	for _, line := range header {
		name, value, _ := strings.Cut(line, ": ")
		r.Header.Set(name, value)
	}
	w := httptest.NewRecorder()
	n.Cache.Handler().ServeHTTP(w, r)
	w.Header().Set("status", fmt.Sprint(w.Code))
	return w.Header()
}

// play runs a test with a root, two relays of it, and a relay of these.
func playTree(t *testing.T, follow dataplane.UpdateMode, f func(t *testing.T, tr *tree, root *node)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		tr := newTree(t)
		root := tr.root("root")
		root.reads(relayTable(t, 10, 300), true)
		for _, name := range []string{"left", "right"} {
			cfg := tr.fetch("", "root")
			cfg.UpdateMode = follow
			tr.relayWith(name, dataplane.RelayConfig{Fetch: cfg})
		}
		relayAfter(time.Second)
		cfg := tr.fetch(t.TempDir(), "left", "right")
		cfg.UpdateMode = follow
		tr.relayWith("leaf", dataplane.RelayConfig{Fetch: cfg})
		defer tr.end()
		relayAfter(time.Second)
		f(t, tr, root)
	})
}

// TestEveryLevelHasTheSameNames: digest, revision, ETag and count, of the full table and of zones, in all encodings, and the time
// of the read.
func TestEveryLevelHasTheSameNames(t *testing.T) {
	for _, follow := range []dataplane.UpdateMode{dataplane.Auto, dataplane.Poll} {
		t.Run(string(follow), func(t *testing.T) {
			playTree(t, follow, func(t *testing.T, tr *tree, root *node) {
				for i := range uint64(3) {
					root.reads(relayTable(t, 11+i, 300), true)
					relayAfter(15 * time.Second) // a heartbeat reaches all levels
					root.reads(relayTable(t, 11+i, 300), true)
					relayAfter(40 * time.Second)
					for _, path := range []string{"/routes", "/routes/x", "/routes/nowhere"} {
						for _, encoding := range []string{"identity", "gzip", "zstd"} {
							want := root.head(path, "Accept-Encoding: "+encoding)
							for _, name := range []string{"left", "leaf"} {
								got := tr.nodes[name].head(path, "Accept-Encoding: "+encoding)
								for _, h := range []string{"status", "Etag", "X-Count", "X-Revision", "X-Source-Read", "X-Table-State"} {
									if got.Get(h) != want.Get(h) {
										t.Errorf("%s %s %s: %s is %q, want %q", name, path, encoding, h, got.Get(h), want.Get(h))
									}
								}
							}
						}
					}
				}
			})
		})
	}
}

// TestChangesGoThroughTheTreeAtOnce: over streams.
func TestChangesGoThroughTheTreeAtOnce(t *testing.T) {
	playTree(t, dataplane.Stream, func(t *testing.T, tr *tree, root *node) {
		for i := range uint64(5) {
			next := relayTable(t, 11+i, 300)
			root.reads(next, true)
			relayAfter(50 * time.Millisecond)
			for name, n := range tr.nodes {
				if n.Current().Digest() != next.Digest() || n.Current().Revision() != next.Revision() {
					t.Errorf("%s has revision %d, want %d", name, n.Current().Revision(), next.Revision())
				}
			}
		}
		if got := tr.nodes["leaf"].Client.Status(); got.Transport != "stream" || got.Applied.Revision != 15 {
			t.Errorf("upstream is %+v", got)
		}
	})
}

// TestStateOfTheRootPassesThrough: every level reports held and stale, and a table of a root that is no longer read becomes old.
func TestStateOfTheRootPassesThrough(t *testing.T) {
	playTree(t, dataplane.Auto, func(t *testing.T, tr *tree, root *node) {
		leaf := tr.nodes["leaf"]
		root.Begin()(nil, table.Read{Newest: 11, Held: true, At: time.Now()})
		relayAfter(time.Second)
		if got := leaf.head("/routes").Get("X-Table-State"); got != "held" {
			t.Errorf("state %q, want held", got)
		}
		root.reads(relayTable(t, 10, 300), true)
		relayAfter(31 * time.Second)
		read := root.head("/routes").Get("X-Source-Read")
		if got := leaf.head("/routes"); got.Get("X-Table-State") != "" || got.Get("X-Source-Read") != read {
			t.Errorf("state %q, read %s, want %s", got.Get("X-Table-State"), got.Get("X-Source-Read"), read)
		}
		relayAfter(time.Hour)
		if got := leaf.head("/routes").Get("X-Source-Read"); got != read {
			t.Errorf("read %s, want %s: nobody has read since", got, read)
		}

		tr.kill("root") // it comes back with its last-known-good file
		again := tr.root("root")
		again.Restore(relayTable(t, 10, 300), time.Now().Add(-time.Hour))
		relayAfter(5 * time.Minute)
		if got := leaf.head("/routes").Get("X-Table-State"); got != "stale" {
			t.Errorf("state %q, want stale", got)
		}
		again.reads(relayTable(t, 10, 300), true)
		relayAfter(31 * time.Second)
		if got := leaf.head("/routes").Get("X-Table-State"); got != "" {
			t.Errorf("state %q, want none", got)
		}
	})
}

// TestWhoDoesNotKnowTheTableSaysNothingOfIt: a root with an older table leaves its relays with theirs, and what they know about
// it stays. What the root says of its own table does not apply.
func TestWhoDoesNotKnowTheTableSaysNothingOfIt(t *testing.T) {
	playTree(t, dataplane.Auto, func(t *testing.T, tr *tree, root *node) {
		leaf := tr.nodes["leaf"]
		root.reads(relayTable(t, 12, 301), true)
		relayAfter(31 * time.Second)
		root.Begin()(nil, table.Read{Newest: 13, Held: true, At: time.Now()})
		relayAfter(31 * time.Second)
		state, digest := leaf.head("/routes").Get("X-Table-State"), leaf.Current().Digest()
		if state != "held" {
			t.Fatalf("state %q, want held", state)
		}
		tr.kill("root") // another one comes, with an older last-known-good file
		again := tr.root("root")
		again.Restore(relayTable(t, 9, 300), time.Now().Add(-time.Hour))
		relayAfter(5 * time.Minute)
		if got := again.head("/routes").Get("X-Table-State"); got != "stale" {
			t.Fatalf("the root says %q of its own table, want stale", got)
		}
		if got := leaf.head("/routes").Get("X-Table-State"); got != "held" || leaf.Current().Digest() != digest {
			t.Errorf("state %q of table %s, want held and %s", got, leaf.Current().Digest(), digest)
		}
	})
}

// TestRestartServesTheFile: it is marked stale, and named to the upstream server.
func TestRestartServesTheFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := newTree(t)
		dir := t.TempDir()
		root := tr.root("root")
		tab := relayTable(t, 10, 300)
		root.reads(tab, true)
		tr.relay("leaf", dir, "root")
		relayAfter(time.Second)
		read := tr.nodes["leaf"].head("/routes").Get("X-Source-Read")
		tr.kill("leaf")
		tr.network.Set("root", nil)
		leaf := tr.relay("leaf", dir, "root")
		defer tr.end()
		got := leaf.head("/routes")
		want := root.head("/routes").Get("Etag")
		if got.Get("X-Table-State") != "stale" || got.Get("Etag") != want || got.Get("X-Source-Read") != read {
			t.Errorf("headers %v, want %s of %s", got, want, read)
		}
		tr.network.Set("root", root.Cache.Handler())
		relayAfter(time.Minute)
		if got := leaf.head("/routes").Get("X-Table-State"); got != "" {
			t.Errorf("state %q", got)
		}
		if sent := testutil.ToFloat64(root.metrics.StreamEvents.WithLabelValues(api.EventFetch)); sent != 0 {
			t.Errorf("the stream of the relay was told to fetch %v full tables, want none", sent)
		}
	})
}

// TestUnknownTableIsAskedAbout: a client with a table that the relay has never had keeps it until the root has decided, and no
// longer.
func TestUnknownTableIsAskedAbout(t *testing.T) {
	for _, follow := range []dataplane.UpdateMode{dataplane.Auto, dataplane.Poll} {
		t.Run(string(follow), func(t *testing.T) {
			playTree(t, follow, func(t *testing.T, tr *tree, root *node) {
				leaf := tr.nodes["leaf"]
				asks := func(revision uint64) string {
					return leaf.head("/routes", fmt.Sprintf(`If-None-Match: "%064x.%d"`, 1, revision)).Get("status")
				}
				if got := asks(7); got != "304" { // older, but the leaf cannot know that
					t.Errorf("an unknown table gives %s", got)
				}
				relayAfter(15 * time.Second)
				if got := asks(7); got != "200" {
					t.Errorf("a table that the root knows to be older gives %s", got)
				}
				if got := asks(12); got != "304" {
					t.Errorf("an unknown table gives %s", got)
				}
				relayAfter(20 * time.Second)
				if got := asks(12); got != "304" {
					t.Errorf("a table that may be newer gives %s", got)
				}
				select {
				case <-root.rechecks:
				default:
					t.Fatal("the root was not asked to read")
				}
				root.reads(relayTable(t, 10, 300).WithRevision(14), true) // the same content, later
				relayAfter(20 * time.Second)
				if got := asks(12); got != "200" {
					t.Errorf("a table that the root has passed gives %s", got)
				}
				if got, want := leaf.head("/routes").Get("Etag"), root.head("/routes").Get("Etag"); got != want || !strings.Contains(got, ".14") {
					t.Errorf("the leaf has %s, the root %s: who comes from 12 must not be given 10", got, want)
				}
			})
		})
	}
}

// TestRestoredClusterIsBelievedWhenTheRootDoes: a client with a table from before the restore gets the older one through the
// tree.
func TestRestoredClusterIsBelievedWhenTheRootDoes(t *testing.T) {
	playTree(t, dataplane.Auto, func(t *testing.T, tr *tree, root *node) {
		leaf := tr.nodes["leaf"]
		before := root.head("/routes").Get("Etag")
		restored := relayTable(t, 5, 300)
		for range 20 {
			root.reads(restored, true)
			relayAfter(3 * time.Second)
		}
		for name, n := range tr.nodes {
			if n.Current().Digest() != restored.Digest() {
				t.Errorf("%s has revision %d", name, n.Current().Revision())
			}
		}
		leaf.head("/routes", "If-None-Match: "+before)
		relayAfter(20 * time.Second)
		if got := leaf.head("/routes", "If-None-Match: "+before).Get("status"); got != "200" {
			t.Errorf("a client of before gets %s", got)
		}
		unknown := fmt.Sprintf(`If-None-Match: "%064x.9"`, 3)
		leaf.head("/routes", unknown)
		for range 10 {
			relayAfter(3 * time.Second)
			root.reads(restored, true)
		}
		if got := leaf.head("/routes", unknown).Get("status"); got != "200" {
			t.Errorf("a client of before, with a table that nobody here has had, gets %s", got)
		}
	})
}

// TestKilledMiddle: the leaf moves to the other relay, without a gap and without an older table.
func TestKilledMiddle(t *testing.T) {
	playTree(t, dataplane.Auto, func(t *testing.T, tr *tree, root *node) {
		leaf := tr.nodes["leaf"]
		tr.kill("left")
		next := relayTable(t, 11, 300)
		root.reads(next, true)
		relayAfter(10 * time.Second)
		if leaf.Current().Digest() != next.Digest() {
			t.Errorf("the leaf has revision %d", leaf.Current().Revision())
		}
		if got := leaf.Client.Status().Stream; got.URL != "http://right/routes" {
			t.Errorf("follows %+v", got)
		}
	})
}

// TestGuardOfARelay: losses pass, an empty table does not; with a limit losses are held, and that is reported.
func TestGuardOfARelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := newTree(t)
		root := tr.root("root")
		root.reads(relayTable(t, 10, 300), true)
		plain := tr.relay("plain", "", "root")
		limited := tr.fetch("", "root")
		limited.Guard.MaxLoss = 0.5
		strict := tr.relayWith("strict", dataplane.RelayConfig{Fetch: limited})
		defer tr.end()
		relayAfter(time.Second)
		lost := relayTable(t, 11, 10)
		root.reads(lost, true)
		relayAfter(time.Second)
		if plain.Current().Digest() != lost.Digest() {
			t.Error("the relay holds a loss that the root has let pass")
		}
		if strict.Current().Digest() == lost.Digest() || !strict.Publisher().Holding().Held {
			t.Error("the relay with a limit does not hold the loss")
		}
		if got := strict.head("/routes").Get("X-Table-State"); got != "held" {
			t.Errorf("state %q", got)
		}
		if _, err := strict.Accept(publish.Acceptance{Digest: lost.Digest()}); err != nil {
			t.Fatal(err)
		}
		relayAfter(time.Second)
		if got := strict.head("/routes"); strict.Current().Digest() != lost.Digest() || got.Get("X-Table-State") != "" {
			t.Errorf("after the acceptance: %v", got)
		}
		empty, err := table.New(nil, 12, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		root.reads(empty, true)
		relayAfter(10 * time.Minute)
		if plain.Current().Len() == 0 {
			t.Error("an empty table has passed")
		}
	})
}

func TestConfigOfARelay(t *testing.T) {
	cache, err := etagcache.New(etagcache.Config{})
	if err != nil {
		t.Fatal(err)
	}
	for want, cfg := range map[string]dataplane.RelayConfig{
		"no cache": {Fetch: dataplane.Config{URLs: []string{"http://a"}}},
		"no URL":   {Cache: cache},
		"Zone and": {Cache: cache, Fetch: dataplane.Config{URLs: []string{"http://a"}, Zone: "x"}},
		"ZoneFile": {Cache: cache, Fetch: dataplane.Config{URLs: []string{"http://a"}, ZoneFile: filepath.Join(t.TempDir(), "zone")}},
		"max loss": {Cache: cache, Fetch: dataplane.Config{URLs: []string{"http://a"}, Guard: guard.Config{MaxLoss: 2}}},
	} {
		if _, err := dataplane.NewRelay(cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
	r, err := dataplane.NewRelay(dataplane.RelayConfig{Cache: cache, Fetch: dataplane.Config{URLs: []string{"http://a"}, Logger: slog.New(slog.DiscardHandler)}})
	if err != nil {
		t.Fatal(err)
	}
	if got := r.Status(); got.Revision != 0 || !got.Started.IsZero() {
		t.Errorf("status %+v", got)
	}
}

// TestRelayTellsOfNoReadThatNothingProves: a response without X-Source-Read, which a cache in between may produce, does not make
// the source of the relay's table appear younger.
func TestRelayTellsOfNoReadThatNothingProves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := newTree(t)
		defer tr.end()
		tab := relayTable(t, 10, 3)
		root := tr.root("root")
		read := time.Now()
		root.Begin()(tab, table.Read{Oldest: 10, Newest: 10, At: read})
		cfg := tr.fetch("", "root")
		cfg.UpdateMode = dataplane.Poll
		n := tr.relayWith("relay", dataplane.RelayConfig{Fetch: cfg})
		time.Sleep(10 * time.Second)
		tr.network.Set("root", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			name, _, _ := strings.Cut(r.Header.Get("If-None-Match"), ", ")
			w.Header().Set("Etag", name)
			w.Header().Set("Date", time.Now().UTC().Format(http.TimeFormat))
			w.WriteHeader(http.StatusNotModified)
		}))
		time.Sleep(20 * time.Minute)
		if s := n.Client.Status(); s.Failures != 0 || !s.Applied.Confirmed.After(read.Add(15*time.Minute)) {
			t.Fatalf("status %+v, want answers that confirm the table", s)
		}
		if got := n.Cache.Status().LastRead; !got.Equal(read.Truncate(time.Millisecond)) {
			t.Errorf("the relay says that its source was read at %v, want %v", got, read)
		}
	})
}
