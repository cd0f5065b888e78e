package proxy

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/routesrv/routesrv/test/programs"
)

// dir has the programs.
var dir string

func TestMain(m *testing.M) {
	Main()
	var remove func()
	var err error
	if dir, remove, err = programs.Build("../..", programs.Plain, "routesrv", "dataplane-client"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	status := m.Run()
	remove()
	os.Exit(status)
}

// fatalText ends a stand-in. For a real Skipper, name a filter that ends it and that no catalogue knows.
func fatalText() string {
	if text := os.Getenv("ROUTESRV_PROXY_FATAL"); text != "" {
		return text
	}
	return `setPath("/fatal")`
}

// routeGroup is an object for a host, whose requests pass a filter.
func routeGroup(name, filter, backend string) string {
	return fmt.Sprintf(`
apiVersion: zalando.org/v1
kind: RouteGroup
metadata: {name: %[1]s, namespace: shop}
spec:
  hosts: [%[1]s.example.org]
  backends: [{name: b, type: network, address: %[3]q}]
  defaultBackends: [{backendName: b}]
  routes: [{pathSubtree: /, filters: [%[2]q]}]
---
`, name, filter, backend)
}

// dataPlane is a dataplane-client with its proxy.
type dataPlane struct {
	*programs.Process
	*Proxy
	failed, answered atomic.Int64 // requests
	longest          atomic.Int64 // nanoseconds without an answer
}

// proof is what a data plane knows of its proxy.
type proof struct {
	Proof struct {
		Proven  string
		Instead string `json:"instead_of"`
	}
	Table struct {
		Digest string
	}
}

func (d *dataPlane) proof(t *testing.T) (p proof) {
	t.Helper()
	a, err := programs.Control(t.Context(), http.MethodGet, d.State, "/status")
	if err == nil {
		err = json.Unmarshal([]byte(a.Body), &p)
	}
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// ask sends requests for a host through the proxy until stop is closed.
func (d *dataPlane) ask(host string, stop <-chan struct{}) {
	last := time.Now()
	for {
		select {
		case <-stop:
			return
		case <-time.After(50 * time.Millisecond):
		}
		r, err := http.NewRequest(http.MethodGet, d.Traffic+"/", nil)
		if err != nil {
			panic(err)
		}
		r.Host = host
		a, err := http.DefaultClient.Do(r)
		if err == nil {
			a.Body.Close()
		}
		if err != nil || a.StatusCode != http.StatusOK {
			d.failed.Add(1)
			continue
		}
		d.answered.Add(1)
		d.longest.Store(max(d.longest.Load(), int64(time.Since(last))))
		last = time.Now()
	}
}

// rehearsal is a route server whose objects the test writes.
type rehearsal struct {
	server  *programs.Process
	objects string // the file
	backend string
}

// newRehearsal starts a route server that has three harmless objects, with more flags.
func newRehearsal(t *testing.T, more ...string) *rehearsal {
	t.Helper()
	backend := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(backend.Close)
	r := &rehearsal{objects: filepath.Join(t.TempDir(), "objects.yaml"), backend: backend.URL}
	r.write(t, "")
	main, support := programs.FreeAddress(t), programs.FreeAddress(t)
	r.server = programs.Start(t, filepath.Join(dir, "routesrv"), main, support, append([]string{
		"--manifests=" + r.objects, "-address=" + main, "-support-listener=" + support, "-source-poll-timeout=300", "-wait-for-healthcheck-interval=0s",
	}, more...))
	return r
}

func (r *rehearsal) object(name, filter string) string { return routeGroup(name, filter, r.backend) }

// write replaces the objects: the harmless ones and more.
func (r *rehearsal) write(t *testing.T, more string) {
	t.Helper()
	for _, name := range []string{"a", "b", "c"} {
		more += r.object(name, fmt.Sprintf("setPath(%q)", "/"+name))
	}
	next := r.objects + ".next" // not read: it is no YAML file
	if err := os.WriteFile(next, []byte(more), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(next, r.objects); err != nil {
		t.Fatal(err)
	}
}

// start starts a data plane and its proxy, which reads a file if that is not empty.
func (r *rehearsal) start(t *testing.T, name, file string) *dataPlane {
	t.Helper()
	main, support, ofProxy := programs.FreeAddress(t), programs.FreeAddress(t), programs.FreeAddress(t)
	args := []string{
		"--mode=Exec", "--upstream=" + r.server.Main, "--address=" + main, "--support-listener=" + support, "--state-dir=" + t.TempDir(),
		"--pod-name=" + name, "--proxy-metrics-url=http://" + ofProxy + "/metrics",
	}
	cfg := Config{RoutesURL: "http://" + main + "/routes", Support: ofProxy, Faults: Faults{Die: []string{fatalText()}}}
	if file != "" {
		args = append(args, "--routes-file="+file)
		cfg.RoutesURL, cfg.RoutesFile = "", file
	}
	d := &dataPlane{Process: programs.Start(t, filepath.Join(dir, "dataplane-client"), main, support, args)}
	d.Process.Ready(t)
	d.Proxy = Start(t, cfg)
	return d
}

// TestFileRehearsal: a proxy that reads a file and ends as soon as it has read the fatal table gets the proven one, too.
func TestFileRehearsal(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a minute")
	}
	t.Parallel()
	r := newRehearsal(t)
	r.server.Ready(t)
	d := r.start(t, "plane", filepath.Join(t.TempDir(), "routes"))
	programs.Eventually(t, "a proven table", func() bool { return d.Proxy.Ready() && d.proof(t).Proof.Proven != "" })
	r.write(t, r.object("fatal", fatalText()))
	programs.Eventually(t, "the first death", func() bool { return len(d.Deaths()) > 0 })
	programs.Eventually(t, "the proven table instead of the fatal one", func() bool { return d.proof(t).Proof.Instead != "" && d.Proxy.Ready() })
	deaths := len(d.Deaths())
	<-time.After(3 * time.Second) // nothing shows that it lives on
	if n := len(d.Deaths()); n != deaths {
		t.Errorf("the proxy died %d times after that", n-deaths)
	}
}

// planes is the size of the fleet in a rehearsal.
const planes = 20

// fleetOf starts data planes, which serve a proven table.
func fleetOf(t *testing.T, r *rehearsal) (all []*dataPlane) {
	t.Helper()
	for i := range planes {
		all = append(all, r.start(t, fmt.Sprint("plane-", i), ""))
	}
	for i, d := range all {
		programs.Eventually(t, fmt.Sprintf("plane %d: a proven table", i), func() bool { return d.Proxy.Ready() && d.proof(t).Proof.Proven != "" })
	}
	return all
}

// TestFleetRehearsal: 20 data planes whose proxies die of one text, and no trial proxy. Each proxy dies of it at most twice and gets the proven table.
// The route server takes no change back for that. Without the text, the change of another team is served everywhere.
func TestFleetRehearsal(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a minute and 41 processes")
	}
	t.Parallel()
	r := newRehearsal(t)
	r.server.Ready(t)
	all := fleetOf(t, r)
	stop := make(chan struct{})
	var asking sync.WaitGroup
	for _, d := range all {
		asking.Go(func() { d.ask("a.example.org", stop) })
	}
	innocent := r.object("e", `setPath("/e")`)
	r.write(t, r.object("fatal", fatalText())+innocent)
	for i, d := range all {
		programs.Eventually(t, fmt.Sprintf("plane %d: the proven table", i), func() bool { return d.proof(t).Proof.Instead != "" && d.Proxy.Ready() })
	}
	programs.Eventually(t, "reports of all", func() bool { return r.status(t).DyingClients > 0 })
	if s, table := r.status(t), r.table(t); s.Guard.KeptCount != 0 || !strings.Contains(table, `setPath("/e")`) || !strings.Contains(table, fatalText()) {
		t.Errorf("the route server acts on reports: %+v", s.Guard)
	}
	died, deaths := 0, make([]int, planes)
	for i, d := range all {
		if deaths[i] = len(d.Deaths()); deaths[i] > 2 {
			t.Errorf("plane %d: its proxy died %d times", i, deaths[i])
		}
		died += min(deaths[i], 1)
	}
	t.Logf("%d of %d proxies died of the table", died, planes)

	r.write(t, innocent)
	programs.Eventually(t, "a later table", func() bool { return !strings.Contains(r.table(t), fatalText()) })
	r.settled(t, all)
	for i, d := range all {
		if n := len(d.Deaths()); n != deaths[i] {
			t.Errorf("plane %d: its proxy died again", i)
		}
	}
	close(stop)
	asking.Wait()
	r.answered(t, all)
}

// TestFleetRehearsalWithTrial: with a trial proxy, no proxy of the fleet dies of the text.
func TestFleetRehearsalWithTrial(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a minute and 42 processes")
	}
	t.Parallel()
	r, tried := withTrial(t, Faults{Die: []string{fatalText()}})
	all := fleetOf(t, r)
	stop := make(chan struct{})
	var asking sync.WaitGroup
	for _, d := range all {
		asking.Go(func() { d.ask("a.example.org", stop) })
	}
	r.write(t, r.object("fatal", fatalText())+r.object("d", `setPath("/d")`))
	programs.Eventually(t, "the fatal object is kept", func() bool { return r.status(t).Guard.KeptCount == 1 })
	r.settled(t, all)
	close(stop)
	asking.Wait()
	for i, d := range all {
		if n := len(d.Deaths()); n > 0 {
			t.Errorf("plane %d: its proxy died %d times", i, n)
		}
	}
	if len(tried.Deaths()) < 2 {
		t.Errorf("the trial proxy died %d times", len(tried.Deaths()))
	}
	r.answered(t, all)
}

// settled waits until every proxy has the table that the server serves.
func (r *rehearsal) settled(t *testing.T, all []*dataPlane) {
	t.Helper()
	for i, d := range all {
		programs.Eventually(t, fmt.Sprintf("plane %d: the table of the server", i), func() bool {
			s, p := r.status(t), d.proof(t)
			return p.Proof.Instead == "" && p.Table.Digest == s.Table.Digest.String() && d.Proxy.Ready()
		})
	}
}

// answered expects that the traffic of another object did not stop.
func (r *rehearsal) answered(t *testing.T, all []*dataPlane) {
	t.Helper()
	for i, d := range all {
		if gap := time.Duration(d.longest.Load()); d.answered.Load() == 0 || gap > 10*time.Second {
			t.Errorf("plane %d: %d requests for another object were answered, %d were not, the longest time without an answer is %v",
				i, d.answered.Load(), d.failed.Load(), gap)
		}
	}
}
