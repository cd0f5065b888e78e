package publish_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/routesrv/routesrv/compile/rules"
	"github.com/routesrv/routesrv/guard"
	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/poller"
	"github.com/routesrv/routesrv/publish"
	"github.com/routesrv/routesrv/table"
)

// cluster has objects by name, and a Publisher that is offered each change of them.
type cluster struct {
	t         *testing.T
	publisher *publish.Publisher
	compiler  *poller.Compiler
	builder   *breakable
	before    *table.Table
	revision  uint64
	filters   *kube.DefaultFilters
	file      publish.FileConfig

	ingresses map[string]*kube.Ingress // by NAMESPACE/NAME
	groups    map[string]*kube.RouteGroup
	services  map[string]*kube.Service
	pods      map[string]*kube.EndpointSlice
}

// breakable is a compiler that panics on demand.
type breakable struct {
	*poller.Compiler
	broken bool
}

func (b *breakable) CompileBeside(s *kube.Snapshot) table.List {
	if b.broken {
		panic("index out of range")
	}
	return b.Compiler.CompileBeside(s)
}

// newCluster has twenty Ingresses of the namespace shop and ten of the namespace team, each with a service and a pod, and a RouteGroup.
func newCluster(t *testing.T, cfg publish.Config) *cluster {
	t.Helper()
	c := &cluster{
		t: t, ingresses: make(map[string]*kube.Ingress), groups: make(map[string]*kube.RouteGroup),
		services: make(map[string]*kube.Service), pods: make(map[string]*kube.EndpointSlice),
	}
	for i := range 20 {
		c.add("shop", fmt.Sprintf("app-%02d", i), fmt.Sprintf("10.1.0.%d", i+1))
	}
	for i := range 10 {
		c.add("team", fmt.Sprintf("app-%02d", i), fmt.Sprintf("10.2.0.%d", i+1))
	}
	c.group("team", "group", "/a")
	c.start(cfg)
	return c
}

// start begins with a new process.
func (c *cluster) start(cfg publish.Config) {
	c.t.Helper()
	var err error
	if c.compiler, err = poller.NewCompiler(rules.Options{EndpointSlices: true}, nil, nil); err != nil {
		c.t.Fatal(err)
	}
	c.builder = &breakable{Compiler: c.compiler}
	cfg.Builder, c.file = c.builder, cfg.File
	if cfg.Sink == nil {
		cfg.Sink = publish.Each(func(*table.Table) {})
	}
	if c.publisher, err = publish.New(cfg); err != nil {
		c.t.Fatal(err)
	}
	c.before = nil
	c.publisher.Boot(1<<20, nil)
}

func (c *cluster) add(namespace, name, pod string) {
	c.ingress(namespace, name, name+"."+namespace+".example.org", name)
	c.services[namespace+"/"+name] = &kube.Service{
		Namespace: namespace, Name: name, Type: "ClusterIP", Ports: []kube.ServicePort{{Port: 80, TargetPort: kube.NumberPort(8080)}},
	}
	c.pod(namespace, name, pod)
}

func (c *cluster) ingress(namespace, name, host, service string) {
	c.ingresses[namespace+"/"+name] = &kube.Ingress{
		Meta: kube.Meta{Namespace: namespace, Name: name, Changed: "2026-11-23T12:03:00Z kubectl"},
		Spec: &kube.IngressSpec{Rules: []kube.IngressRule{{Host: host, HTTP: true, Paths: []kube.IngressPath{{
			Path: "/", PathType: "Prefix", Backend: &kube.IngressBackend{Service: service, PortNumber: 80},
		}}}}},
	}
}

