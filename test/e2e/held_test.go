package e2e

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/routesrv/routesrv/test/programs"
)

// heldShops is how many Ingresses the tests of holds add, each with its own service and EndpointSlice.
const heldShops = 40

// heldObjects returns the objects of a range of shops: Ingresses with their services, and EndpointSlices.
func heldObjects(from, to int) (objects, slices string) {
	var o, s strings.Builder
	for i := from; i <= to; i++ {
		object, slice := shopOf(i)
		o.WriteString(object)
		s.WriteString(slice)
	}
	return o.String(), s.String()
}

// ingressesOf keeps only the Ingresses of a stream of objects.
func ingressesOf(objects string) string {
	var only []string
	for doc := range strings.SplitSeq(objects, "---") {
		if strings.Contains(doc, "kind: Ingress") {
			only = append(only, doc)
		}
	}
	return strings.Join(only, "---")
}

// holding is the part of /status about a hold that the tests read.
type holding struct {
	Held        bool   `json:"held"`
	Reason      string `json:"reason"`
	KeptCount   int    `json:"kept_count"`
	Digest      string `json:"digest"`
	ReleaseAt   string `json:"release_at"`
	LastRelease *struct {
		Accepted        bool
		By, Why, Digest string
	} `json:"last_release"`
}

func (p *process) guard(t *testing.T) holding {
	t.Helper()
	var s struct{ Guard holding }
	p.supportJSON(t, "/status", &s)
	return s.Guard
}

// holds waits until the process holds a table for the reason.
func (p *process) holds(t *testing.T, reason string) (h holding) {
	t.Helper()
	programs.Eventually(t, "a table held for "+reason, func() bool {
		h = p.guard(t)
		return h.Held && h.Reason == reason
	})
	return h
}

// accepts makes the process publish the held table.
func (p *process) accepts(t *testing.T, digest string) {
	t.Helper()
	query := url.Values{"digest": {digest}, "by": {"anna"}, "why": {"the shops have moved"}}
	if a, err := programs.Control(t.Context(), http.MethodPost, p.State, "/guard/accept?"+query.Encode()); err != nil || a.Status != http.StatusOK {
		t.Fatalf("acceptance: %v, %d %s", err, a.Status, a.Body)
	}
}

// decisions returns the last decisions, the oldest first.
func (p *process) decisions(t *testing.T) []map[string]any {
	t.Helper()
	var s struct{ Decisions []map[string]any }
	p.supportJSON(t, "/status", &s)
	slices.Reverse(s.Decisions)
	return s.Decisions
}

// body returns the served table.
func (p *process) body(t *testing.T) string {
	t.Helper()
	return p.get(t, "/routes", "").Body
}

// hasShop reports whether the table has a route of the Ingress.
func hasShop(body string, i int) bool { return strings.Contains(body, fmt.Sprintf("__lost%d__", i)) }

// keptShop returns a shop that the process keeps. Others may be served only because their deletion has not been read yet.
func (p *process) keptShop(t *testing.T) int {
	t.Helper()
	held, err := programs.Fetch(t.Context(), p.Support+"/guard/held", "")
	if err != nil {
		t.Fatal(err)
	}
	for i := heldShops; i > 0; i-- {
		if strings.Contains(held.Body, fmt.Sprintf("Ingress shop/lost%d\n", i)) {
			return i
		}
	}
	t.Fatalf("no shop is kept:\n%s", held.Body)
	return 0
}

const sliceList = "/apis/discovery.k8s.io/v1/endpointslices"

// atOnce changes the cluster while no list of the kind succeeds, so that a polling server sees everything in one read. A watching
// server may see steps.
func (p *faultProxy) atOnce(t *testing.T, mode, list string, change func()) {
	t.Helper()
	p.fail(list, status(http.StatusServiceUnavailable))
	if mode == "poll" {
		p.awaitRequests(t, list, 4) // with at most two servers, no earlier list is in progress
	}
	change()
	p.fail(list, nil)
}

func apply(t *testing.T, c *cluster, text string) {
	t.Helper()
	if err := c.apply(t.Context(), text); err != nil {
		t.Fatal(err)
	}
}

func remove(t *testing.T, c *cluster, text string) {
	t.Helper()
	if err := c.remove(t.Context(), text); err != nil {
		t.Fatal(err)
	}
}

// podOf returns the EndpointSlice of a shop with another pod.
func podOf(i int, address string) string {
	_, slice := shopOf(i)
	return strings.Replace(slice, fmt.Sprintf("[{addresses: [10.9.0.%[1]d]}, {addresses: [10.9.1.%[1]d]}]", i), "[{addresses: ["+address+"]}]", 1)
}

// withHeldShops applies the shops, and returns their objects and slices. They have so many routes that losing them is a loss of
// more than half, whatever else exists.
func withHeldShops(t *testing.T, c *cluster) (objects, slices string) {
	t.Helper()
	withShop(t, c)
	objects, slices = heldObjects(1, heldShops)
	withObjects(t, c, objects+slices)
	return objects, slices
}

// startTree starts a relay of the server and a data plane behind it.
func startTree(t *testing.T, server *process) (relay, plane *process) {
	t.Helper()
	server.Ready(t)
	routes := strings.Split(server.body(t), "\n")
	n := 0
	for _, r := range routes {
		if strings.Contains(r, "__lost") {
			n++
		}
	}
	if 2*n <= len(routes) {
		t.Fatalf("%d of %d routes are of the shops, too few for the rule", n, len(routes))
	}
	relay = startRelay(t, t.TempDir(), server.Main)
	relay.Ready(t)
	plane = startFetching(t, "auto", relay.Main)
	plane.Ready(t)
	return relay, plane
}

