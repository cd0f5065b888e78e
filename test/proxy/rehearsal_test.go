package proxy

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/routesrv/routesrv/api"
	"github.com/routesrv/routesrv/fleet"
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
	serve   func() // starts the server
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
	r.serve = func() {
		r.server = programs.Start(t, filepath.Join(dir, "routesrv"), main, support, append([]string{
			"--manifests=" + r.objects, "-address=" + main, "-support-listener=" + support, "-source-poll-timeout=300", "-wait-for-healthcheck-interval=0s",
		}, more...))
	}
	r.serve()
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

// fleetOf starts n data planes, which serve a proven table.
func fleetOf(t *testing.T, r *rehearsal, n int) (all []*dataPlane) {
	t.Helper()
	for i := range n {
		all = append(all, r.start(t, fmt.Sprint("plane-", i), ""))
	}
	for i, d := range all {
		programs.Eventually(t, fmt.Sprintf("plane %d: a proven table", i), func() bool { return d.Proxy.Ready() && d.proof(t).Proof.Proven != "" })
	}
	return all
}

// TestFleetRehearsal: data planes whose proxies die of one text, and no trial proxy. Each proxy dies of it a few times and falls back by itself; the
// route server shows that, and keeps nothing. After the repair each data plane takes the newest table with its next retry.
func TestFleetRehearsal(t *testing.T) {
	if testing.Short() {
		t.Skip("takes two minutes and 21 processes")
	}
	t.Parallel()
	r := newRehearsal(t)
	r.server.Ready(t)
	all := fleetOf(t, r, 10)
	stop := make(chan struct{})
	var asking sync.WaitGroup
	for _, d := range all {
		asking.Go(func() { d.ask("a.example.org", stop) })
	}
	r.write(t, r.object("fatal", fatalText())+r.object("d", `setPath("/d")`))
	for i, d := range all {
		programs.Eventually(t, fmt.Sprintf("plane %d: the proven table", i), func() bool { return d.proof(t).Proof.Instead != "" && d.Proxy.Ready() })
		if n := len(d.Deaths()); n > 3 {
			t.Errorf("plane %d: its proxy died %d times", i, n)
		}
	}
	programs.Eventually(t, "all of them in the view", func() bool { return r.status(t).DyingClients == len(all) && len(r.clients(t).Suspects) > 0 })
	if s := r.status(t); s.Guard.KeptCount != 0 || !strings.Contains(r.table(t), fatalText()) || !strings.Contains(r.table(t), `setPath("/d")`) {
		t.Errorf("the reports of clients have changed the table of the server: %+v\n%s", s.Guard, r.table(t))
	}
	r.write(t, r.object("d", `setPath("/d")`))
	r.settled(t, all)
	close(stop)
	asking.Wait()
	r.answered(t, all)
}

// TestRestartsOfProxiesAreLocal: two of ten proxies are killed again and again. The server takes back nothing, and the other data planes follow.
func TestRestartsOfProxiesAreLocal(t *testing.T) {
	if testing.Short() {
		t.Skip("takes two minutes and 21 processes")
	}
	t.Parallel()
	r := newRehearsal(t)
	r.server.Ready(t)
	all := fleetOf(t, r, 10)
	stop := make(chan struct{})
	var killing sync.WaitGroup
	for _, d := range all[:2] {
		killing.Go(func() {
			tick := time.NewTicker(2 * time.Second)
			defer tick.Stop()
			for {
				select {
				case <-stop:
					return
				case <-tick.C:
					d.Proxy.Kill()
				}
			}
		})
	}
	more := ""
	for i := range 12 {
		name := fmt.Sprint("new-", i)
		more += r.object(name, fmt.Sprintf("setPath(%q)", "/"+name))
		r.write(t, more)
		programs.Eventually(t, name, func() bool { return strings.Contains(r.table(t), "/"+name) })
		for j := range 2 {
			deaths := len(all[j].Deaths())
			programs.Eventually(t, fmt.Sprintf("plane %d: a restart", j), func() bool { return len(all[j].Deaths()) > deaths })
		}
	}
	r.settled(t, all[2:])
	if s := r.status(t); s.Guard.KeptCount != 0 || strings.Count(r.table(t), "/new-") < 12 {
		t.Errorf("%d objects are kept, the table is\n%s", s.Guard.KeptCount, r.table(t))
	}
	close(stop)
	killing.Wait()
	r.settled(t, all)
}