func (c *cluster) group(namespace, name, path string) {
	c.groups[namespace+"/"+name] = &kube.RouteGroup{Meta: kube.Meta{Namespace: namespace, Name: name}, Spec: &kube.RouteGroupSpec{
		Hosts: []string{name + ".example.org"}, Backends: []*kube.RouteGroupBackend{{Name: "n", Type: "network", Address: "http://n.example.org"}},
		DefaultBackends: []*kube.BackendReference{{BackendName: "n", Weight: 1}}, Routes: []*kube.RouteSpec{{PathSubtree: path}},
	}}
}

// pod gives a service one pod, or none.
func (c *cluster) pod(namespace, name, address string) {
	s := &kube.EndpointSlice{
		Namespace: namespace, Name: name + "-1", Service: name, Ports: []kube.EndpointPort{{Port: 8080, Protocol: "TCP"}},
	}
	if address != "" {
		s.Endpoints = []kube.SliceEndpoint{{Address: address, Ready: true}}
	}
	c.pods[namespace+"/"+name] = s
}

// remove deletes Ingresses.
func (c *cluster) remove(namespace string, from, to int) {
	for i := from; i < to; i++ {
		delete(c.ingresses, fmt.Sprintf("%s/app-%02d", namespace, i))
	}
}

func valuesOf[T any](m map[string]T) (all []T) {
	var keys []string
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	for _, k := range keys {
		all = append(all, m[k])
	}
	return all
}

// read offers what the cluster has.
func (c *cluster) read() publish.Outcome {
	c.t.Helper()
	c.revision++
	s := &kube.Snapshot{Revision: kube.Revision(c.revision)}
	s.Ingresses, s.RouteGroups, s.Services, s.EndpointSlices = valuesOf(c.ingresses), valuesOf(c.groups), valuesOf(c.services), valuesOf(c.pods)
	s.DefaultFilters = c.filters
	routes := c.compiler.Compile(s)
	if c.before == nil {
		c.before = table.Of(routes, c.revision, time.Now())
	} else {
		c.before = c.before.Next(routes, c.revision, time.Now())
	}
	return c.publisher.Begin().Offer(publish.Candidate{
		Table: c.before, Snapshot: s, Read: table.Read{Oldest: c.revision, Newest: c.revision, At: time.Now()},
	})
}

// keeps expects these objects to be kept, and no others.
func (c *cluster) keeps(when string, want ...string) {
	c.t.Helper()
	var got []string
	held := false
	for _, k := range c.publisher.Kept() {
		got = append(got, k.Ref.String())
		held = held || k.Reason != publish.ReasonFreeze && k.Reason != publish.ReasonPin
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		c.t.Errorf("%s: kept are %q, want %q", when, got, want)
	}
	if got := c.publisher.Holding().Held; got != held {
		c.t.Errorf("%s: held is %v, want %v", when, got, held)
	}
}

// serves expects texts in the served table, or not if they begin with "!".
func (c *cluster) serves(when string, texts ...string) {
	c.t.Helper()
	body := string(c.publisher.Table().Text())
	for _, text := range texts {
		text, not := strings.CutPrefix(text, "!")
		if strings.Contains(body, text) == not {
			c.t.Errorf("%s: %q in the served table is %v:\n%s", when, text, not, body)
		}
	}
}

func apps(kind, namespace string, from, to int) (all []string) {
	for i := from; i < to; i++ {
		all = append(all, fmt.Sprintf("%s %s/app-%02d", kind, namespace, i))
	}
	return all
}

