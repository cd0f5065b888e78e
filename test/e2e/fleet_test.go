package e2e

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/routesrv/routesrv/fleet"
	"github.com/routesrv/routesrv/test/programs"
)

const (
	fleetReplicas = 3
	fleetSidecars = 20 // the last two are behind the relay
	fleetPollers  = 20 // the last two are behind the relay
)

// fleetUnderTest is a small fleet with all kinds of clients.
type fleetUnderTest struct {
	replicas []*process
	relay    *process
	sidecars []*process
	pollers  []*skipperLike
	want     map[string]fleet.State // of each client, by id; a missing client may be in any state
}

// skipperLike polls like an unmodified Skipper: it names the last ETag, and nothing else. It has its own address.
type skipperLike struct {
	id     string      // its id in the fleet
	frozen atomic.Bool // it never accepts another table
	cancel context.CancelFunc
	done   chan struct{}
}

func startSkipperLike(t *testing.T, n int, routes string) *skipperLike {
	t.Helper()
	ip := net.IPv4(127, 0, 1, byte(n))
	transport := &http.Transport{DialContext: (&net.Dialer{LocalAddr: &net.TCPAddr{IP: ip}}).DialContext}
	client := &http.Client{Transport: transport, Timeout: 10 * time.Second}
	ctx, cancel := context.WithCancel(context.Background())
	s := &skipperLike{id: ip.String() + " Go-http-client/1.1", cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(s.done)
		defer transport.CloseIdleConnections()
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for etag := ""; ; {
			r, err := http.NewRequestWithContext(ctx, http.MethodGet, routes, nil)
			if err != nil {
				return
			}
			if etag != "" {
				r.Header.Set("If-None-Match", etag)
			}
			if resp, err := client.Do(r); err == nil {
				_, err = io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
				if resp.StatusCode == http.StatusOK && err == nil && (etag == "" || !s.frozen.Load()) {
					etag = resp.Header.Get("ETag")
				}
			}
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
		}
	}()
	t.Cleanup(s.stop)
	return s
}

func (s *skipperLike) stop() {
	s.cancel()
	<-s.done
}

