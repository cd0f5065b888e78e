package fleet_test

import (
	"fmt"
	"net/netip"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/routesrv/routesrv/etagcache"
	"github.com/routesrv/routesrv/fleet"
	"github.com/routesrv/routesrv/table"
)

// world is a Registry whose clock and tables the test sets.
type world struct {
	*fleet.Registry
	now     time.Time
	orders  map[table.Digest]uint64
	metrics *prometheus.Registry
	last    uint64
}

func newWorld(cfg fleet.Config) *world {
	w := &world{now: time.Unix(1_800_000_000, 0), orders: make(map[table.Digest]uint64), metrics: prometheus.NewRegistry()}
	cfg.Name, cfg.Now = "replica-a", func() time.Time { return w.now }
	cfg.Order = func(d table.Digest) uint64 { return w.orders[d] }
	cfg.Metrics = fleet.NewMetrics(w.metrics)
	w.Registry = fleet.New(cfg)
	return w
}

func name(n int) fleet.Name {
	var d table.Digest
	d[0], d[1], d[2] = byte(n), byte(n>>8), byte(n>>16)
	return fleet.Name{Digest: d, Revision: uint64(n)}
}

// publish publishes the table n.
func (w *world) publish(n int) {
	w.last++
	w.orders[name(n).Digest] = w.last
	w.Published(w.last, name(n), false)
}

func address(n int) netip.Addr {
	return netip.AddrFrom4([4]byte{10, byte(n >> 16), byte(n >> 8), byte(n)})
}

func identity(pod string) string {
	return fleet.Identity{
		Kind: fleet.Sidecar, ID: "ingress/" + pod, Pod: true, Node: "node-1", Zone: "a", Version: "v1.2.3", Mode: "Exec", Interval: 3 * time.Second,
	}.String()
}

// poll is a request of a sidecar that names table n.
func (w *world) poll(pod string, n int) { w.pollFrom(1, pod, n) }

// pollFrom is the same from an address.
func (w *world) pollFrom(from int, pod string, n int) {
	w.Saw(fleet.Sighting{Identity: identity(pod), Address: address(from), Holds: name(n)})
}

func (w *world) client(t *testing.T, id string) fleet.Client {
	t.Helper()
	for _, c := range w.Clients().Clients {
		if c.ID == id {
			return c
		}
	}
	t.Fatalf("no client %q in %+v", id, w.Clients().Clients)
	return fleet.Client{}
}

func (w *world) wantState(t *testing.T, id string, want fleet.State, versions int) fleet.Client {
	t.Helper()
	c := w.client(t, id)
	if c.State != want || c.BehindVersions != versions {
		t.Errorf("%s is %s, %d versions behind, want %s, %d", id, c.State, c.BehindVersions, want, versions)
	}
	return c
}

func TestStatesOfAPoller(t *testing.T) {
	w := newWorld(fleet.Config{})
	w.publish(1)
	w.poll("p", 1)
	c := w.wantState(t, "ingress/p", fleet.Current, 0)
	if c.Pod != "ingress/p" || c.Node != "node-1" || c.Zone != "a" || c.Version != "v1.2.3" || c.Mode != "Exec" || c.Kind != fleet.Sidecar || c.Inferred {
		t.Errorf("%+v", c)
	}
	w.now = w.now.Add(time.Second)
	w.publish(2)
	w.now = w.now.Add(time.Second)
	w.publish(3)
	w.now = w.now.Add(2 * time.Second)
	w.poll("p", 1)
	if c = w.wantState(t, "ingress/p", fleet.Behind, 2); c.BehindSeconds != 3 {
		t.Errorf("%v s behind, want 3: since the first newer table", c.BehindSeconds)
	}
	w.poll("p", 3)
	w.wantState(t, "ingress/p", fleet.Current, 0)
	w.poll("p", 99) // an unknown table
	w.wantState(t, "ingress/p", fleet.Behind, -1)
	w.now = w.now.Add(9 * time.Second)
	w.wantState(t, "ingress/p", fleet.Behind, -1)
	w.now = w.now.Add(time.Nanosecond)
	w.wantState(t, "ingress/p", fleet.Silent, -1)
}

func TestTableThatMayBeNewerIsCurrentUntilTheNextVersion(t *testing.T) {
	w := newWorld(fleet.Config{})
	w.publish(1)
	w.Saw(fleet.Sighting{Identity: identity("p"), Address: address(1), Holds: name(2), Ahead: true})
	w.wantState(t, "ingress/p", fleet.Current, 0)
	w.publish(2)
	w.wantState(t, "ingress/p", fleet.Current, 0) // the table that it had all along
	w.publish(3)
	w.wantState(t, "ingress/p", fleet.Behind, 1)
}