// While the Ingresses of one team are kept, everything that others do is served with the next read, and each Ingress that comes back is
// released by itself.
func TestOneTeamsAccidentDelaysNobody(t *testing.T) {
	c := newCluster(t, publish.Config{})
	c.read()
	all := valuesOf(c.ingresses)[:20]
	c.remove("shop", 0, 20)
	c.read()
	c.keeps("all of a team are deleted", apps("Ingress", "shop", 0, 20)...)
	c.serves("all of a team are deleted", "shop__app_00__", "shop__app_19__")

	c.add("team", "fresh", "10.2.1.1")
	c.group("team", "group", "/changed")
	c.pod("shop", "app-03", "10.1.1.3")
	c.ingress("team", "app-09", "moved.example.org", "app-09")
	c.read()
	c.serves("what others do", "team__fresh__", "/changed", "http://10.1.1.3:8080", "moved", "!app-09[.]team", "shop__app_03__")
	c.keeps("what others do", apps("Ingress", "shop", 0, 20)...)

	for i, ing := range all {
		again := *ing
		c.ingresses["shop/"+ing.Name] = &again
		c.read()
		c.keeps("a restore in steps", apps("Ingress", "shop", i+1, 20)...)
		c.serves("a restore in steps", "shop__app_00__", "shop__app_19__")
	}
	if got := c.publisher.Table(); !got.Equal(c.before) {
		t.Errorf("after the restore the table is\n%s\nwant\n%s", got.Text(), c.before.Text())
	}
}

// TestAnAccidentThatGoesOn: a cluster loses its Ingresses one by one. What was published before the limit was reached comes back, every later loss
// is kept at once, and changes of objects that exist are served. Deletions wait for at most one window, and end with the accident.
func TestAnAccidentThatGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, publish.Config{})
		for i := range 200 {
			c.add("big", fmt.Sprintf("app-%03d", i), fmt.Sprintf("10.4.%d.%d", i/200, i%200+1))
		}
		c.read()
		time.Sleep(20 * time.Minute)
		lost := func(n int) { delete(c.ingresses, fmt.Sprintf("big/app-%03d", n)) }
		for n := range 23 { // a tenth of 231 objects
			lost(n)
			c.read()
			time.Sleep(time.Second)
		}
		c.keeps("below the limit")
		c.serves("below the limit", "!big__app_022__")
		lost(23)
		c.read()
		if kept := len(c.publisher.Kept()); kept != 24 {
			t.Fatalf("%d objects are kept, want all that were lost", kept)
		}
		c.serves("above the limit", "big__app_000__", "big__app_022__", "big__app_023__", "http://10.4.0.1:8080")
		end := c.publisher.Kept()[0].Until
		for n := 24; n < 150; n++ {
			lost(n)
			c.filter("team/app-00", fmt.Sprintf("setPath(\"/%d\")", n))
			time.Sleep(time.Second)
			c.read()
			c.serves("while it goes on", fmt.Sprintf("big__app_%03d__", n), fmt.Sprintf(`setPath("/%d")`, n))
		}
		for _, k := range c.publisher.Kept() {
			if !k.Until.Equal(end) || k.Accident.IsZero() {
				t.Fatalf("%s is kept until %v, the first one until %v", k.Ref, k.Until, end)
			}
		}
		time.Sleep(guard.DefaultWindow)
		delete(c.ingresses, "team/app-01")
		c.read()
		c.serves("a deletion after the accident", "!team__app_01__", "big__app_000__")
		time.Sleep(time.Until(end))
		c.read()
		c.keeps("at its end")
		if !c.publisher.Table().Equal(c.before) {
			t.Error("what is served is not the newest table")
		}
	})
}

// TestAnAccidentThatTakesServicesToo: Ingresses are deleted one by one, each with its Service and EndpointSlice. What comes back has its endpoints, except
// those that belong to another team by now.
func TestAnAccidentThatTakesServicesToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, publish.Config{})
		for i := range 200 {
			c.add("big", fmt.Sprintf("app-%03d", i), fmt.Sprintf("10.4.0.%d", i+1))
		}
		c.read()
		time.Sleep(20 * time.Minute)
		for n := range 30 {
			name := fmt.Sprintf("big/app-%03d", n)
			delete(c.ingresses, name)
			delete(c.services, name)
			delete(c.pods, name)
			if n == 5 {
				c.add("team", "late", "10.4.0.3") // the address of an earlier pod
			}
			c.read()
			time.Sleep(time.Second)
		}
		for n := range 30 {
			address := fmt.Sprintf(`"http://10.4.0.%d:8080"`, n+1)
			line := fmt.Sprintf("app_%03d", n)
			found := false
			for l := range strings.Lines(string(c.publisher.Table().Text())) {
				found = found || strings.Contains(l, "big__"+line) && strings.Contains(l, address)
			}
			if found != (n != 2) {
				t.Errorf("%s with its endpoint is served: %v", line, found)
			}
		}
	})
}

