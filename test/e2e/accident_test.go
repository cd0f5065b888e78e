package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/routesrv/routesrv/api"
	"github.com/routesrv/routesrv/eskip"
	"github.com/routesrv/routesrv/match"
	"github.com/routesrv/routesrv/publish"
	"github.com/routesrv/routesrv/test/programs"
)

const (
	accidentTeams = 30 // with dashes in the names of their namespaces
	accidentApps  = 20 // Ingresses of each
	accidentOld   = 10 // deleted on purpose, longer than a window before
	standIns      = 4
)

// accident is a mass deletion, at a fraction of its real duration: everything else that takes time is as much shorter.
type accident struct {
	share float64
	over  time.Duration // in reality
	times int           // how much faster the test is
}

// TestMassDeletions deletes a large share of the Ingresses of a cluster with two replicas, at different speeds. An observer sends 100 requests a
// second through proxies that poll the replicas in turn.
func TestMassDeletions(t *testing.T) {
	for name, a := range map[string]accident{
		"60 percent in a minute":      {share: 0.6, over: time.Minute, times: 3},
		"85 percent in a minute":      {share: 0.85, over: time.Minute, times: 3},
		"85 percent within two polls": {share: 0.85, over: 6 * time.Second, times: 1},
	} {
		t.Run(name, func(t *testing.T) { a.run(t) })
	}
}

func (a accident) run(t *testing.T) {
	c := ownCluster(t)
	apps := withTeams(t, c)
	poll := 3 * time.Second / time.Duration(a.times)
	window := 10 * poll
	if a.times > 1 {
		window = 30 * poll
	}
	replicas := a.start(t, newFaultProxy(t, c), poll, window)
	apply(t, c, teamIngress(0))
	t.Cleanup(func() {
		if err := c.remove(cleanupContext(t), teamIngress(0)); err != nil {
			t.Error(err)
		}
	})
	old, apps := apps[:accidentOld], apps[accidentOld:]
	c.deleteApps(t, old, 0)
	for _, r := range replicas {
		programs.Eventually(t, "a table without what was deleted on purpose", func() bool {
			body := r.body(t)
			return strings.Contains(body, hostRegexp(apps[0])) && !slices.ContainsFunc(old, func(app [2]string) bool { return strings.Contains(body, hostRegexp(app)) })
		})
	}
	published := time.Now()

	var proxies []*polling
	for i := range standIns {
		p := &polling{urls: []string{replicas[i%2].Main + "/routes", replicas[(i+1)%2].Main + "/routes"}}
		p.run(t, poll)
		proxies = append(proxies, p)
	}
	programs.Eventually(t, "proxies with a table", func() bool {
		return !slices.ContainsFunc(proxies, func(p *polling) bool { return p.table.Load() == nil })
	})
	programs.Eventually(t, "the end of the window of the deletions", func() bool { return time.Since(published) > window })

	o := &outside{began: time.Now(), times: a.times}
	o.run(t, apps, proxies)
	var deleting sync.WaitGroup
	n := int(a.share * float64(len(apps)))
	rand.Shuffle(len(apps), func(i, j int) { apps[i], apps[j] = apps[j], apps[i] })
	var deleted time.Duration
	deleting.Go(func() {
		c.deleteApps(t, apps[:n], a.over/time.Duration(a.times))
		deleted = time.Since(o.began)
	})
	for version := 1; version <= 3; version++ {
		apply(t, c, teamIngress(version))
		for i, r := range replicas {
			r.awaitReads(t, 3) // the one in progress may be older
			if !strings.Contains(r.body(t), fmt.Sprintf("/version-%d", version)) {
				t.Errorf("after two reads replica %d does not serve version %d of another team", i, version)
			}
		}
	}
	deleting.Wait()
	for i, r := range replicas {
		programs.Eventually(t, fmt.Sprintf("replica %d to keep everything that was deleted", i), func() bool { return len(r.keptNames(t)) == n })
		r.awaitReads(t, 3)
	}
	first, second := replicas[0].keptNames(t), replicas[1].keptNames(t)
	if !slices.Equal(first, second) {
		t.Errorf("the replicas keep different objects: %d and %d", len(first), len(second))
	}
	programs.Eventually(t, "one table on both replicas", func() bool { return replicas[0].body(t) == replicas[1].body(t) })
	for _, app := range old {
		if strings.Contains(replicas[0].body(t), hostRegexp(app)) {
			t.Errorf("%v was deleted on purpose, and is back", app)
		}
	}
	requests, lost, last := o.end()
	t.Logf("%d of %d Ingresses deleted in %s, %d requests, %d lost, the last after %s; times %d: the last after %s", n, len(apps), deleted.Round(time.Millisecond),
		requests, lost, last.Round(10*time.Millisecond), a.times, (last * time.Duration(a.times)).Round(100*time.Millisecond))
	if lost > 100 {
		t.Errorf("%d requests were lost, want 100 at most", lost)
	}
	// Until a tenth is deleted the loss looks like daily work. The next read notices, and each proxy polls once more; a loaded machine is late.
	tenth := time.Duration(0.1 / a.share * float64(deleted))
	if limit := max(10*time.Second/time.Duration(a.times), tenth+4*poll); last > limit {
		t.Errorf("the last request was lost %s after the first deletion, want %s at most", last, limit)
	}
	if want := int(100 * a.over.Seconds()); requests < want {
		t.Errorf("%d requests show little, want %d", requests, want)
	}
}

