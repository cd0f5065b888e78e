package e2e

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/routesrv/routesrv/eskip"
	"github.com/routesrv/routesrv/test/programs"
)

// keptShops is how many Ingresses are deleted and come back one by one, a hundredth at a time.
const keptShops = 100

// observer asks route servers for their tables all the time, and looks in each answer for a route to an address for every shop. It knows
// nothing of what the servers say about their tables.
type observer struct {
	stop  context.CancelFunc
	group sync.WaitGroup

	mu      sync.Mutex
	answers map[string]int    // by server
	lacks   map[string]string // by server: the first answer that lacks something
}

func observe(t *testing.T, servers map[string]string) *observer {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	o := &observer{stop: stop, answers: make(map[string]int), lacks: make(map[string]string)}
	for name, address := range servers {
		o.group.Go(func() {
			for ctx.Err() == nil {
				a, err := programs.Fetch(ctx, address+"/routes", "")
				if err == nil && a.Status == http.StatusOK { // else it restarts: its clients keep what they have
					o.look(name, a.Body)
				}
			}
		})
	}
	return o
}

func (o *observer) look(name, body string) {
	routes, err := eskip.Parse(body)
	reached := make(map[string]bool)
	for _, r := range routes {
		if r.BackendType == eskip.NetworkBackend || r.BackendType == eskip.LBBackend {
			for _, host := range r.HostRegexps {
				reached[host] = true
			}
		}
	}
	missing := ""
	for i := range keptShops {
		if host := fmt.Sprintf("^(lost%d[.]example[.]org[.]?(:[0-9]+)?)$", i+1); !reached[host] {
			missing += fmt.Sprintf(" lost%d", i+1)
		}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.answers[name]++
	if o.lacks[name] == "" && (err != nil || missing != "") {
		o.lacks[name] = fmt.Sprintf("error %v, nothing answers for%s", err, missing)
	}
}

// end stops the observer and reports what was missing.
func (o *observer) end(t *testing.T) {
	t.Helper()
	o.stop()
	o.group.Wait()
	for name, n := range o.answers {
		if n < 20 {
			t.Errorf("only %d answers of the %s: they show little", n, name)
		}
	}
	for name, what := range o.lacks {
		t.Errorf("the %s: %s", name, what)
	}
}

// TestARestoreIsNeverServedInParts deletes all Ingresses of a namespace at once, and restores them a hundredth at a time. Every request is
// answered at every moment, by two replicas, and by a relay and a data plane behind one of them, of which the first is killed in the
// middle. Another team's changes are served within two reads all the while.
func TestARestoreIsNeverServedInParts(t *testing.T) {
	c := ownCluster(t)
	withShop(t, c)
	objects, slices := heldObjects(1, keptShops)
	withObjects(t, c, objects+slices)
	t.Cleanup(func() { // this test applies versions of it
		if err := c.remove(cleanupContext(t), teamIngress(0)); err != nil {
			t.Error(err)
		}
	})
	api := newFaultProxy(t, c)
	main, support, state := programs.FreeAddress(t), programs.FreeAddress(t), t.TempDir()
	token, err := c.token(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	start := func() *process {
		p := startProcess(t, binary, main, support, append([]string{
			"-address=" + main, "-support-listener=" + support, "-wait-for-healthcheck-interval=0s", "--state-dir=" + state,
		}, sourceArgs(t, api, token)...))
		p.Ready(t)
		return p
	}
	server := start()
	relay := startRelay(t, t.TempDir(), server.Main)
	relay.Ready(t)
	plane := startFetching(t, "auto", relay.Main)
	plane.Ready(t)
	second := startRoutesrv(t, api, "--state-dir="+t.TempDir())
	second.Ready(t)
	levels := map[string]*process{"first replica": server, "second replica": second, "relay": relay, "data plane": plane}
	for name, p := range levels {
		programs.Eventually(t, "all shops in the "+name, func() bool { return hasShop(p.body(t), keptShops) })
	}
	o := observe(t, map[string]string{"first replica": server.Main, "second replica": second.Main, "relay": relay.Main, "data plane": plane.Main})

	api.atOnce(t, "poll", ingressList, func() { remove(t, c, ingressesOf(objects)) })
	for _, p := range []*process{server, second} {
		if h := p.holds(t, "routes_lost"); h.KeptCount != keptShops {
			t.Errorf("%d objects are kept, want %d", h.KeptCount, keptShops)
		}
	}
	for i := range keptShops {
		object, _ := shopOf(i + 1)
		apply(t, c, ingressesOf(object))
		switch i {
		case 10, 60, 90:
			apply(t, c, teamIngress(i))
			for _, p := range []*process{server, second} {
				p.awaitReads(t, 3) // the one in progress may be older
				if !strings.Contains(p.body(t), fmt.Sprintf("/version-%d", i)) {
					t.Errorf("step %d: after two reads another team's change is not served", i)
				}
			}
			for name, p := range levels {
				programs.Eventually(t, "another team's change in the "+name, func() bool { return strings.Contains(p.body(t), fmt.Sprintf("/version-%d", i)) })
			}
		case 40:
			if info, err := os.Stat(state + "/table.eskip.kept.json"); err != nil || info.Mode().Perm() != 0o600 {
				t.Errorf("the file of kept objects: %v, error %v, want mode 0600", info, err)
			}
			server.Kill(t)
			server = start()
			levels["first replica"] = server
		}
	}
	for name, p := range map[string]*process{"first": server, "second": second} {
		programs.Eventually(t, "the end of the hold of the "+name+" replica", func() bool { return !p.guard(t).Held })
	}
	programs.Eventually(t, "one table everywhere", func() bool {
		return server.body(t) == second.body(t) && relay.body(t) == server.body(t) && plane.body(t) == server.body(t)
	})
	o.end(t)
}

// awaitReads waits until the process has completed so many reads.
func (p *process) awaitReads(t *testing.T, n int) {
	t.Helper()
	last := ""
	programs.Eventually(t, fmt.Sprintf("%d reads", n), func() bool {
		var s struct {
			Source struct {
				LastSuccess string `json:"last_success"`
			}
		}
		p.supportJSON(t, "/status", &s)
		if last != "" && s.Source.LastSuccess != last {
			n--
		}
		last = s.Source.LastSuccess
		return n <= 0
	})
}

// teamIngress is the Ingress of another team, in one of its versions, with its service.
func teamIngress(version int) string {
	return fmt.Sprintf(`
apiVersion: v1
kind: Service
metadata: {name: other-team, namespace: default}
spec: {ports: [{name: http, port: 80, targetPort: 8080}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: other-team-1, namespace: default, labels: {kubernetes.io/service-name: other-team}}
addressType: IPv4
endpoints: [{addresses: [10.8.0.1]}]
ports: [{name: http, port: 8080, protocol: TCP}]
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: other-team, namespace: default, annotations: {zalando.org/skipper-filter: 'setPath("/version-%d")'}}
spec: {rules: [{host: other-team.example.org, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: other-team, port: {number: 80}}}}]}}]}
---`, version)
}