func TestTableOfAZoneThatDidNotChangeIsCurrent(t *testing.T) {
	w := newWorld(fleet.Config{})
	w.publish(1)
	w.orders[name(50).Digest] = 1
	w.poll("p", 50)
	w.publish(2)
	w.wantState(t, "ingress/p", fleet.Behind, 1)
	w.orders[name(50).Digest] = 2 // another client of the zone requested it
	w.wantState(t, "ingress/p", fleet.Current, 0)
}

func TestInferredClients(t *testing.T) {
	w := newWorld(fleet.Config{})
	w.publish(1)
	saw := func(agent string, n int) {
		w.Saw(fleet.Sighting{UserAgent: agent, Address: address(7), Holds: name(n), Zone: "b"})
	}
	for range 20 {
		saw("Go-http-client/1.1", 1)
		w.now = w.now.Add(10 * time.Second)
	}
	c := w.wantState(t, "10.0.0.7 Go-http-client/1.1", fleet.Current, 0)
	if !c.Inferred || c.Kind != fleet.Proxy || c.Zone != "b" || c.Address != "10.0.0.7" || c.Version != "Go-http-client/1.1" || c.Pod != "" {
		t.Errorf("%+v", c)
	}
	w.now = w.now.Add(19 * time.Second) // by now the registry knows that it polls every 10 s
	w.wantState(t, c.ID, fleet.Current, 0)
	w.now = w.now.Add(3 * time.Second)
	w.wantState(t, c.ID, fleet.Silent, 0)
	for range 2 {
		saw("evil\x00\nagent\xff"+strings.Repeat("x", 1000), 1)
	}
	if id := "10.0.0.7 evil??agent?" + strings.Repeat("x", 52); w.client(t, id).Version != id[9:] {
		t.Error("a user agent is shown as it came")
	}
}

// TestWhoAsksOnceIsNoClient: such as a person with curl, until it asks again soon. Whoever names itself is one at once, and so is
// whoever keeps a stream open.
func TestWhoAsksOnceIsNoClient(t *testing.T) {
	w := newWorld(fleet.Config{})
	w.publish(1)
	curl := fleet.Sighting{UserAgent: "curl/8.5.0", Address: address(7), Holds: name(1)}
	total := func(want int, when string) {
		t.Helper()
		w.Tick()
		holders, live := w.Share(1)
		if v := w.Clients(); v.Total != want || len(v.Clients) != want || v.Replicas[0].Clients != want || w.Counts().Total() != want || live > want {
			t.Errorf("%s: %d clients, %d of %d hold the table, want %d", when, v.Total, holders, live, want)
		}
	}
	w.Saw(curl)
	total(0, "asked once")
	w.now = w.now.Add(6 * time.Minute)
	w.Saw(curl)
	total(0, "asked again much later")
	stream := curl
	stream.Stream = etagcache.StreamOpened
	w.now = w.now.Add(6 * time.Minute)
	w.Saw(stream)
	total(1, "with a stream")
	stream.Stream = etagcache.StreamClosed
	w.Saw(stream)
	total(0, "after the stream")
	w.now = w.now.Add(3 * time.Second)
	w.Saw(curl)
	total(1, "asked again soon")
	w.Saw(fleet.Sighting{Identity: identity("p"), Address: address(8), Holds: name(1)})
	total(2, "beside one that names itself")
}

func TestStreams(t *testing.T) {
	w := newWorld(fleet.Config{})
	w.publish(1)
	stream := func(phase etagcache.StreamPhase, n int) {
		w.Saw(fleet.Sighting{Identity: identity("p"), Address: address(1), Holds: name(n), Stream: phase})
	}
	stream(etagcache.StreamOpened, 1)
	w.now = w.now.Add(14 * time.Second)
	if c := w.wantState(t, "ingress/p", fleet.Current, 0); !c.Stream {
		t.Error("it has no stream")
	}
	w.publish(2)
	stream(etagcache.StreamWritten, 2) // it does not report: what was written counts
	w.wantState(t, "ingress/p", fleet.Current, 0)

	w.report("p", fleet.Report{Holds: name(1), Rejected: "guard: too many routes are gone"})
	stream(etagcache.StreamWritten, 2)
	if c := w.wantState(t, "ingress/p", fleet.Rejected, 1); c.Reason != "guard: too many routes are gone" || c.Holds.Digest != name(1).Digest {
		t.Errorf("%+v", c)
	}
	w.report("p", fleet.Report{Holds: name(2)})
	w.wantState(t, "ingress/p", fleet.Current, 0)
	w.now = w.now.Add(30 * time.Second)
	stream(etagcache.StreamWritten, 2) // nobody receives it
	w.now = w.now.Add(time.Second)
	if s := w.client(t, "ingress/p").State; s != fleet.Silent {
		t.Errorf("%s although nothing was heard for three reports", s)
	}
	w.report("p", fleet.Report{Holds: name(2)})
	stream(etagcache.StreamClosed, 2)
	w.now = w.now.Add(9*time.Second + 1) // it reports every 10 s, and may poll another replica every 3 s
	w.wantState(t, "ingress/p", fleet.Current, 0)
	w.now = w.now.Add(21 * time.Second)
	w.wantState(t, "ingress/p", fleet.Silent, 0)
}

