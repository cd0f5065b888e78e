package webhook_test

import (
	"slices"
	"testing"

	"github.com/routesrv/routesrv/app/webhook"
	"github.com/routesrv/routesrv/compile/rules"
	"github.com/routesrv/routesrv/kube"
)

// TestTakeoversAreToldOrRefused: an author sees which requests of others an object takes, and a policy refuses it.
func TestTakeoversAreToldOrRefused(t *testing.T) {
	const told = "takeover: GET https://taken.example.org/: Ingress shop/taken -> RouteGroup other-team/all"
	theirs := []byte(`{"metadata": {"namespace": "other-team", "name": "all"},
		"spec": {"hosts": ["taken.example.org"], "backends": [{"name": "b", "type": "shunt"}], "routes": [{"pathSubtree": "/", "backends": [{"backendName": "b"}]}]}}`)
	neighbour := []byte(`{"metadata": {"namespace": "shop", "name": "all"},
		"spec": {"hosts": ["taken.example.org"], "backends": [{"name": "b", "type": "shunt"}], "routes": [{"pathSubtree": "/", "backends": [{"backendName": "b"}]}]}}`)
	for _, c := range []struct {
		refuse        bool
		object        []byte
		taken, warned int
	}{
		{false, theirs, 0, 1},
		{true, theirs, 1, 0},
		{true, neighbour, 0, 1},
	} {
		j, err := webhook.NewJudge(rules.Options{}, kube.Selection{}, c.refuse)
		if err != nil {
			t.Fatal(err)
		}
		if v, err := j.Review(kube.KindRouteGroup, c.object, nil); err != nil || len(v.Taken)+len(v.Takeovers) > 0 {
			t.Errorf("before the first snapshot: %+v, %v", v, err)
		}
		j.Take(shop(t))
		v, err := j.Review(kube.KindRouteGroup, c.object, nil)
		if err != nil || len(v.Taken) != c.taken || len(v.Takeovers) != c.warned {
			t.Errorf("%t: %+v, %v", c.refuse, v, err)
		}
		if slices.Equal(c.object, theirs) && !slices.Contains(slices.Concat(v.Taken, v.Takeovers), told) {
			t.Errorf("%q, %q: want %s", v.Taken, v.Takeovers, told)
		}
		// Once it is in the cluster, it takes nothing that it had not.
		s := *shop(t)
		s.RouteGroups = []*kube.RouteGroup{decode[*kube.RouteGroup](t, kube.KindRouteGroup, c.object)}
		j.Take(&s)
		if v, err := j.Review(kube.KindRouteGroup, c.object, c.object); err != nil || len(v.Taken)+len(v.Takeovers) > 0 {
			t.Errorf("%t, again: %+v, %v", c.refuse, v, err)
		}
	}
}