// start starts two replicas that know each other, and read half a poll apart.
func (a accident) start(t *testing.T, fault *faultProxy, poll, window time.Duration) (replicas []*process) {
	t.Helper()
	token, err := fault.cluster.token(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(programs.FreeAddress(t))
	_, support, _ := net.SplitHostPort(programs.FreeAddress(t))
	octet := 10 + 2*nextAddress.Add(1) // not an address of this machine's interfaces, which the replicas consider their own
	peers := []string{fmt.Sprintf("127.0.0.%d:%s", octet, port), fmt.Sprintf("127.0.0.%d:%s", octet+1, port)}
	for i, address := range peers {
		beside := strings.Replace(address, ":"+port, ":"+support, 1)
		r := startProcess(t, binary, address, beside, append(append([]string{
			"-address=" + address, "-support-listener=" + beside, "-wait-for-healthcheck-interval=0s", "--state-dir=" + t.TempDir(),
			"--peers=" + strings.Join(peers, ","), fmt.Sprintf("--guard=window=%s", window),
		}, sourceArgs(t, fault, token)...), fmt.Sprintf("-source-poll-timeout=%d", poll.Milliseconds())))
		r.Ready(t)
		replicas = append(replicas, r)
		if i == 0 {
			time.Sleep(poll / 2) // out of step
		}
	}
	return replicas
}

var nextAddress atomic.Int32

// withTeams creates the Ingresses of all teams, and returns their namespaces and names. All of a team have one Service.
func withTeams(t *testing.T, c *cluster) (apps [][2]string) {
	t.Helper()
	for i := range accidentTeams {
		team := fmt.Sprintf("team-%d--shop-a", i)
		var text strings.Builder
		fmt.Fprintf(&text, `
apiVersion: v1
kind: Service
metadata: {name: web, namespace: %[1]s}
spec: {ports: [{name: http, port: 80, targetPort: 8080}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: web-1, namespace: %[1]s, labels: {kubernetes.io/service-name: web}}
addressType: IPv4
endpoints: [{addresses: [10.7.0.%[2]d]}]
ports: [{name: http, port: 8080, protocol: TCP}]
---`, team, i+1)
		for j := range accidentApps {
			name := fmt.Sprintf("app-%d-b", j)
			apps = append(apps, [2]string{team, name})
			fmt.Fprintf(&text, `
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: %[1]s, namespace: %[2]s}
spec: {rules: [{host: %[1]s.%[2]s.example.org, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: web, port: {number: 80}}}}]}}]}
---`, name, team)
		}
		apply(t, c, text.String())
		t.Cleanup(func() {
			if err := c.remove(cleanupContext(t), text.String()); err != nil {
				t.Error(err)
			}
		})
	}
	rand.Shuffle(len(apps), func(i, j int) { apps[i], apps[j] = apps[j], apps[i] })
	return apps
}

// deleteApps deletes Ingresses one after the other, evenly over a time.
func (c *cluster) deleteApps(t *testing.T, apps [][2]string, over time.Duration) {
	began := time.Now()
	for i, app := range apps {
		time.Sleep(time.Until(began.Add(over * time.Duration(i) / time.Duration(len(apps))))) // the pace is the test
		if err := c.typed.NetworkingV1().Ingresses(app[0]).Delete(t.Context(), app[1], metav1.DeleteOptions{}); err != nil {
			t.Error(err)
			return
		}
	}
}

func host(app [2]string) string { return app[1] + "." + app[0] + ".example.org" }

func hostRegexp(app [2]string) string { return strings.ReplaceAll(host(app), ".", "[.]") }

// keptNames returns what the guard of a replica keeps.
func (p *process) keptNames(t *testing.T) (names []string) {
	t.Helper()
	kept, err := publish.ReadKept(bytes.NewReader([]byte(p.get(t, api.PathKeptNames, "").Body)))
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range kept {
		names = append(names, k.Ref.String())
	}
	slices.Sort(names)
	return names
}

// polling is a proxy that asks replicas in turn for the table, and matches requests with it.
type polling struct {
	urls  []string
	table atomic.Pointer[match.Table]
}

func (p *polling) run(t *testing.T, poll time.Duration) {
	var done sync.WaitGroup
	ctx, stop := context.WithCancel(t.Context())
	t.Cleanup(func() { stop(); done.Wait() })
	done.Go(func() {
		tick := time.NewTicker(poll)
		defer tick.Stop()
		etag := ""
		for i := 0; ctx.Err() == nil; i++ {
			a, err := programs.Fetch(ctx, p.urls[i%len(p.urls)], etag)
			if err == nil && a.Status == http.StatusOK {
				routes, err := eskip.Parse(a.Body)
				if err != nil {
					t.Error(err)
					return
				}
				next, _ := match.New(routes, match.Options{NormalizeHost: true, ValidateQuery: true, Candidates: -1})
				p.table.Store(next)
				etag = a.Header.Get("Etag")
			} else if err != nil && !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
			select {
			case <-ctx.Done():
			case <-tick.C:
			}
		}
	})
}

// answers reports whether the proxy sends a request to a pod.
func (p *polling) answers(host string) bool {
	found := p.table.Load().Find(match.Request{Host: host, Target: "/"})
	if len(found.Outcomes) != 1 || found.Outcomes[0].Route == nil {
		return false
	}
	kind := found.Outcomes[0].Route.BackendType
	return kind == eskip.NetworkBackend || kind == eskip.LBBackend
}

// outside sends 100 requests a second, or as many times more as the test is faster, to all hosts, deleted or not.
type outside struct {
	began time.Time
	times int
	stop  context.CancelFunc
	done  sync.WaitGroup

	requests, lost int
	last           time.Duration
}

func (o *outside) run(t *testing.T, apps [][2]string, proxies []*polling) {
	apps = slices.Clone(apps)
	ctx, stop := context.WithCancel(t.Context())
	o.stop = stop
	t.Cleanup(func() { o.end() })
	o.done.Go(func() {
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			for due := int(time.Since(o.began).Seconds() * float64(100*o.times)); o.requests < due; o.requests++ {
				if !proxies[o.requests%len(proxies)].answers(host(apps[rand.IntN(len(apps))])) {
					o.lost++
					o.last = time.Since(o.began)
				}
			}
		}
	})
}

func (o *outside) end() (requests, lost int, last time.Duration) {
	o.stop()
	o.done.Wait()
	return o.requests, o.lost, o.last
}