// report sends a report of a sidecar.
func (w *world) report(pod string, r fleet.Report) bool {
	return w.Reported(identity(pod), address(1), &r)
}

func TestReportOfAProxy(t *testing.T) {
	w := newWorld(fleet.Config{})
	w.publish(1)
	at := w.now
	w.report("p", fleet.Report{
		Holds: name(1), Proven: name(1), Refused: 7, MetricsError: "status 404",
		Pre: &fleet.Pre{Seconds: 60, CleanSeconds: 50, Ready: true},
	})
	c := w.wantState(t, "ingress/p", fleet.Current, 0)
	if c.Proven.Digest != name(1).Digest || c.Refused != 7 || c.MetricsError != "status 404" || !c.Reported.Equal(at) {
		t.Errorf("%+v", c)
	}
	if c.Pre == nil || *c.Pre != (fleet.Pre{Seconds: 60, CleanSeconds: 50, Ready: true}) {
		t.Errorf("in mode Pre: %+v", c.Pre)
	}
	w.report("p", fleet.Report{Holds: name(1)}) // as in mode Exec
	if c := w.wantState(t, "ingress/p", fleet.Current, 0); c.Pre != nil {
		t.Errorf("in mode Exec: %+v", c.Pre)
	}
	if w.Reported("", address(1), &fleet.Report{}) || w.Reported("kind=sidecar;id=", address(1), &fleet.Report{}) {
		t.Error("a report of nobody is taken")
	}
}

func TestRelayHasASummary(t *testing.T) {
	w := newWorld(fleet.Config{})
	id := fleet.Identity{Kind: fleet.RelayKind, ID: "relay-0", Interval: 3 * time.Second}.String()
	w.Reported(id, address(9), &fleet.Report{Clients: &fleet.Counts{Current: 3, Silent: 1}})
	v := w.Clients()
	if len(v.Relays) != 1 || v.Relays[0].ID != "relay-0" || v.Relays[0].Total != 4 || v.Relays[0].Details || v.Total != 1 {
		t.Errorf("%+v", v)
	}
}

func TestClientsAreCountedByState(t *testing.T) {
	w := newWorld(fleet.Config{})
	w.publish(1)
	w.publish(2)
	for i := range 100 {
		w.pollFrom(i, fmt.Sprint("p", i), 1+min(i, 1))
	}
	w.Tick()
	w.expose(t, `
# HELP routesrv_clients Clients of this replica: current, behind, rejected (unless dying) or silent.
# TYPE routesrv_clients gauge
routesrv_clients{state="behind"} 1
routesrv_clients{state="current"} 99
routesrv_clients{state="rejected"} 0
routesrv_clients{state="silent"} 0
`, "routesrv_clients")
	if all := w.Clients().Tables; len(all) != 2 || all[0].Digest != name(2).Digest || all[1].Digest != name(1).Digest {
		t.Errorf("%+v", all)
	}
}

func (w *world) expose(t *testing.T, want, series string) {
	t.Helper()
	if err := testutil.GatherAndCompare(w.metrics, strings.NewReader(want), series); err != nil {
		t.Error(err)
	}
}

func TestLagIsThatOfMost(t *testing.T) {
	w := newWorld(fleet.Config{})
	w.publish(1)
	for i := range 200 {
		w.pollFrom(i, fmt.Sprint("p", i), 1)
	}
	w.publish(2)
	w.now = w.now.Add(4 * time.Second)
	for i := range 198 {
		w.pollFrom(i, fmt.Sprint("p", i), 2)
	}
	lag := func(want string) {
		t.Helper()
		w.Tick()
		w.expose(t, `
# HELP routesrv_fleet_behind_seconds How long 99 percent of the addresses of clients have been without the newest table, at most; 0 if they hold it.
# TYPE routesrv_fleet_behind_seconds gauge
routesrv_fleet_behind_seconds `+want+"\n", "routesrv_fleet_behind_seconds")
	}
	lag("0") // two of 200 are one percent
	w.pollFrom(0, "p0", 1)
	lag("4")
	for i := range 900 { // from one address
		w.pollFrom(7, fmt.Sprint("invented-", i), 2)
	}
	lag("4")
}

