package kube_test

import (
	"testing"

	"github.com/routesrv/routesrv/kube"
)

func TestLastChangeIsTheNewestManagerOfTheObject(t *testing.T) {
	for text, want := range map[string]string{
		`[{"manager":"kubectl-client-side-apply","time":"2026-01-01T10:00:00Z"},{"manager":"argocd","time":"2026-01-02T10:00:00Z"},
		  {"manager":"skipper","time":"2026-01-03T10:00:00Z","subresource":"status"}]`: "2026-01-02T10:00:00Z argocd",
		`[{"manager":"nobody"}]`: "",
		`{"manager":"wrong"}`:    "",
		`[{"manager":5}]`:        "",
		`null`:                   "",
	} {
		for _, kind := range []kube.Kind{kube.KindIngress, kube.KindRouteGroup} {
			o, err := kube.DecodeJSON(kind, []byte(`{"metadata":{"name":"a","managedFields":`+text+`}}`))
			if err != nil {
				t.Fatalf("%s: %v", text, err)
			}
			got := ""
			switch o := o.(type) {
			case *kube.Ingress:
				got = o.Changed
			case *kube.RouteGroup:
				got = o.Changed
			}
			if got != want {
				t.Errorf("%s of %s: %q, want %q", text, kind, got, want)
			}
		}
	}
}
