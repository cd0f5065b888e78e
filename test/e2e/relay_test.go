package e2e

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/routesrv/routesrv/test/programs"
)

// startRelay starts a route server that serves the table of others.
func startRelay(t *testing.T, stateDir string, upstream ...string) *process {
	t.Helper()
	main, support := programs.FreeAddress(t), programs.FreeAddress(t)
	return startProcess(t, binary, main, support, []string{
		"-address=" + main, "-support-listener=" + support, "-wait-for-healthcheck-interval=0s", "--state-dir=" + stateDir,
		fmt.Sprintf("-source-poll-timeout=%d", pollMillis), "--upstream=" + strings.Join(upstream, ","),
	})
}

// startFetching starts a data plane that only fetches from route servers.
func startFetching(t *testing.T, transport string, routeServers ...string) *process {
	t.Helper()
	main, support := programs.FreeAddress(t), programs.FreeAddress(t)
	return startProcess(t, dataplane, main, support, []string{
		"--mode=Exec", "--address=" + main, "--support-listener=" + support, "-source-poll-timeout=300", "--update-mode=" + transport,
		"--state-dir=" + t.TempDir(), "--upstream=" + strings.Join(routeServers, ","),
	})
}

// counted matches the number that counterIngress puts into a table.
var counted = regexp.MustCompile(`setResponseHeader\("N", "(\d+)"\)`)

func countOf(body string) int {
	m := counted.FindStringSubmatch(body)
	if m == nil {
		return -1
	}
	n, _ := strconv.Atoi(m[1])
	return n
}

// orderWatcher polls a data plane constantly, like watcher, and checks that the counter never decreases.
type orderWatcher struct {
	*watcher
	mu   sync.Mutex
	last int
}

func watchOrder(url string) *orderWatcher {
	ctx, cancel := context.WithCancel(context.Background())
	w := &orderWatcher{watcher: &watcher{digests: map[string]int{}, cancel: cancel, done: make(chan struct{})}, last: -1}
	go func() {
		defer close(w.done)
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			a, err := programs.Fetch(ctx, url, "")
			if ctx.Err() != nil {
				return
			}
			w.watcher.check(a, err)
			if err == nil {
				w.order(countOf(a.Body))
			}
		}
	}()
	return w
}

func (w *orderWatcher) order(n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if n < w.last {
		w.watcher.mu.Lock()
		defer w.watcher.mu.Unlock()
		w.problems = append(w.problems, fmt.Sprintf("went back from %d to %d", w.last, n))
	}
	w.last = n
}

// stop ends it and reports what was wrong.
func (w *orderWatcher) stop(t *testing.T, name string) {
	t.Helper()
	w.cancel()
	<-w.done
	for i, p := range w.problems {
		if i == 5 {
			t.Errorf("%s: and %d more", name, len(w.problems)-i)
			break
		}
		t.Errorf("%s: %s", name, p)
	}
	if len(w.digests) < 3 {
		t.Errorf("%s: saw %d tables, too few to show anything", name, len(w.digests))
	}
}

// fetchStatus is the part of /status about the client that the tests read.
type fetchStatus struct {
	Transport string
	Stream    *struct{ URL, Connected string }
	Applied   *struct{ ETag string }
}

