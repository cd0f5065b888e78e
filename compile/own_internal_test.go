package compile

import (
	"runtime"
	"strings"
	"testing"
	"unsafe"
	"weak"

	"github.com/routesrv/routesrv/compile/rules"
	"github.com/routesrv/routesrv/kube"
)

// carved cuts the strings of an object from one, as decoding does. It returns the pointer by which the test sees whether that is still in
// memory.
type carved struct{ whole string }

func carve(parts ...string) *carved {
	return &carved{strings.Clone(strings.Join(parts, "|") + strings.Repeat(" ", 4096))}
}

func (c *carved) cut(part string) string {
	i := strings.Index(c.whole, part)
	return c.whole[i : i+len(part)]
}

func (c *carved) weak() weak.Pointer[byte] { return weak.Make(unsafe.StringData(c.whole)) }

// What was known of an object goes with the object, even if others have the same host, the same service and the same default filters.
func TestAnObjectThatIsGoneLeavesNothing(t *testing.T) {
	ingress := func(name string) (*kube.Ingress, weak.Pointer[byte]) {
		c := carve("shop", name, "shop.example.org", "checkout", "/"+name)
		return &kube.Ingress{Meta: kube.Meta{Namespace: c.cut("shop"), Name: c.cut(name)}, Spec: &kube.IngressSpec{Rules: []kube.IngressRule{{
			Host: c.cut("shop.example.org"), HTTP: true,
			Paths: []kube.IngressPath{{Path: c.cut("/" + name), Backend: &kube.IngressBackend{Service: c.cut("checkout"), PortNumber: 80}}},
		}}}}, c.weak()
	}
	group := func(name string) (*kube.RouteGroup, weak.Pointer[byte]) {
		c := carve("shop", name, "group.example.org", "checkout")
		return &kube.RouteGroup{Meta: kube.Meta{Namespace: c.cut("shop"), Name: c.cut(name)}, Spec: &kube.RouteGroupSpec{
			Hosts:           []string{c.cut("group.example.org")},
			Backends:        []*kube.RouteGroupBackend{{Name: "b", Type: "service", ServiceName: c.cut("checkout"), ServicePort: 80}},
			DefaultBackends: []*kube.BackendReference{{BackendName: "b", Weight: 1}},
		}}, c.weak()
	}
	service := func() (*kube.Service, weak.Pointer[byte]) {
		c := carve("shop", "checkout")
		return &kube.Service{Namespace: c.cut("shop"), Name: c.cut("checkout"), Type: "ClusterIP", Ports: []kube.ServicePort{{Port: 80, TargetPort: kube.NumberPort(8080)}}}, c.weak()
	}
	slice := func(name string) (*kube.EndpointSlice, weak.Pointer[byte]) {
		c := carve("shop", name, "checkout", "10.0.0.1")
		return &kube.EndpointSlice{
			Namespace: c.cut("shop"), Name: c.cut(name), Service: c.cut("checkout"), Ports: []kube.EndpointPort{{Port: 8080, Protocol: "TCP"}},
			Endpoints: []kube.SliceEndpoint{{Address: c.cut("10.0.0.1"), Ready: true}},
		}, c.weak()
	}
	c, err := New(rules.Options{EndpointSlices: true, HTTPSRedirect: true})
	if err != nil {
		t.Fatal(err)
	}
	filters := &kube.DefaultFilters{Texts: map[kube.ServiceKey]string{{Namespace: "shop", Name: "checkout"}: `setPath("/")`}}
	seen := make(map[string]weak.Pointer[byte])
	compile := func(round string) {
		s := &kube.Snapshot{Intent: kube.Intent{DefaultFilters: filters}}
		for i := range 2 { // another one stays in each round
			if i == 1 && round != "first" {
				s.Ingresses, s.RouteGroups = append(s.Ingresses, c.Latest().Snapshot.Ingresses[1]), append(s.RouteGroups, c.Latest().Snapshot.RouteGroups[1])
				s.EndpointSlices = append(s.EndpointSlices, c.Latest().Snapshot.EndpointSlices[1])
				continue
			}
			name := []string{"a", "b"}[i]
			in, w := ingress(name + "-ingress")
			s.Ingresses = append(s.Ingresses, in)
			seen[round+" Ingress "+name] = w
			rg, w := group(name + "-group")
			s.RouteGroups = append(s.RouteGroups, rg)
			seen[round+" RouteGroup "+name] = w
			sl, w := slice(name + "-slice")
			s.EndpointSlices = append(s.EndpointSlices, sl)
			seen[round+" EndpointSlice "+name] = w
		}
		svc, w := service()
		s.Services = append(s.Services, svc)
		seen[round+" Service"] = w
		c.Compile(s)
	}
	compile("first")
	if n := c.Latest().Routes.Len(); n < 4 {
		t.Fatalf("%d routes", n)
	}
	compile("second")
	for range remembered - 1 {
		compile("third")
	}
	runtime.GC()
	runtime.GC() // what pools have
	for name, w := range seen {
		gone := strings.HasPrefix(name, "first") && !strings.HasSuffix(name, " b")
		if alive := w.Value() != nil; alive == gone {
			t.Errorf("%s: in memory %v, want %v", name, alive, !gone)
		}
	}
	runtime.KeepAlive(c)
}

func TestMemoryOfACompilerThatPanickedIsNotTrusted(t *testing.T) {
	c, err := New(rules.Options{})
	if err != nil {
		t.Fatal(err)
	}
	first := c.Compile(&kube.Snapshot{})
	c.Compile(&kube.Snapshot{Intent: kube.Intent{Ingresses: []*kube.Ingress{{}}}})
	if len(c.builds()) != 2 {
		t.Errorf("a compiler without fault remembers %d builds, want 2", len(c.builds()))
	}
	latest := c.Latest()
	for _, compile := range []func(*kube.Snapshot){
		func(s *kube.Snapshot) { c.Compile(s) }, func(s *kube.Snapshot) { c.CompileBeside(s) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Error("the panic did not reach the caller")
				}
			}()
			compile(&kube.Snapshot{Intent: kube.Intent{Ingresses: []*kube.Ingress{nil}}})
		}()
		if c.builds() != nil || c.Latest() != latest {
			t.Error("what the compiler remembers was not dropped, or its last result was")
		}
		again := c.Compile(&kube.Snapshot{Intent: kube.Intent{RouteGroups: []*kube.RouteGroup{{}}}})
		latest = again
		if again == first || len(c.builds()) != 1 {
			t.Error("the compiler does not go on")
		}
	}
}
