package compile

import (
	"fmt"
	"slices"
	"testing"

	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/table"
)

// whole returns the ids of the routes that keep their text.
func (c *Compiler) whole() []string {
	var ids []string
	for s := range c.memory.sections() {
		for _, r := range s.routes {
			if r.printed != nil && r.printed.route != nil {
				ids = append(ids, r.id())
			}
		}
	}
	slices.Sort(ids)
	return ids
}

func shopIngress(namespace, name string, created int64) *kube.Ingress {
	return &kube.Ingress{
		Meta: kube.Meta{Namespace: namespace, Name: name, Created: created},
		Spec: &kube.IngressSpec{Rules: []kube.IngressRule{{
			Host:  name + ".example.org",
			HTTP:  true,
			Paths: []kube.IngressPath{{Path: "/" + namespace, Backend: &kube.IngressBackend{Service: "web", PortNumber: 80}}},
		}}},
	}
}

// TestOnlyRivalsKeepTheirTexts: the table has all others. A route takes its text back when a rival comes, even one that loses to it,
// and leaves it to the table again when the rival has gone, and when no lane is left.
func TestOnlyRivalsKeepTheirTexts(t *testing.T) {
	c, err := New(Options{PathMode: 0})
	if err != nil {
		t.Fatal(err)
	}
	// The names of a.b and a-b make the same ids.
	first, rival, other := shopIngress("shop", "a-b", 10), shopIngress("shop", "a.b", 5), shopIngress("shop", "c", 7)
	backends := kube.Backends{Services: []*kube.Service{{
		Namespace: "shop", Name: "web", Type: "ClusterIP", Ports: []kube.ServicePort{{Port: 80}},
	}}}
	snapshot := func(all ...*kube.Ingress) *kube.Snapshot {
		return &kube.Snapshot{Intent: kube.Intent{Ingresses: all}, Backends: backends}
	}
	expect := func(when string, s *kube.Snapshot, want int) {
		t.Helper()
		got := c.Compile(s).Routes
		fresh, err := New(Options{})
		if err != nil {
			t.Fatal(err)
		}
		for was, is := range table.Changes(fresh.Compile(s).Routes, got) {
			t.Errorf("%s: %+v instead of %+v", when, is, was)
		}
		if ids := c.whole(); len(ids) != want {
			t.Errorf("%s: %d routes keep their texts, want %d: %v", when, len(ids), want, ids)
		}
		if got.Len() == 0 {
			t.Errorf("%s: no routes", when)
		}
	}
	expect("alone", snapshot(first, other), 0)
	for i := range 3 {
		rival := *rival
		rival.Created = int64(5 * i) // older, younger than the first, and equally old
		expect(fmt.Sprintf("with rival %d", i), snapshot(first, &rival, other), len(c.rivalRoutes(snapshot(first, &rival, other))))
		expect("without it", snapshot(first, other), 0)
	}

	lane := c.NewLane(table.List{})
	held := snapshot(first, other)
	lane.Compile(&held.Intent, &held.Backends)
	now := snapshot(rival, other)
	c.Compile(now)
	lane.Compile(&held.Intent, &now.Backends)
	c.Drop(lane)
	expect("after a lane", now, 0)
}

// rivalRoutes returns the routes that share an id, in a compiler of their own.
func (c *Compiler) rivalRoutes(s *kube.Snapshot) []*made {
	own := &Compiler{set: c.set}
	own.Compile(s)
	var all []*made
	for _, places := range own.memory.candidates.rivals {
		for _, p := range places {
			all = append(all, p.route())
		}
	}
	if len(all) == 0 {
		panic("the objects have no ids in common: the test shows nothing")
	}
	return all
}
