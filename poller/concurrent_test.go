package poller_test

import (
	"testing"

	"github.com/routesrv/routesrv/compile/rules"
	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/poller"
)

// A result does not change, so it is read while the next one is made: the race detector looks at this test.
func TestAResultIsReadWhileTheNextIsMade(t *testing.T) {
	ingress := func(name string) *kube.Ingress {
		return &kube.Ingress{Meta: kube.Meta{Namespace: "n", Name: name}, Spec: &kube.IngressSpec{Rules: []kube.IngressRule{{
			Host: "h", HTTP: true, Paths: []kube.IngressPath{{Path: "/", Backend: &kube.IngressBackend{Service: "s", PortNumber: 80}}},
		}}}}
	}
	service := func() *kube.Service {
		return &kube.Service{Namespace: "n", Name: "s", Type: "ClusterIP", Ports: []kube.ServicePort{
			{Name: "a", Port: 80, TargetPort: kube.NamePort("web")}, {Name: "b", Port: 81, TargetPort: kube.NamePort("web")},
		}}
	}
	c, err := poller.NewCompiler(rules.Options{}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	s := &kube.Snapshot{Intent: kube.Intent{Ingresses: []*kube.Ingress{ingress("a"), ingress("b")}}, Backends: kube.Backends{Services: []*kube.Service{service()}}}
	c.Compile(s)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 200 {
			r := c.Latest()
			in, ok := r.Inspect(kube.Ref{Kind: kube.KindIngress, Namespace: "n", Name: "a"})
			trial, err := r.Try(ingress("b"))
			if !ok || len(in.Routes) != 1 || err != nil || len(trial.Routes) != 1 || len(r.Claims("h")) != 2 || len(r.ProblemsOf(in.Object.Ref())) == 0 {
				t.Errorf("%+v, %+v, %v", in, trial, err)
			}
		}
	}()
	for range 200 {
		next := *s
		next.Services = []*kube.Service{service()}
		s = &next
		c.Compile(s)
		c.CompileBeside(&kube.Snapshot{Intent: s.Intent})
	}
	<-done
}
