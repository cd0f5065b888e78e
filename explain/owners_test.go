package explain_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/routesrv/routesrv/compile"
	"github.com/routesrv/routesrv/explain"
	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/match"
	"github.com/routesrv/routesrv/shadowdiff"
)

// twins are objects whose names look alike in the ids of their routes.
func twins() *txtar.Archive {
	var b strings.Builder
	b.WriteString("-- options.yaml --\nEastWest: true\n-- clone-route --\n^compress[(]\nstatus(201) -> compress(\n-- cluster.yaml --\n")
	ingress := func(namespace, name, host, annotations string) {
		fmt.Fprintf(&b, "apiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata:\n  name: %s\n  namespace: %s\n  annotations:%s\n"+
			"spec: {rules: [{host: %s, http: {paths: [{backend: {service: {name: web, port: {number: 80}}}}]}}]}\n---\n", name, namespace, annotations, host)
	}
	ingress("shop-prod", "app-0", "a.example.org", " {zalando.org/skipper-filter: compress()}")
	ingress("shop-prod", "app.0", "b.example.org", " {}")
	ingress("shop-prod", "app", "c.example.org", "\n    zalando.org/skipper-routes: 'canary: Method(\"GET\") -> <shunt>; other: Method(\"PUT\") -> <shunt>'")
	ingress("shop-prod", "app-canary-0", "d.example.org", " {}")
	ingress("shop-prod", "app--x", "e.example.org", " {}")
	ingress("shop", "prod-app-0", "f.example.org", " {}")
	ingress("internal-shop", "app-0", "g.example.org", " {}")
	for _, namespace := range []string{"shop-prod", "internal-shop", "shop"} {
		fmt.Fprintf(&b, "apiVersion: zalando.org/v1\nkind: RouteGroup\nmetadata: {name: app-0, namespace: %s}\n"+
			"spec: {hosts: [rg.%s.example.org], backends: [{name: a, type: shunt}], routes: [{path: /, backends: [{backendName: a}]}]}\n---\n"+
			"apiVersion: v1\nkind: Service\nmetadata: {name: web, namespace: %s}\nspec: {type: ClusterIP, ports: [{port: 80, targetPort: 8080}]}\n---\n",
			namespace, namespace, namespace)
	}
	return txtar.Parse([]byte(b.String()))
}

// TestOwnersAreTheObjectsThatMadeTheRoutes: the ids of all routes lead to the objects that have them, by their real names.
func TestOwnersAreTheObjectsThatMadeTheRoutes(t *testing.T) {
	c, snapshot := compiled(t, twins())
	owners := explain.NewOwners(c.Latest().Inspect, snapshot, nil, snapshot)
	want := make(map[string]string)
	check := func(ref kube.Ref) {
		in, ok := c.Latest().Inspect(ref)
		if !ok || len(in.Routes) == 0 {
			t.Errorf("%s has no routes", ref)
		}
		for _, r := range in.Routes {
			if r.Wins && r.Route != nil {
				want[r.ID] = ref.String()
				want["clone_"+r.ID] = ref.String()
			}
		}
	}
	for _, o := range snapshot.Ingresses {
		check(o.Ref())
	}
	for _, o := range snapshot.RouteGroups {
		check(o.Ref())
	}
	routes, catchAlls := 0, 0
	for r := range c.Latest().Routes.All() {
		if strings.Contains(r.ID, "catchall") {
			if catchAlls++; owners.Of(r.ID).Kind != "" {
				t.Errorf("%s has the owner %s, and is of a host", r.ID, owners.Of(r.ID))
			}
			continue
		}
		routes++
		if got := owners.Of(r.ID).String(); strings.HasPrefix(r.ID, "clone_") && strings.Contains(r.ID, "app_canary_0") {
			continue // a clone has no place of its own in an inspection
		} else if got != want[r.ID] {
			t.Errorf("%s is of %s, want %s", r.ID, got, want[r.ID])
		}
	}
	if routes < 20 || catchAlls == 0 {
		t.Errorf("%d routes and %d catch-alls in the table", routes, catchAlls)
	}
}

func TestOwnersNeverInventAName(t *testing.T) {
	c, snapshot := compiled(t, twins())
	for _, inspect := range []func(kube.Ref) (compile.Inspection, bool){c.Latest().Inspect, nil} {
		owner := explain.OwnerFunc(inspect, snapshot)
		for _, id := range []string{"kube_shop_prod__gone_0__a_example_org____web", "kube_rg__shop__gone__all__0_0", "kube__healthz_up", "mine", "", "_", "clone_"} {
			if got := owner(id); got != (shadowdiff.Owner{}) {
				t.Errorf("%q is of %s", id, got)
			}
		}
	}
	if got := shadowdiff.OwnerFunc(explain.OwnerFunc(nil, nil)).Of("kube_shop__app_0__www____").String(); got != "Ingress shop/app-0 or shop/app.0 (from the id)" {
		t.Errorf("without objects: %s", got)
	}
}

func TestExplainFindsAnObjectByTheSpellingOfIDs(t *testing.T) {
	c, _ := compiled(t, twins())
	ask := func(words ...string) *explain.Explanation {
		q, err := explain.ParseQuery(words...)
		if err != nil {
			t.Fatal(err)
		}
		return explain.Explain(explain.Input{Result: c.Latest(), Proxy: match.Options{}}, q)
	}
	if e := ask("ingress", "shop/prod_app_0"); len(e.Objects) != 1 || e.Objects[0].Owner.Name != "prod-app-0" {
		t.Errorf("%s: %s", e.Result, e.Cause)
	}
	if e := ask("ingress", "shop_prod/app_0"); e.Result != explain.NotFound || !strings.Contains(e.Advice, "Ingress shop-prod/app-0, Ingress shop-prod/app.0") {
		t.Errorf("%s: %s %s", e.Result, e.Cause, e.Advice)
	}
	if e := ask("routegroup", "internal_shop/app_0"); len(e.Objects) != 1 || e.Objects[0].Owner.Namespace != "internal-shop" {
		t.Errorf("%s: %s", e.Result, e.Cause)
	}
}