// TestReplicasAdoptKeptObjects: the reads of one replica exceed the limit, those of the other fall between and do not. The other keeps the
// same objects once it knows the list, as it served them itself, and drops them when they were accepted here.
func TestReplicasAdoptKeptObjects(t *testing.T) {
	one, other := newCluster(t, publish.Config{}), newCluster(t, publish.Config{})
	one.read()
	other.read()
	one.remove("shop", 0, 20)
	one.read()
	one.keeps("the first", apps("Ingress", "shop", 0, 20)...)
	other.remove("shop", 0, 3)
	other.read()
	other.keeps("below the limit")
	other.publisher.Adopt(one.publisher.List())
	other.pod("shop", "app-00", "10.1.9.9")
	other.read()
	other.keeps("adopted", apps("Ingress", "shop", 0, 3)...)
	other.serves("adopted", "shop__app_00__", "http://10.1.9.9:8080")
	if a, b := one.publisher.Kept()[0], other.publisher.Kept()[0]; !a.Until.Equal(b.Until) || a.Reason != b.Reason {
		t.Errorf("adopted is %+v, want the reason and end of %+v", b, a)
	}
	if _, err := other.publisher.Accept(publish.Acceptance{Digest: other.publisher.Holding().Digest}); err != nil {
		t.Fatal(err)
	}
	other.read()
	other.keeps("accepted")
	other.serves("accepted", "!shop__app_00__")
}

// An acceptance is of all kept objects, of a namespace, or of single ones.
func TestAcceptanceOfSomeObjects(t *testing.T) {
	c := newCluster(t, publish.Config{})
	c.read()
	c.remove("shop", 0, 20)
	c.remove("team", 0, 5)
	c.read()
	list := c.publisher.Holding().Digest
	c.keeps("before", slices.Concat(apps("Ingress", "shop", 0, 20), apps("Ingress", "team", 0, 5))...)

	for _, tt := range []struct {
		name   string
		accept publish.Acceptance
		err    error
		kept   []string
		serves []string
	}{
		{name: "nothing named", err: publish.ErrNoDigest, kept: slices.Concat(apps("Ingress", "shop", 0, 20), apps("Ingress", "team", 0, 5))},
		{name: "another list", accept: publish.Acceptance{Digest: table.Digest{1}}, err: publish.ErrNotHeld, kept: slices.Concat(apps("Ingress", "shop", 0, 20), apps("Ingress", "team", 0, 5))},
		{name: "nobody's", accept: publish.Acceptance{Digest: list, Namespaces: []string{"other"}}, err: publish.ErrNotKept, kept: slices.Concat(apps("Ingress", "shop", 0, 20), apps("Ingress", "team", 0, 5))},
		{
			name: "one object", accept: publish.Acceptance{Digest: list, Objects: []kube.Ref{{Kind: kube.KindIngress, Namespace: "shop", Name: "app-00"}}},
			kept: slices.Concat(apps("Ingress", "shop", 1, 20), apps("Ingress", "team", 0, 5)), serves: []string{"!shop__app_00__", "shop__app_01__"},
		},
		{
			name: "a namespace", accept: publish.Acceptance{Digest: list, Namespaces: []string{"shop"}},
			kept: apps("Ingress", "team", 0, 5), serves: []string{"!shop__app", "team__app_00__"},
		},
		{name: "the rest", accept: publish.Acceptance{Digest: list}, serves: []string{"!team__app_00__", "team__app_05__"}},
	} {
		_, err := c.publisher.Accept(tt.accept)
		if !errors.Is(err, tt.err) || (err == nil) != (tt.err == nil) {
			t.Errorf("%s: error %v, want %v", tt.name, err, tt.err)
		}
		c.keeps(tt.name, tt.kept...)
		c.serves(tt.name, tt.serves...)
		c.read() // the next read changes nothing
		c.keeps(tt.name+", a read later", tt.kept...)
		c.serves(tt.name+", a read later", tt.serves...)
	}
}