// TestTreeWithAKilledMiddle runs a root on a real API server, two relays, and data planes behind them, and kills a relay with
// SIGKILL while objects change: no data plane has a gap or an older table, all of them get the new one from the other relay, and
// every level has the same ETag.
func TestTreeWithAKilledMiddle(t *testing.T) {
	c := ownCluster(t)
	withShop(t, c)
	root := startRoutesrv(t, newFaultProxy(t, c))
	root.Ready(t)
	withObjects(t, c, counterIngress(0))
	dirs := []string{t.TempDir(), t.TempDir()}
	relays := []*process{startRelay(t, dirs[0], root.Main), startRelay(t, dirs[1], root.Main)}
	for _, r := range relays {
		r.Ready(t)
	}
	planes := map[string]*process{
		"auto":   startFetching(t, "auto", relays[0].Main, relays[1].Main),
		"poll":   startFetching(t, "poll", relays[0].Main, relays[1].Main),
		"stream": startFetching(t, "stream", relays[0].Main, relays[1].Main),
		"other":  startFetching(t, "auto", relays[1].Main, relays[0].Main),
	}
	watchers := make(map[string]*orderWatcher)
	for name, p := range planes {
		p.Ready(t)
		watchers[name] = watchOrder(p.Main + "/routes")
	}
	n := 0
	change := func() {
		t.Helper()
		n++
		withObjects(t, c, counterIngress(n))
	}
	converge := func() {
		t.Helper()
		for name, p := range planes {
			programs.Eventually(t, fmt.Sprintf("change %d in the data plane %s", n, name), func() bool {
				return countOf(p.get(t, "/routes", "").Body) == n
			})
		}
	}
	for range 3 {
		change()
		converge()
	}
	sameNames(t, root, relays)
	var st struct{ Fetch fetchStatus }
	planes["stream"].supportJSON(t, "/status", &st)
	if st.Fetch.Transport != "stream" || st.Fetch.Stream == nil || !strings.HasPrefix(st.Fetch.Stream.URL, relays[0].Main) {
		t.Errorf("the data plane follows %+v", st.Fetch.Stream)
	}

	relays[0].Kill(t)
	for range 3 {
		change()
		converge()
	}
	planes["stream"].supportJSON(t, "/status", &st)
	if st.Fetch.Stream == nil || !strings.HasPrefix(st.Fetch.Stream.URL, relays[1].Main) {
		t.Errorf("the data plane follows %+v, want the other relay", st.Fetch.Stream)
	}

	back := startRelay(t, dirs[0], root.Main) // with its file
	back.Ready(t)
	change()
	converge()
	programs.Eventually(t, "the change in the relay that is back", func() bool { return countOf(back.get(t, "/routes", "").Body) == n })
	sameNames(t, root, []*process{back, relays[1]})
	for name, w := range watchers {
		w.stop(t, name)
	}
}

// sameNames requires every relay to serve the root's table with the same ETag.
func sameNames(t *testing.T, root *process, relays []*process) {
	t.Helper()
	for _, path := range []string{"/routes", "/routes/eu-central-1a"} {
		want := root.get(t, path, "")
		for _, r := range relays {
			var got programs.Answer
			programs.Eventually(t, "the table of the root in a relay", func() bool {
				got = r.get(t, path, "")
				return got.Body == want.Body
			})
			for _, h := range []string{"Etag", "X-Count", "X-Revision"} {
				if got.Header.Get(h) != want.Header.Get(h) {
					t.Errorf("%s: %s is %s, the root has %s", path, h, got.Header.Get(h), want.Header.Get(h))
				}
			}
			if a := r.get(t, path, want.Header.Get("Etag")); a.Status != http.StatusNotModified {
				t.Errorf("%s: the ETag of the root gives %d", path, a.Status)
			}
		}
	}
	var status struct{ Upstream *fetchStatus }
	relays[0].supportJSON(t, "/status", &status)
	if status.Upstream == nil || status.Upstream.Applied == nil || digestOf(strings.TrimSuffix(status.Upstream.Applied.ETag, "+zstd")) == "" {
		t.Errorf("/status says of the upstream: %+v", status.Upstream)
	}
}

// TestRelayWithoutItsUpstreamServesItsFile: a relay is restarted while the root is down, and a data plane is started then.
func TestRelayWithoutItsUpstreamServesItsFile(t *testing.T) {
	c := ownCluster(t)
	withShop(t, c)
	root := startRoutesrv(t, newFaultProxy(t, c))
	root.Ready(t)
	dir := t.TempDir()
	relay := startRelay(t, dir, root.Main)
	relay.Ready(t)
	programs.Eventually(t, "the table of the root", func() bool { return relay.get(t, "/routes", "").Body == root.get(t, "/routes", "").Body })
	want := root.get(t, "/routes", "")
	programs.Eventually(t, "the file", func() bool {
		var status struct {
			LastKnownGood struct{ Written time.Time } `json:"last_known_good"`
		}
		relay.supportJSON(t, "/status", &status)
		return !status.LastKnownGood.Written.IsZero()
	})
	relay.Kill(t)
	root.Kill(t)

	again := startRelay(t, dir, root.Main)
	again.Ready(t)
	got := again.get(t, "/routes", "")
	if got.Body != want.Body || got.Header.Get("Etag") != want.Header.Get("Etag") || got.Header.Get("X-Table-State") != "stale" {
		t.Errorf("serves %s (%s), want %s, stale", got.Header.Get("Etag"), got.Header.Get("X-Table-State"), want.Header.Get("Etag"))
	}
	plane := startFetching(t, "auto", again.Main)
	plane.Ready(t)
	programs.Eventually(t, "the table in the data plane", func() bool { return plane.get(t, "/routes", "").Body == want.Body })
}
