package e2e

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/routesrv/routesrv/eskip"
	"github.com/routesrv/routesrv/test/programs"
)

// sidecar is a running dataplane-client with its mode file.
type sidecar struct {
	*process
	modeFile string
}

// startSidecar starts the built dataplane-client, reading the API behind the proxy and fetching from the route servers.
func startSidecar(t *testing.T, api *faultProxy, mode string, routeServers []string, args ...string) *sidecar {
	t.Helper()
	token, err := api.cluster.token(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s := &sidecar{modeFile: filepath.Join(t.TempDir(), "mode")}
	s.setMode(t, mode)
	main, support := programs.FreeAddress(t), programs.FreeAddress(t)
	all := append(sourceArgs(t, api, token), "--address="+main, "--support-listener="+support,
		"--mode-file="+s.modeFile, "--pod-name=e2e", "--state-dir="+t.TempDir())
	for _, u := range routeServers {
		all = append(all, "--upstream="+u)
	}
	s.process = startProcess(t, dataplane, main, support, append(all, args...))
	return s
}

// setMode writes the mode as a mounted ConfigMap changes: a new file replaces the old one.
func (s *sidecar) setMode(t *testing.T, mode string) {
	t.Helper()
	next := s.modeFile + ".next"
	if err := os.WriteFile(next, []byte(mode+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(next, s.modeFile); err != nil {
		t.Fatal(err)
	}
}

// sidecarStatus is the part of /status of a dataplane-client that the tests read.
type sidecarStatus struct {
	Mode    string `json:"mode"`
	Asked   string `json:"asked"`
	Refused string `json:"refused"`
	Origin  string `json:"origin"`
	Cutover *struct {
		Ready       bool   `json:"ready"`
		Reason      string `json:"reason"`
		Comparisons int    `json:"clean_comparisons"`
		Differences int    `json:"differences"`
	} `json:"cutover"`
	Table *struct {
		Digest string `json:"digest"`
		Stale  bool   `json:"stale"`
	} `json:"table"`
}

func (s *sidecar) state(t *testing.T) sidecarStatus {
	t.Helper()
	var st sidecarStatus
	s.supportJSON(t, "/status", &st)
	return st
}

// awaitMode waits until the mode is in force and its producer is served.
func (s *sidecar) awaitMode(t *testing.T, mode, origin string) {
	t.Helper()
	programs.Eventually(t, "mode "+mode+" with a table of "+origin, func() bool {
		st := s.state(t)
		return strings.EqualFold(st.Mode, mode) && strings.Contains(st.Origin, origin)
	})
}

// watcher is a proxy that polls constantly and records the tables.
type watcher struct {
	mu       sync.Mutex
	digests  map[string]int
	problems []string
	cancel   context.CancelFunc
	done     chan struct{}
}

// watch polls the URL every 50 ms. Every answer must be a whole table.
func watch(url string) *watcher {
	ctx, cancel := context.WithCancel(context.Background())
	w := &watcher{digests: map[string]int{}, cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(w.done)
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			if a, err := programs.Fetch(ctx, url, ""); ctx.Err() == nil {
				w.check(a, err)
			}
		}
	}()
	return w
}

func (w *watcher) check(a programs.Answer, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err != nil || a.Status != http.StatusOK {
		w.problems = append(w.problems, fmt.Sprintf("gap: status %d, error %v", a.Status, err))
		return
	}
	sum := sha256.Sum256([]byte(a.Body))
	digest := hex.EncodeToString(sum[:])
	if digest != digestOf(a.Header.Get("Etag")) {
		w.problems = append(w.problems, "mix: the body is not what the ETag names")
	}
	if _, seen := w.digests[digest]; !seen {
		if _, err := eskip.Parse(a.Body); err != nil {
			w.problems = append(w.problems, "does not parse: "+err.Error())
		}
	}
	w.digests[digest]++
}

// end stops polling and compares the recorded tables with the published ones.
func (w *watcher) end(t *testing.T, published map[string]bool) {
	t.Helper()
	w.cancel()
	<-w.done
	polls := 0
	for digest, n := range w.digests {
		polls += n
		if !published[digest] {
			t.Errorf("%d answers had the table %s, which nobody published", n, digest)
		}
	}
	for i, p := range w.problems {
		if i == 5 {
			t.Errorf("and %d more", len(w.problems)-i)
			break
		}
		t.Error(p)
	}
	if polls < 20 {
		t.Errorf("only %d polls", polls)
	}
}

// TestModesWithoutGapOrMix moves a data plane through all modes and back while objects change and a proxy polls.
func TestModesWithoutGapOrMix(t *testing.T) {
	c := ownCluster(t)
	withShop(t, c)
	proxy := newFaultProxy(t, c)
	server := startRoutesrv(t, proxy)
	server.Ready(t)
	s := startSidecar(t, proxy, "False", []string{server.Main})
	s.Ready(t)
	published := map[string]bool{server.status(t).Table.Digest: true}
	w := watch(s.Main + "/routes")
	change := 0
	step := func(mode, origin string) {
		t.Helper()
		s.setMode(t, mode)
		s.awaitMode(t, strings.TrimRight(mode, "!"), origin)
		change++
		withObjects(t, c, counterIngress(change))
		programs.Eventually(t, "the change in both tables", func() bool {
			want := fmt.Sprintf(`setResponseHeader("N", "%d")`, change)
			return strings.Contains(server.get(t, "/routes", "").Body, want) && strings.Contains(s.get(t, "/routes", "").Body, want)
		})
		published[server.status(t).Table.Digest] = true
	}
	step("False", "self")
	step("Pre", "self")
	programs.Eventually(t, "comparisons", func() bool { c := s.state(t).Cutover; return c != nil && c.Comparisons > 3 })
	step("Exec", "routeserver")
	s.setMode(t, "Sometimes")
	proxy.awaitRequests(t, ingressList, 6)
	if st := s.state(t); !strings.EqualFold(st.Mode, "Exec") {
		t.Errorf("an unknown mode changed the mode to %s", st.Mode)
	}
	step("False", "self")
	w.end(t, published)
}

// TestDivergenceIsFoundAndBlocksTheCutover creates a difference by a flag on one side.
func TestDivergenceIsFoundAndBlocksTheCutover(t *testing.T) {
	c := ownCluster(t)
	withShop(t, c)
	proxy := newFaultProxy(t, c)
	server := startRoutesrv(t, proxy)
	server.Ready(t)
	s := startSidecar(t, proxy, "Pre", []string{server.Main}, "--cutover-check=enforce", "--cutover-check=clean-for=1s", "--cutover-check=comparisons=3",
		"-kubernetes-default-lb-algorithm=random")
	s.Ready(t)
	var report struct {
		Watch struct {
			Confirmed struct{ Changed int }
		}
		Differences []struct {
			ID    string
			State string
			Owner struct{ Kind, Namespace, Name string }
			Parts []struct{ Element, Old, New string }
		}
	}
	programs.Eventually(t, "a confirmed difference of the cart", func() bool {
		s.supportJSON(t, "/shadow?format=json", &report)
		for _, d := range report.Differences {
			if d.State == "confirmed" && d.Owner.Kind == "RouteGroup" && d.Owner.Namespace == "shop" && d.Owner.Name == "cart" {
				return true
			}
		}
		return false
	})
	s.setMode(t, "Exec")
	programs.Eventually(t, "the refusal", func() bool { return s.state(t).Refused != "" })
	if st := s.state(t); !strings.EqualFold(st.Mode, "Pre") || !strings.Contains(st.Refused, "Exec!") {
		t.Errorf("mode %s, refused %q: want Pre, and the way to override it", st.Mode, st.Refused)
	}
	s.setMode(t, "Exec!")
	s.awaitMode(t, "Exec", "routeserver")
}

// TestSkewAloneIsNoDifference changes objects as fast as it can: the two sides always read at different moments.
func TestSkewAloneIsNoDifference(t *testing.T) {
	c := ownCluster(t)
	withShop(t, c)
	proxy := newFaultProxy(t, c)
	server := startRoutesrv(t, proxy)
	server.Ready(t)
	s := startSidecar(t, proxy, "Pre", []string{server.Main}, "--cutover-check=clean-for=1s", "--cutover-check=comparisons=3")
	s.Ready(t)
	withObjects(t, c, counterIngress(0))
	for n := range 200 {
		if err := c.apply(t.Context(), counterIngress(n+1)); err != nil {
			t.Fatal(err)
		}
		if n%10 == 0 {
			proxy.awaitRequests(t, ingressList, 1)
			if c := s.state(t).Cutover; c != nil && c.Differences > 0 {
				t.Fatalf("after %d changes %d differences are taken for real", n, c.Differences)
			}
		}
	}
	programs.Eventually(t, "the cutover check to be ready", func() bool { c := s.state(t).Cutover; return c != nil && c.Ready })
}