// A team that gives its Ingresses other names answers the same requests: nothing is lost.
func TestRequestsThatOthersAnswerNeedNoKeeping(t *testing.T) {
	c := newCluster(t, publish.Config{})
	c.read()
	c.remove("shop", 0, 20)
	c.read()
	c.keeps("deleted", apps("Ingress", "shop", 0, 20)...)
	for i := range 10 {
		c.ingress("shop", fmt.Sprintf("renamed-%02d", i), fmt.Sprintf("app-%02d.shop.example.org", i), fmt.Sprintf("app-%02d", i))
	}
	c.read()
	c.keeps("half of them has new names", apps("Ingress", "shop", 10, 20)...)
	c.serves("half of them has new names", "shop__renamed_00__", "!shop__app_00__", "shop__app_10__")
}

// Time releases kept objects an hour after they were kept, whatever came back meanwhile, and never if no route of any object was left.
func TestTimeReleasesKeptObjects(t *testing.T) {
	for _, tt := range []struct {
		name  string
		wait  time.Duration
		still bool
		loses func(*cluster)
		later func(*cluster) // half an hour after the loss
	}{
		{name: "before an hour", wait: time.Hour - time.Minute, still: true, loses: func(c *cluster) { c.remove("shop", 0, 20) }},
		{name: "after an hour", wait: time.Hour, loses: func(c *cluster) { c.remove("shop", 0, 20) }},
		{name: "nothing is left", wait: 24 * time.Hour, still: true, loses: func(c *cluster) { clear(c.ingresses); clear(c.groups) }},
		{
			name: "nearly all is back, before an hour", wait: 29 * time.Minute, still: true, loses: func(c *cluster) { c.remove("shop", 0, 20) },
			later: func(c *cluster) { c.restore("shop", 0, 19) },
		},
		{
			name: "half is back, after an hour", wait: 30 * time.Minute, loses: func(c *cluster) { c.remove("shop", 0, 20) },
			later: func(c *cluster) { c.restore("shop", 0, 10) },
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t, publish.Config{})
				c.read()
				tt.loses(c)
				c.read()
				if tt.later != nil {
					time.Sleep(30 * time.Minute)
					tt.later(c)
					c.read()
				}
				time.Sleep(tt.wait)
				c.read()
				c.read()
				if kept := len(c.publisher.Kept()); kept > 0 != tt.still {
					t.Errorf("%d objects are kept", kept)
				}
				if !tt.still && !c.publisher.Table().Equal(c.before) {
					t.Error("what is served is not the newest table")
				}
			})
		})
	}
}

func (c *cluster) restore(namespace string, from, to int) {
	for i := from; i < to; i++ {
		name := fmt.Sprintf("app-%02d", i)
		c.ingress(namespace, name, name+"."+namespace+".example.org", name)
	}
}

