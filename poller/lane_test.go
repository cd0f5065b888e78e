package poller_test

import (
	"runtime"
	"testing"
	"weak"

	"github.com/routesrv/routesrv/compile"
	"github.com/routesrv/routesrv/gate"
	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/poller"
	"github.com/routesrv/routesrv/table"
)

// TestALaneThatWasDroppedLeavesNothing: each hold has its lanes, and a server sees many holds.
func TestALaneThatWasDroppedLeavesNothing(t *testing.T) {
	c, err := poller.NewCompiler(compile.Options{}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	begin := func(lane gate.Lane) weak.Pointer[kube.Ingress] {
		ing := &kube.Ingress{Meta: kube.Meta{Name: "a", Namespace: "shop"}, Spec: &kube.IngressSpec{
			DefaultBackend: &kube.IngressBackend{Service: "s"},
		}}
		c.CompileHalves(lane, &kube.Intent{Ingresses: []*kube.Ingress{ing}}, &kube.Backends{}, table.List{})
		return weak.Make(ing)
	}
	dropped, kept := begin(gate.OldIntent), begin(gate.OldBoth)
	c.Drop(gate.OldIntent)
	c.Drop(gate.OldIntent) // nothing is left to drop
	runtime.GC()
	runtime.GC()
	if dropped.Value() != nil {
		t.Error("a lane that was dropped keeps its objects")
	}
	if kept.Value() == nil {
		t.Error("a lane that was not dropped has lost its objects")
	}
	runtime.KeepAlive(c)
}