// startFleet starts three replicas that know each other and a relay, and clients of all of them.
func startFleet(t *testing.T, api *faultProxy) *fleetUnderTest {
	t.Helper()
	f := &fleetUnderTest{want: make(map[string]fleet.State)}
	token, err := api.cluster.token(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	// They share port numbers, like pods, and have addresses other than the interfaces': otherwise each would consider them its
	// own.
	_, mainPort, _ := net.SplitHostPort(programs.FreeAddress(t))
	_, supportPort, _ := net.SplitHostPort(programs.FreeAddress(t))
	var peers, urls []string
	for i := range fleetReplicas + 1 {
		peers = append(peers, fmt.Sprintf("127.0.0.%d:%s", 2+i, mainPort))
		urls = append(urls, "http://"+peers[i])
	}
	start := func(i int, args ...string) *process {
		support := strings.Replace(peers[i], ":"+mainPort, ":"+supportPort, 1)
		return startProcess(t, binary, peers[i], support, append([]string{
			"-address=" + peers[i], "-support-listener=" + support, "-wait-for-healthcheck-interval=0s", "--peers=" + strings.Join(peers, ","),
		}, args...))
	}
	for i := range fleetReplicas {
		f.replicas = append(f.replicas, start(i, sourceArgs(t, api, token)...))
	}
	f.replicas[0].Ready(t)
	f.relay = start(fleetReplicas, "--upstream="+strings.Join(urls[:fleetReplicas], ","), "-source-poll-timeout=1000")
	f.relay.Ready(t)
	proxy := newMeteredProxy(t)
	for i := range fleetSidecars {
		server := urls[i%fleetReplicas]
		if i >= fleetSidecars-2 {
			server = urls[fleetReplicas]
		}
		id := fmt.Sprintf("ingress/sidecar-%02d", i)
		f.sidecars = append(f.sidecars, startFleetSidecar(t, i, server, proxy.URL+"/metrics"))
		f.want[id] = fleet.Current
	}
	proxy.follow(t, f.sidecars[0].Main+"/routes")
	for i := range fleetPollers {
		server := urls[i%fleetReplicas]
		if i >= fleetPollers-2 {
			server = urls[fleetReplicas]
		}
		s := startSkipperLike(t, i+1, server+"/routes")
		f.pollers = append(f.pollers, s)
		f.want[s.id] = fleet.Current
	}
	return f
}

// startFleetSidecar starts one sidecar, over a stream or by polling. The guards of the fourth and the fifth hold the loss of one percent, if that is 20 objects.
func startFleetSidecar(t *testing.T, i int, server, metrics string) *process {
	t.Helper()
	main, support := programs.FreeAddress(t), programs.FreeAddress(t)
	transport := []string{"stream", "poll"}[i%2]
	loss := "0.5"
	if i == 4 || i == 5 {
		loss = "0.01"
	}
	return startProcess(t, dataplane, main, support, []string{
		"--mode=Exec", "--address=" + main, "--support-listener=" + support, "-source-poll-timeout=1000", "--update-mode=" + transport,
		"--state-dir=" + t.TempDir(), "--upstream=" + server, "--guard=max-loss=" + loss,
		fmt.Sprintf("--pod-name=sidecar-%02d", i), "--pod-namespace=ingress", fmt.Sprintf("--node-name=node-%d", i), "--proxy-metrics-url=" + metrics,
	})
}

// meteredProxy is a proxy that polls its sidecar, applies tables at once, and shows that in metrics.
type meteredProxy struct {
	*httptest.Server
	mu      sync.Mutex
	updates int
	applied time.Time
}

func newMeteredProxy(t *testing.T) *meteredProxy {
	t.Helper()
	p := &meteredProxy{}
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		p.mu.Lock()
		defer p.mu.Unlock()
		fmt.Fprintf(w, "skipper_custom_total{key=\"incoming.HTTP/1.1\"} 42\nskipper_custom_duration_seconds_count{key=\"routes.update_latency\"} %d\n", p.updates)
		fmt.Fprintf(w, "skipper_custom_gauges{key=\"routes.updated_timestamp\"} %d\n", p.applied.Unix())
	}))
	t.Cleanup(p.Close)
	return p
}

// follow polls a sidecar until the test ends.
func (p *meteredProxy) follow(t *testing.T, routes string) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for etag := ""; ; {
			if a, err := programs.Fetch(ctx, routes, etag); err == nil && a.Status == http.StatusOK {
				etag = a.Header.Get("ETag")
				p.mu.Lock()
				p.updates, p.applied = p.updates+1, time.Now()
				p.mu.Unlock()
			}
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
		}
	}()
	t.Cleanup(func() { cancel(); <-done })
}

// view returns the view of a replica or relay of the fleet.
func (p *process) view(t *testing.T, query url.Values) *fleet.Clients {
	t.Helper()
	v := &fleet.Clients{}
	p.supportJSON(t, "/clients?"+query.Encode(), v)
	return v
}

// agrees waits until every replica reports the truth about every client, and returns how long the last one took.
func (f *fleetUnderTest) agrees(t *testing.T) time.Duration {
	t.Helper()
	begin := time.Now()
	for _, r := range f.replicas {
		var wrong []string
		deadline := time.Now().Add(programs.Patience)
		for tick := time.NewTicker(200 * time.Millisecond); ; <-tick.C {
			if wrong = f.wrong(r.view(t, nil)); len(wrong) == 0 {
				tick.Stop()
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("%s does not say the truth:\n%s", r.Support, strings.Join(wrong, "\n"))
			}
		}
	}
	return time.Since(begin)
}