// Services that lost their endpoints are kept one by one, without addresses that another tenant has by now; so are the services that
// kept Ingresses need.
func TestServicesAreKept(t *testing.T) {
	c := newCluster(t, publish.Config{})
	for i := range 20 { // more requests with endpoints: fewer than 20 are no accident
		c.add("more", fmt.Sprintf("app-%02d", i), fmt.Sprintf("10.3.0.%d", i+1))
	}
	c.read()
	for i := range 20 {
		c.pod("shop", fmt.Sprintf("app-%02d", i), "")
		c.pod("more", fmt.Sprintf("app-%02d", i), "")
	}
	c.read()
	c.keeps("no pods", slices.Concat(apps("Service", "shop", 0, 20), apps("Service", "more", 0, 20))...)
	c.serves("no pods", "http://10.1.0.1:8080", "http://10.3.0.20:8080", "!no endpoints")

	c.pod("team", "app-00", "10.1.0.1") // the address of a pod of shop/app-00
	c.pod("shop", "app-01", "10.1.1.1")
	c.read()
	c.serves("a reused address", "http://10.1.1.1:8080")
	for line := range strings.Lines(string(c.publisher.Table().Text())) {
		if strings.Contains(line, "shop__app_00__") && strings.Contains(line, "10.1.0.1") {
			t.Errorf("the address of another tenant's pod is served: %s", line)
		}
	}
	c.keeps("one is back", slices.Concat(apps("Service", "shop", 0, 1), apps("Service", "shop", 2, 20), apps("Service", "more", 0, 20))...)

	d := newCluster(t, publish.Config{})
	d.read()
	d.remove("shop", 0, 20)
	d.read()
	delete(d.services, "shop/app-04")
	d.pod("shop", "app-05", "")
	d.read()
	d.keeps("services of kept Ingresses", slices.Concat(apps("Ingress", "shop", 0, 20), apps("Service", "shop", 4, 6))...)
	d.serves("services of kept Ingresses", "http://10.1.0.5:8080", "http://10.1.0.6:8080")
}

// Objects that make a table larger than its ceiling are not served yet; all others are.
func TestGrowthKeepsWhatGrew(t *testing.T) {
	c := newCluster(t, publish.Config{Guard: guard.Config{MaxRoutes: 35}})
	c.read()
	for i := range 10 {
		c.add("flood", fmt.Sprintf("app-%02d", i), fmt.Sprintf("10.5.0.%d", i+1))
	}
	c.pod("shop", "app-00", "10.1.1.1")
	c.read()
	c.keeps("a flood", apps("Ingress", "flood", 0, 10)...)
	c.serves("a flood", "!flood__app", "http://10.1.1.1:8080")
	for _, k := range c.publisher.Kept() {
		if k.Served() != "nothing yet" || k.Waits() != "its newest version" || k.Reason != guard.TooManyRoutes {
			t.Errorf("%s: served %s, %s waits, because of %s", k.Ref, k.Served(), k.Waits(), k.Reason)
		}
	}
	c.remove("flood", 0, 8)
	c.read()
	c.keeps("the flood recedes")
	c.serves("the flood recedes", "flood__app_09__")
}

// An object that exists and grows past the ceiling stays at its served version until the table is small enough, whatever else changes.
func TestAnObjectThatGrowsStaysKept(t *testing.T) {
	c := newCluster(t, publish.Config{Guard: guard.Config{MaxRoutes: 35}})
	c.read()
	small := c.ingresses["shop/app-07"]
	large := *small
	large.Spec = &kube.IngressSpec{Rules: slices.Clone(small.Spec.Rules)}
	for i := range 10 {
		rule := small.Spec.Rules[0]
		rule.Host = fmt.Sprintf("more-%d.example.org", i)
		large.Spec.Rules = append(large.Spec.Rules, rule)
	}
	c.ingresses["shop/app-07"] = &large
	c.read()
	since := c.publisher.Holding().Since
	for i := range 3 {
		c.pod("team", "app-00", fmt.Sprintf("10.2.2.%d", i))
		c.read()
		c.keeps("an object has grown", "Ingress shop/app-07")
		c.serves("an object has grown", "!more-1", "shop__app_07", fmt.Sprintf("10.2.2.%d", i))
	}
	if got := c.publisher.Holding().Since; !got.Equal(since) {
		t.Errorf("kept since %v, want %v: it was released meanwhile", got, since)
	}
	c.ingresses["shop/app-07"] = small
	c.read()
	c.keeps("it is small again")
}