func TestSilentOnesLeave(t *testing.T) {
	w := newWorld(fleet.Config{})
	w.publish(1)
	w.poll("p", 1)
	w.now = w.now.Add(fleet.Forget)
	w.Tick()
	w.wantState(t, "ingress/p", fleet.Silent, 0)
	w.now = w.now.Add(1)
	w.Tick()
	if v := w.Clients(); v.Total != 0 || len(v.Clients) != 0 {
		t.Errorf("%+v", v)
	}
}

func TestHostileIDsGrowNothing(t *testing.T) {
	w := newWorld(fleet.Config{Max: 3000})
	w.publish(1)
	for i := range 10_000 {
		w.Saw(fleet.Sighting{Identity: identity(fmt.Sprint("evil", i)), Address: address(1), Holds: name(i)})
		for range 2 {
			w.Saw(fleet.Sighting{UserAgent: fmt.Sprint("agent", i), Address: address(1), Holds: name(i)})
		}
	}
	if n := w.Clients().Total; n != fleet.MaxPerAddress+fleet.MaxInferredPerAddress {
		t.Errorf("one address has %d clients", n)
	}
	for i := range 10_000 {
		w.Saw(fleet.Sighting{Identity: identity(fmt.Sprint("more", i)), Address: address(i), Holds: name(1)})
	}
	v := w.Clients()
	if v.Total != 3000 || !v.Replicas[0].Full {
		t.Errorf("%d clients, full: %v", v.Total, v.Replicas[0].Full)
	}
	w.now = w.now.Add(10 * time.Second) // all are silent, so they make room
	for i := range 100 {
		w.poll(fmt.Sprint("honest", i), 1)
	}
	if v := w.Clients(); v.Total != 100 || v.Counts.Current != 100 {
		t.Errorf("%+v", v.Counts)
	}
}

// TestInventedIDsKeepNobodyOut: a crowd from a few addresses fills three quarters of a Registry at most.
func TestInventedIDsKeepNobodyOut(t *testing.T) {
	w := newWorld(fleet.Config{Max: 3000})
	w.publish(1)
	for i := range 4 * fleet.MaxPerAddress {
		w.pollFrom(i%4, fmt.Sprint("invented-", i), 1)
	}
	for i := range 500 {
		w.pollFrom(100+i, fmt.Sprint("real-", i), 1)
	}
	w.wantState(t, "ingress/real-499", fleet.Current, 0)
	if n := w.Clients().Total; n != 3000*3/4+500 {
		t.Errorf("%d clients", n)
	}
}

func TestIdentities(t *testing.T) {
	full := fleet.Identity{
		Kind: fleet.Sidecar, ID: "ns/pod", Pod: true, Node: "n", Zone: "z", Version: "v1+x", Mode: "Pre", Interval: 1500 * time.Millisecond,
	}
	if got, ok := fleet.ParseIdentity(full.String()); !ok || got != full {
		t.Errorf("%s is read as %+v", full, got)
	}
	odd := fleet.Identity{Kind: fleet.RelayKind, ID: "a b;c=\n" + strings.Repeat("x", 500), Interval: time.Hour}
	if got, ok := fleet.ParseIdentity(odd.String()); !ok || got.ID != "a_b_c__"+strings.Repeat("x", 193) || got.Interval != 5*time.Minute {
		t.Errorf("%s is read as %+v, %v", odd, got, ok)
	}
	if _, ok := fleet.ParseIdentity(full.String() + ";more=1"); !ok {
		t.Error("what a newer client adds is refused")
	}
	for _, bad := range []string{
		"", "x", "kind=sidecar", "kind=sidecar;id=x", "kind=boss;id=x;interval=1", "kind=sidecar;id=;interval=1", "kind=sidecar;id=a b;interval=1",
		"kind=sidecar;id=x;interval=-1", "kind=sidecar;id=x;interval=1;mode=x", "kind=sidecar;id=" + strings.Repeat("x", 201) + ";interval=1",
		"kind=sidecar;id=x;interval=1;node=" + strings.Repeat("x", 65), "kind=sidecar;id=x\x00;interval=1", "kind=sidecar;id=x;interval=1;" + strings.Repeat("a=b;", 300),
	} {
		if i, ok := fleet.ParseIdentity(bad); ok {
			t.Errorf("%.60q is read as %+v", bad, i)
		}
	}
}