// wrong lists the differences between a view and the truth.
func (f *fleetUnderTest) wrong(v *fleet.Clients) (wrong []string) {
	found := make(map[string]fleet.Client)
	for _, c := range v.Clients {
		found[c.ID] = c
	}
	for id, want := range f.want {
		c, ok := found[id]
		switch {
		case !ok:
			wrong = append(wrong, id+" is missing")
		case c.State != want:
			wrong = append(wrong, fmt.Sprintf("%s is %s, want %s: %+v", id, c.State, want, c))
		case want == fleet.Rejected && !strings.HasPrefix(c.Reason, "guard: "), want == fleet.Behind && c.BehindVersions < 1,
			strings.HasPrefix(id, "ingress/") == c.Inferred:
			wrong = append(wrong, fmt.Sprintf("%+v", c))
		}
	}
	for _, r := range v.Replicas {
		if r.Error != "" {
			wrong = append(wrong, r.Address+": "+r.Error)
		}
	}
	if len(v.Replicas) != fleetReplicas+1 || len(v.Relays) != 1 || !v.Relays[0].Details {
		wrong = append(wrong, fmt.Sprintf("replicas %+v, relays %+v", v.Replicas, v.Relays))
	}
	slices.Sort(wrong)
	return wrong
}

// TestEveryReplicaTellsTheTruthAboutTheFleet: three replicas, a relay, twenty sidecars and twenty proxies that only poll. Some
// are killed, some keep an old table, some refuse the new one: every replica must report that about each.
func TestEveryReplicaTellsTheTruthAboutTheFleet(t *testing.T) {
	c := ownCluster(t)
	withShop(t, c)
	objects, slices := heldObjects(1, 235)
	withObjects(t, c, objects+slices)
	api := newFaultProxy(t, c)
	f := startFleet(t, api)
	t.Logf("all are current after %v", f.agrees(t))

	id := func(i int) string { return fmt.Sprintf("ingress/sidecar-%02d", i) }
	for _, i := range []int{1, 2, fleetSidecars - 1} { // polling, with a stream, and behind the relay
		f.sidecars[i].Kill(t)
		f.want[id(i)] = fleet.Silent
	}
	for _, i := range []int{0, fleetPollers - 1} {
		f.pollers[i].stop()
		f.want[f.pollers[i].id] = fleet.Silent
	}
	for _, i := range []int{1, 2, fleetPollers - 2} {
		f.pollers[i].frozen.Store(true)
		f.want[f.pollers[i].id] = fleet.Behind
	}
	f.want[id(4)], f.want[id(5)] = fleet.Rejected, fleet.Rejected
	lost, _ := heldObjects(1, 21)
	remove(t, c, ingressesOf(lost))
	t.Logf("the truth about every client after %v", f.agrees(t))

	v := f.replicas[1].view(t, url.Values{"state": {"rejected"}})
	if len(v.Clients) != 2 || v.Matched != 2 || v.Counts.Rejected != 2 || v.Total != fleetSidecars+fleetPollers-4+1 {
		t.Errorf("%d rejected, counts %+v of %d", len(v.Clients), v.Counts, v.Total)
	}
	programs.Eventually(t, "the summary of the relay", func() bool {
		r := f.replicas[2].view(t, nil).Relays[0]
		return r.Counts == (fleet.Counts{Current: 1, Behind: 1, Silent: 2}) && r.Total == 4 && r.State == fleet.Current
	})
	programs.Eventually(t, "the table that a proxy has run with", func() bool {
		v := f.replicas[2].view(t, url.Values{"id": {id(0)}})
		c := v.Clients[0]
		return c.Proven != nil && c.Proven.Digest == v.Table.Digest && c.MetricsError == ""
	})

	f.replicas[0].Kill(t) // its clients must be reported as missing or silent
	programs.Eventually(t, "what a dead replica does not answer", func() bool {
		v := f.replicas[1].view(t, nil)
		for _, r := range v.Replicas {
			if "http://"+r.Address == f.replicas[0].Support && r.Error != "" {
				return len(v.Replicas) == fleetReplicas+1
			}
		}
		return false
	})
}