// TestHeldIntentIsLiveThroughTheTree deletes more than half of the routes while pods are being replaced: the server holds the
// loss and serves the new endpoints, and so do a relay and a data plane, until the table is accepted.
func TestHeldIntentIsLiveThroughTheTree(t *testing.T) {
	c := ownCluster(t)
	for mode, start := range starts {
		t.Run(mode, func(t *testing.T) {
			objects, _ := withHeldShops(t, c)
			api := newFaultProxy(t, c)
			server := start(t, api, "--state-dir="+t.TempDir())
			relay, plane := startTree(t, server)
			levels := map[string]*process{"server": server, "relay": relay, "data plane": plane}

			api.atOnce(t, mode, ingressList, func() { remove(t, c, ingressesOf(objects)) })
			first := server.holds(t, "routes_lost")
			if first.KeptCount == 0 || first.ReleaseAt == "" {
				t.Errorf("held is %+v, want kept objects, with a time", first)
			}
			shop := server.keptShop(t)
			for n := range 3 {
				address := fmt.Sprintf("10.77.%d.%d", len(mode), n+1)
				apply(t, c, podOf(shop, address))
				if mode == "poll" { // the current read may be older; the next one is not
					api.awaitRequests(t, sliceList, 3)
					if !strings.Contains(server.body(t), address+":8080") {
						t.Errorf("after two polls the endpoint %s is not served", address)
					}
				}
				for name, p := range levels {
					programs.Eventually(t, "the new endpoint in the "+name, func() bool { return strings.Contains(p.body(t), address+":8080") })
					if !hasShop(p.body(t), shop) {
						t.Errorf("the %s has lost what is held", name)
					}
				}
			}
			for _, p := range []*process{server, relay} {
				if got := p.get(t, "/routes", "").Header.Get("X-Table-State"); got != "held" {
					t.Errorf("X-Table-State: %q, want held", got)
				}
			}
			owner := fmt.Sprintf("Ingress shop/lost%d", shop)
			held, err := programs.Fetch(t.Context(), server.Support+"/guard/held", "")
			if err != nil || held.Status != http.StatusOK || !strings.Contains(held.Body, owner+"\n") {
				t.Errorf("/guard/held: %d, error %v, want %s in\n%s", held.Status, err, owner, held.Body)
			}

			server.accepts(t, server.guard(t).Digest)
			plane.acceptsWhatItHolds(t) // it has its own guard
			for name, p := range levels {
				programs.Eventually(t, "the "+name+" without the Ingresses", func() bool { return !strings.Contains(p.body(t), "__lost") })
			}
			last := server.guard(t).LastRelease
			if last == nil || !last.Accepted || last.By != "anna" || last.Why != "the shops have moved" {
				t.Fatalf("/status does not say who accepted: %+v", last)
			}
			programs.Eventually(t, "the decisions", func() bool {
				lines := server.decisions(t)
				if len(lines) < 2 {
					return false
				}
				latest := lines[len(lines)-1]
				// A watching server may see a step in which most hosts are gone, and not yet most routes.
				because := lines[0]["reason"] == "routes_lost" || mode == "watch" && lines[0]["reason"] == "hosts_lost"
				return lines[0]["what"] == "held" && because && latest["what"] == "accepted" &&
					latest["by"] == "anna" && latest["why"] == "the shops have moved" && latest["digest"] == last.Digest
			})
		})
	}
}

// acceptsWhatItHolds waits until a data plane holds a table, and accepts it.
func (p *process) acceptsWhatItHolds(t *testing.T) {
	t.Helper()
	var s struct {
		Fetch struct{ Held *struct{ Digest string } }
	}
	programs.Eventually(t, "a table that the data plane holds", func() bool {
		p.supportJSON(t, "/status", &s)
		return s.Fetch.Held != nil
	})
	p.accepts(t, s.Fetch.Held.Digest)
}

// TestEmptiedEndpointSlicesAreHeldThroughTheTree empties every EndpointSlice, and fills them again.
func TestEmptiedEndpointSlicesAreHeldThroughTheTree(t *testing.T) {
	c := ownCluster(t)
	for mode, start := range starts {
		t.Run(mode, func(t *testing.T) {
			_, slices := withHeldShops(t, c)
			api := newFaultProxy(t, c)
			server := start(t, api, "--state-dir="+t.TempDir())
			relay, plane := startTree(t, server)
			before := server.body(t)
			had := routesWithEndpoints(t, before)

			api.atOnce(t, mode, sliceList, func() {
				for i := range heldShops {
					apply(t, c, strings.Replace(podOf(i+1, "x"), "[{addresses: [x]}]", "[]", 1))
				}
			})
			if h := server.holds(t, "backends_lost"); h.KeptCount == 0 {
				t.Errorf("held is %+v, want kept services", h)
			}
			for _, p := range []*process{server, relay} {
				programs.Eventually(t, "the state in the header", func() bool {
					return p.get(t, "/routes", "").Header.Get("X-Table-State") == "backends-held"
				})
			}
			for name, p := range map[string]*process{"server": server, "relay": relay, "data plane": plane} {
				body := p.body(t)
				if has := routesWithEndpoints(t, body); 2*has < had || mode == "poll" && body != before {
					t.Errorf("%s: %d of %d routes have endpoints", name, has, had)
				}
			}

			apply(t, c, slices)
			for name, p := range map[string]*process{"server": server, "relay": relay, "data plane": plane} {
				programs.Eventually(t, "the table from before in the "+name, func() bool { return p.body(t) == before })
			}
			programs.Eventually(t, "the end of the hold", func() bool {
				return !server.guard(t).Held && relay.get(t, "/routes", "").Header.Get("X-Table-State") == ""
			})
		})
	}
}