func TestReports(t *testing.T) {
	for _, bad := range []string{
		``, `[]`, `{"holds":{"digest":"x"}}`, `{"holds_ago_seconds":-1}`, `{"holds_ago_seconds":1e300}`,
		`{"pre":{"clean_seconds":-1}}`, `{"pre":{"seconds":1e300}}`, `{"pre":{"differences":-1}}`,
		`{"clients":{"current":-1}}`, `{"clients":{"silent":100000000}}`, `{"refused_routes":-1}`,
		`{"rejected":"` + strings.Repeat("x", fleet.MaxReport) + `"}`,
	} {
		if r, err := fleet.ReadReport(strings.NewReader(bad)); err == nil {
			t.Errorf("%.60q is read as %+v", bad, r)
		}
	}
	r, err := fleet.ReadReport(strings.NewReader(`{"rejected":"a\nb` + strings.Repeat("x", 300) + `","more":1}`))
	if err != nil || r.Rejected != "a?b"+strings.Repeat("x", 253) {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestSize: 20,000 clients with ids, nodes and reports, as sidecars have them, use at most a fifteenth of the server's memory.
func TestSize(t *testing.T) {
	const most = 17 << 20
	w := newWorld(fleet.Config{})
	w.publish(1)
	w.publish(2)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	fill(w, fleet.DefaultMax)
	runtime.GC()
	runtime.ReadMemStats(&after)
	grown := int64(after.HeapAlloc) - int64(before.HeapAlloc)
	t.Logf("%d clients take %d bytes, %d each", fleet.DefaultMax, grown, grown/fleet.DefaultMax)
	if grown > most {
		t.Errorf("more than %d", most)
	}
	if n := w.Clients().Total; n != fleet.DefaultMax {
		t.Errorf("%d clients", n)
	}
}

// fill adds n clients.
func fill(w *world, n int) {
	for i := range n {
		id := fleet.Identity{
			Kind: fleet.Sidecar, ID: fmt.Sprintf("kube-system/skipper-ingress-7d9c8b6f5d-%05d", i), Pod: true, Node: fmt.Sprintf("ip-10-%d-%d.eu.internal", i>>8, i&255),
			Zone: fmt.Sprint("zone-", i%3), Version: "v1.2.3", Mode: "Exec", Interval: 3 * time.Second,
		}.String()
		w.Saw(fleet.Sighting{Identity: id, Address: address(i), Holds: name(1 + i%2)})
		w.Reported(id, address(i), &fleet.Report{Holds: name(1 + i%2), Proven: name(1 + i%2)})
	}
}

func BenchmarkTick(b *testing.B) {
	w := newWorld(fleet.Config{})
	w.publish(1)
	w.publish(2)
	fill(w, fleet.DefaultMax)
	for b.Loop() {
		w.Tick()
	}
}

func BenchmarkSaw(b *testing.B) {
	w := newWorld(fleet.Config{})
	w.publish(1)
	fill(w, 300)
	id := identity("p")
	b.ReportAllocs()
	for b.Loop() {
		w.Saw(fleet.Sighting{Identity: id, Address: address(1), Holds: name(1)})
	}
}

// TestMetricsTellOfProxiesThatStopAsking: and of those that refuse routes of their table.
func TestMetricsTellOfProxiesThatStopAsking(t *testing.T) {
	w := newWorld(fleet.Config{})
	w.publish(1)
	want := func(proxies, refusing int) {
		t.Helper()
		w.Tick()
		text := fmt.Sprintf("# HELP routesrv_live_proxies Addresses of clients without dataplane-client that asked within three of their intervals.\n"+
			"# TYPE routesrv_live_proxies gauge\nroutesrv_live_proxies %d\n"+
			"# HELP routesrv_clients_refusing_routes Live clients whose proxy refused routes of its last table.\n"+
			"# TYPE routesrv_clients_refusing_routes gauge\nroutesrv_clients_refusing_routes %d\n", proxies, refusing)
		if err := testutil.GatherAndCompare(w.metrics, strings.NewReader(text), "routesrv_live_proxies", "routesrv_clients_refusing_routes"); err != nil {
			t.Error(err)
		}
	}
	for range 5 {
		for i := range 3 {
			w.Saw(fleet.Sighting{UserAgent: "Skipper", Address: address(i), Holds: name(1)})
		}
		w.now = w.now.Add(3 * time.Second)
	}
	w.report("p", fleet.Report{Holds: name(1), Refused: 2})
	want(3, 1)
	w.report("p", fleet.Report{Holds: name(1)})
	want(3, 0)
	w.now = w.now.Add(30 * time.Second)
	want(0, 0)
}