// One read shows both a loss and a table past the ceiling: what would be lost is kept, and so is what grew.
func TestALossBehindGrowthIsKept(t *testing.T) {
	c := newCluster(t, publish.Config{Guard: guard.Config{MaxRoutes: 35}})
	c.read()
	c.remove("shop", 0, 20)
	for i := range 30 {
		c.add("flood", fmt.Sprintf("app-%02d", i), fmt.Sprintf("10.5.0.%d", i+1))
	}
	for i := range 3 {
		c.pod("team", "app-00", fmt.Sprintf("10.2.3.%d", i))
		c.read()
		c.keeps("both", append(apps("Ingress", "shop", 0, 20), apps("Ingress", "flood", 0, 30)...)...)
		c.serves("both", "!flood__app", "shop__app_19__", fmt.Sprintf("10.2.3.%d", i))
	}
	c.restore("shop", 0, 20)
	c.remove("flood", 0, 30)
	c.read()
	c.keeps("neither")
}

// A defect of the compiler releases nothing: the whole table waits, also if it lacks less than the limits.
func TestADefectReleasesNoKeptObject(t *testing.T) {
	c := newCluster(t, publish.Config{})
	c.read()
	c.remove("shop", 0, 20)
	c.read()
	c.restore("shop", 0, 19)
	c.builder.broken = true
	c.read()
	c.serves("the compiler panics", "shop__app_19__")
	c.builder.broken = false
	c.read()
	c.keeps("it no longer does", "Ingress shop/app-19")
	c.serves("it no longer does", "shop__app_19__")
}

// Kept objects and what is served of them are on disk before the table is, only for the user of the process, and a new process goes on.
func TestKeptObjectsAreOnDisk(t *testing.T) {
	dir := t.TempDir()
	cfg := publish.Config{File: publish.LastKnownGood(dir)}
	c := newCluster(t, cfg)
	c.read()
	c.remove("shop", 0, 20)
	c.pod("shop", "app-00", "")
	c.read()
	c.publisher.Flush()
	path := filepath.Join(dir, "table.eskip.kept.json")
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("%v, error %v, want a file of mode 0600", info, err)
	}
	was := c.publisher.Kept()

	c.start(cfg)
	c.pod("shop", "app-01", "10.1.1.1")
	c.read()
	c.keeps("after a restart", append(apps("Ingress", "shop", 0, 20), "Service shop/app-00")...)
	c.serves("after a restart", "http://10.1.0.1:8080", "http://10.1.1.1:8080", "shop__app_19__")
	for i, k := range c.publisher.Kept() {
		if !k.Since.Equal(was[i].Since) || k.Reason != was[i].Reason || k.By != "guard" {
			t.Errorf("%s is kept since %v because of %s, and was since %v because of %s", k.Ref, k.Since, k.Reason, was[i].Since, was[i].Reason)
		}
	}
	c.restore("shop", 0, 20)
	c.pod("shop", "app-00", "10.1.0.1")
	c.read()
	c.keeps("all is back")
	c.publisher.Flush()
	if text, err := os.ReadFile(path); err != nil || !strings.HasSuffix(string(text), "\n[]") {
		t.Errorf("after that the file is %q, error %v", text, err)
	}
}

// FuzzDecodeKept reads any text, and what it accepts it writes and reads as the same.
func FuzzDecodeKept(f *testing.F) {
	f.Add(`[]`)
	f.Add(`[{"kind":"Ingress","namespace":"a","name":"b","reason":"empty","since":"2026-11-23T12:00:00Z","ingress":{"Namespace":"a","Name":"b"}}]`)
	f.Add(`[{"kind":"Service","namespace":"a","name":"b","reason":"backends_lost","since":"2026-11-23T12:00:00Z","service":{"Service":{"Namespace":"a","Name":"b"}}}]`)
	f.Add(`[null]`)
	f.Fuzz(func(t *testing.T, text string) {
		list, err := publish.DecodeKept([]byte(text))
		if err != nil {
			return
		}
		again, err := json.Marshal(list)
		if err != nil {
			t.Fatal(err)
		}
		back, err := publish.DecodeKept(again)
		if err != nil || len(back) != len(list) {
			t.Fatalf("%d objects read back as %d, %v:\n%s", len(list), len(back), err, again)
		}
	})
}