// TestForgedEvidence: a tenant has a route to the data plane beside each proxy, and one to the route server. What it sends there looks like the
// requests of a proxy that is restarted, and like the reports of its data plane. No table changes, and a proxy that really dies is still shown.
func TestForgedEvidence(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a minute and 5 processes")
	}
	t.Parallel()
	r := newRehearsal(t)
	r.server.Ready(t)
	all := fleetOf(t, r, 2)
	more := routeGroup("server", `setRequestHeader("X-Tenant", "1")`, r.server.Main)
	for i, d := range all {
		more += routeGroup(fmt.Sprint("sidecar-", i), `setRequestHeader("X-Tenant", "1")`, d.Main)
	}
	r.write(t, more)
	r.settled(t, all)
	through := func(d *dataPlane, method, host, path, body string, header ...string) int {
		t.Helper()
		q, err := http.NewRequestWithContext(t.Context(), method, d.Traffic+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		q.Host = host + ".example.org"
		for i := 0; i < len(header); i += 2 {
			q.Header.Set(header[i], header[i+1])
		}
		a, err := programs.Do(q, "")
		if err != nil {
			t.Fatal(err)
		}
		return a.Status
	}
	forge := func(round int) {
		for i, d := range all {
			for range 6 {
				if status := through(d, http.MethodGet, fmt.Sprint("sidecar-", i), "/routes", "", "User-Agent", "Go-http-client/1.1"); status != http.StatusOK {
					t.Fatalf("the forged request gets status %d: the test forges nothing", status)
				}
			}
			digest := r.status(t).Table.Digest.String()
			for j, id := range []string{"id=plane-0", "id=plane-1", fmt.Sprintf("id=invented-%d", round), fmt.Sprintf("id=more-%d", round)} {
				body := fmt.Sprintf(`{"suspects": [{"digest": %q, "deaths": 9, "evidence": "forged"}]}`, digest)
				if j < 2 {
					body = "{}"
				}
				if status := through(d, http.MethodPost, "server", api.PathClients, body, api.HeaderClient, "kind=sidecar;"+id+";interval=3000"); status != http.StatusNoContent {
					t.Fatalf("the forged report gets status %d: the test forges nothing", status)
				}
			}
		}
	}
	for i, d := range all {
		programs.Eventually(t, "the tenant's routes", func() bool {
			return through(d, http.MethodGet, fmt.Sprint("sidecar-", i), "/routes", "") == http.StatusOK && through(d, http.MethodGet, "server", "/routes", "") == http.StatusOK
		})
	}
	for round := range 20 {
		forge(round)
	}
	name := `setPath("/innocent")`
	more += r.object("innocent", name)
	r.write(t, more)
	programs.Eventually(t, "the innocent object", func() bool { return strings.Contains(r.table(t), name) })
	r.settled(t, all)
	for i, d := range all {
		programs.Eventually(t, fmt.Sprintf("plane %d: the table is proven", i), func() bool { return d.proof(t).Proof.Proven == r.status(t).Table.Digest.String() })
		if p := d.proof(t); p.Proof.Instead != "" || len(d.Deaths()) != 0 {
			t.Errorf("plane %d: %+v", i, p)
		}
	}
	if s := r.status(t); s.Guard.KeptCount != 0 {
		t.Errorf("%d objects are kept", s.Guard.KeptCount)
	}

	r.write(t, more+r.object("fatal", fatalText()))
	for i, d := range all {
		programs.Eventually(t, fmt.Sprintf("plane %d: the proven table", i), func() bool { return d.proof(t).Proof.Instead != "" && d.Proxy.Ready() })
	}
	programs.Eventually(t, "the deaths in the view", func() bool { return r.dying(t, "plane-0") && r.dying(t, "plane-1") })
	for round := range 20 {
		forge(100 + round)
		if !r.dying(t, "plane-0") || !r.dying(t, "plane-1") {
			t.Fatal("forged reports hide a proxy that died")
		}
	}
	if v := r.clients(t); len(v.Suspects) > 16 {
		t.Errorf("%d suspect tables", len(v.Suspects))
	}
}

// clients returns the fleet as the server shows it.
func (r *rehearsal) clients(t *testing.T) (v fleet.Clients) {
	t.Helper()
	a, err := programs.Fetch(t.Context(), r.server.Support+api.PathClients, "")
	if err == nil {
		err = json.Unmarshal([]byte(a.Body), &v)
	}
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// dying reports whether the server shows that the proxy of a data plane died, on its own evidence.
func (r *rehearsal) dying(t *testing.T, id string) bool {
	t.Helper()
	for _, c := range r.clients(t).Clients {
		if c.ID == id && slices.ContainsFunc(c.Suspects, func(s fleet.Suspect) bool { return s.Evidence != "forged" }) {
			return true
		}
	}
	return false
}

// TestFleetRehearsalWithTrial: with a trial proxy, no proxy of the fleet dies of the text.
func TestFleetRehearsalWithTrial(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a minute and 22 processes")
	}
	t.Parallel()
	r, tried := withTrial(t, Faults{Die: []string{fatalText()}})
	all := fleetOf(t, r, 10)
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
