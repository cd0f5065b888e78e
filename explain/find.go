package explain

import (
	"fmt"
	"slices"
	"strings"

	"github.com/routesrv/routesrv/catalogue"
	"github.com/routesrv/routesrv/internal/routeid"
	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/shadowdiff"
)

func (x *explainer) missing(ref kube.Ref) {
	if problems := x.result.ProblemsOf(ref); len(problems) > 0 { // the object could not be decoded
		x.out.Objects, x.out.Total = append(x.out.Objects, x.newObject(ref, problems[0].What(), problems)), 1
		x.report(x.worst())
		return
	}
	x.out.Result = NotFound
	x.out.Cause = fmt.Sprintf("There is no %s among what the route server reads.", ref)
	var hints, like []string
	if rule := x.restriction(ref.Kind); rule != "" {
		hints = append(hints, "Note that "+rule+".")
	}
	for _, meant := range spelt(ref, x.snapshot) {
		like = append(like, meant.String())
	}
	for o := range x.snapshot.Objects() {
		r := o.Ref()
		kind, namespace, name := r.Kind == ref.Kind, r.Namespace == ref.Namespace, r.Name == ref.Name
		if name && kind != namespace || kind && namespace && near(r.Name, ref.Name) {
			like = append(like, r.String())
		}
	}
	if len(like) > 0 {
		slices.Sort(like)
		hints = append(hints, "There is "+short(like, 3)+".")
	}
	if len(hints) == 0 {
		hints = append(hints, "Check the kind, the namespace and the name, and that the object was applied to this cluster.")
	}
	x.out.Advice = strings.Join(hints, " ")
}

func near(a, b string) bool {
	few := len(a)-len(b) <= 2 && len(b)-len(a) <= 2
	return few && len(a) >= 4 && len(b) >= 4 && catalogue.Distance(a, b) <= 2
}

func (x *explainer) host(host string) {
	var found []kube.Routed
	var like []string
	for o := range x.snapshot.Objects() {
		for _, h := range o.Hosts() {
			switch {
			case strings.EqualFold(h, host):
				found = append(found, o)
			case near(h, host) && !slices.Contains(like, h):
				like = append(like, h)
			}
		}
	}
	x.out.Total = len(found)
	if len(found) == 0 {
		x.out.Result = NotFound
		x.out.Cause = fmt.Sprintf("No Ingress and no RouteGroup has the host %s.", host)
		if slices.Sort(like); len(like) > 0 {
			x.out.Advice = "Did you mean " + short(like, 3) + "?"
		}
		return
	}
	var names []string
	for _, o := range found {
		names = append(names, o.Ref().String())
		if in, ok := x.result.Inspect(o.Ref()); ok && len(x.out.Objects) < maxObjects {
			x.add(o.Ref(), in)
		}
	}
	if f := x.worst(); f != nil {
		x.report(f)
		return
	}
	x.out.Result = "fine"
	x.out.Cause = fmt.Sprintf("Host %s is served by %s.", host, short(names, 5))
}

func (x *explainer) route(id string) {
	candidates := x.owners().Candidates(id)
	if ref, in, ok := holder(candidates, id, x.result.Inspect); ok {
		x.only(ref, in)
		return
	}
	if x.result.Routes.Get(id) != nil {
		x.out.Result = "fine"
		x.out.Cause = fmt.Sprintf("Route %s belongs to no single object: the route server makes it itself.", id)
		if routeid.OwnerOf(id).Kind == routeid.KindGenerated && strings.Contains(id, "catchall") {
			x.out.Advice = "It answers 404 for requests to a host that no path of the objects with this host takes."
		}
		return
	}
	x.out.Result = NotFound
	x.out.Cause = fmt.Sprintf("There is no route %s.", id)
	if len(candidates) > 0 {
		x.out.Advice = fmt.Sprintf("Its id suggests a route of %s: explain that object.", candidates[0])
	} else if o := shadowdiff.OwnerOf(id); o.FromID {
		x.out.Advice = fmt.Sprintf("Its id suggests a route of %s, which does not exist here.", o)
	}
}

func prefixOf(ref kube.Ref) string {
	namespace := kube.NamespaceOrDefault(ref.Namespace)
	if ref.Kind == kube.KindRouteGroup {
		return strings.TrimSuffix(routeid.RouteGroup(namespace, ref.Name, "all", 0, 0, false), "__all__0_0")
	}
	// A custom route has its own id after the name, so trim the end of the prefix.
	return strings.TrimRight(routeid.Ingress(ref.Namespace, ref.Name, "", "", ""), "_")
}