// TestARestartKeepsTheEndOfKeptObjects: neither a restart nor what comes back moves it.
func TestARestartKeepsTheEndOfKeptObjects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := publish.Config{File: publish.LastKnownGood(t.TempDir())}
		c := newCluster(t, cfg)
		c.read()
		c.remove("shop", 0, 20)
		c.read()
		time.Sleep(50 * time.Minute)
		c.restore("shop", 0, 5)
		c.read()
		c.publisher.Flush()
		time.Sleep(9 * time.Minute)
		c.start(cfg)
		for range 3 {
			c.read()
			c.keeps("59 minutes after the loss", apps("Ingress", "shop", 5, 20)...)
		}
		time.Sleep(time.Minute)
		c.read()
		c.keeps("an hour after the loss")
		c.publisher.Flush()
	})
}

// Whoever looks between two reads, or in the middle of one, sees that objects are kept: a scrape that sees nothing would start the time of
// an alert again.
func TestWhatIsKeptShowsDuringReadsToo(t *testing.T) {
	registry := prometheus.NewRegistry()
	var c *cluster
	looks, keeping := 0, false
	c = newCluster(t, publish.Config{Metrics: publish.NewMetrics(registry, "routesrv"), Sink: publish.Each(func(*table.Table) {
		if !keeping {
			return
		}
		looks++
		const want = "# HELP routesrv_guard_held 1 while the guard holds a table or keeps objects.\n# TYPE routesrv_guard_held gauge\nroutesrv_guard_held 1\n"
		if err := testutil.GatherAndCompare(registry, strings.NewReader(want), "routesrv_guard_held"); err != nil {
			t.Error(err)
		}
		if c.publisher.Held() == nil {
			t.Error("nothing is held")
		}
	})})
	c.read()
	c.remove("shop", 0, 20)
	c.read()
	keeping = true
	for i := range 3 {
		c.pod("team", "app-00", fmt.Sprintf("10.2.1.%d", i))
		c.read()
	}
	if looks != 3 {
		t.Errorf("the sink was called %d times, want 3", looks)
	}
}

// TestAdoptedObjectsCostLittle: reads while thousands of objects are kept on all replicas cost about as much as without the others.
func TestAdoptedObjectsCostLittle(t *testing.T) {
	accident := func() *cluster {
		c := newCluster(t, publish.Config{})
		c.add("many", "app-00", "10.3.0.1")
		for i := range 4000 {
			c.ingress("many", fmt.Sprintf("app-%02d", i), fmt.Sprintf("app-%d.many.example.org", i), "app-00")
		}
		c.read()
		c.remove("many", 0, 3000)
		c.read()
		if n := len(c.publisher.Kept()); n != 3000 {
			t.Fatalf("%d objects are kept", n)
		}
		return c
	}
	both := [2]*cluster{accident(), accident()}
	both[1].publisher.Adopt(both[1].publisher.List())
	best := [2]time.Duration{time.Hour, time.Hour}
	used := func() time.Duration { // CPU time, because other load on the machine takes the clock's
		var u syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
			t.Fatal(err)
		}
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	for range 8 {
		for i, c := range both {
			began := used()
			c.read()
			best[i] = min(best[i], used()-began)
		}
	}
	t.Logf("a read takes %s, and %s without other replicas", best[1], best[0])
	if best[1] > 3*best[0] {
		t.Error("reads are more than three times as expensive")
	}
}
