package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/routesrv/routesrv/catalogue"
	"github.com/routesrv/routesrv/compile"
	"github.com/routesrv/routesrv/compile/rules"
	"github.com/routesrv/routesrv/eskip"
	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/shadowdiff"
)

func (x *explainer) object(ref kube.Ref) {
	in, ok := x.result.Inspect(ref)
	if !ok && ref.Namespace == "default" {
		bare := kube.Ref{Kind: ref.Kind, Name: ref.Name}
		if in, ok = x.result.Inspect(bare); ok {
			ref = bare
		}
	}
	if !ok {
		if meant := spelt(ref, x.snapshot); len(meant) == 1 { // copied from the id of a route
			ref = meant[0]
			in, ok = x.result.Inspect(ref)
		}
	}
	if !ok {
		x.missing(ref)
		return
	}
	x.only(ref, in)
}

func (x *explainer) only(ref kube.Ref, in compile.Inspection) {
	x.out.Total = 1
	x.add(ref, in)
	x.conclude(ref)
}

func (x *explainer) newObject(ref kube.Ref, selection string, problems []rules.Problem) Object {
	o := Object{
		Owner: ref, Selection: selection,
		Problems: []Problem{}, Routes: []Route{}, Services: []Service{}, Hosts: []Host{}, Requests: []Request{},
	}
	for _, p := range problems {
		if p.Reason == rules.NoEndpoints && x.WithoutPods {
			continue
		}
		if only := x.unread(p.Reason); only != "" {
			p.Do = strings.TrimSpace(p.Advice() + " " + only)
		}
		o.Problems = append(o.Problems, x.problem(p))
		x.findings = append(x.findings, ofProblem(ref, p))
	}
	return o
}

func (x *explainer) add(ref kube.Ref, in compile.Inspection) {
	o := x.newObject(ref, x.selection(in), in.Problems)
	o.Selected, o.Changed = in.Compiled, in.Object.Metadata().Changed
	if created := in.Object.Metadata().Created; created != 0 {
		o.Created = new(time.Unix(created, 0).UTC())
	}
	x.routes(&o, in)
	for i := range in.Services {
		o.Services = append(o.Services, serviceOf(&in.Services[i]))
	}
	hosts := in.Object.Hosts()
	for _, h := range hosts[:min(maxHosts, len(hosts))] {
		others := slices.DeleteFunc(slices.Clone(x.claimsOf(h)), func(r kube.Ref) bool { return r == ref })
		o.Hosts = append(o.Hosts, Host{Host: h, Others: append([]kube.Ref{}, others...)})
	}
	own, main := mainRoutes(in)
	x.requests(&o, in, own, main)
	x.notes(&o, in, own, main)
	x.out.Objects = append(x.out.Objects, o)
}

func mainRoutes(in compile.Inspection) (own map[string]bool, main []*eskip.Route) {
	own = map[string]bool{}
	for _, r := range in.Routes {
		if own[r.ID] = r.Wins && r.Route != nil; !own[r.ID] || !r.Main || len(main) == maxSampled {
			continue
		}
		if parsed, err := r.Route.Parse(); err == nil {
			main = append(main, parsed)
		}
	}
	return own, main
}

func (x *explainer) problem(p rules.Problem) Problem {
	out := Problem{
		ID: p.ID(), Route: p.Route, Reason: p.Reason, Severity: p.Severity, What: p.What(), Do: p.Advice(),
	}
	if x.Since != nil {
		if t, ok := x.Since(out.ID); ok {
			out.Since = &t
		}
	}
	return out
}

func (x *explainer) selection(in compile.Inspection) string {
	if !in.Compiled && len(in.Problems) > 0 {
		return in.Problems[0].What()
	}
	kind, class := kube.KindIngress, ""
	switch o := in.Object.(type) {
	case *kube.Ingress:
		class = o.Annotations.Get("kubernetes.io/ingress.class")
		if class == "" && o.Spec != nil {
			class = o.Spec.IngressClassName
		}
	case *kube.RouteGroup:
		kind, class = kube.KindRouteGroup, o.Annotations.Get("zalando.org/routegroup.class")
	}
	text := fmt.Sprintf("its class %q matches %q", class, cmp.Or(x.Classes[kind], "skipper"))
	if class == "" {
		text = "it has no class, and objects without a class are always served"
	}
	if rule := x.restriction(kind); rule != "" {
		text += "; " + rule
	}
	return text
}

func (x *explainer) restriction(kind kube.Kind) string {
	var only []string
	if x.Namespace != "" {
		only = append(only, fmt.Sprintf("only the namespace %q is read", x.Namespace))
	}
	if labels := x.labels(kind); labels != "" {
		only = append(only, "only "+labels+" are read")
	}
	return strings.Join(only, ", and ")
}

func (x *explainer) unread(reason rules.Reason) string {
	labels := ""
	switch reason {
	case rules.ServiceNotFound:
		labels = x.labels(kube.KindService)
	case rules.NoEndpoints:
		labels = cmp.Or(x.labels(kube.KindEndpoints), x.labels(kube.KindEndpointSlice))
	}
	if labels == "" {
		return ""
	}
	return "Only " + labels + " are read here."
}

func (x *explainer) labels(kind kube.Kind) string {
	var texts []string
	for key, val := range x.Selectors[kind] {
		texts = append(texts, strings.TrimSuffix(key+"="+val, "="))
	}
	if len(texts) == 0 {
		return ""
	}
	slices.Sort(texts)
	return fmt.Sprintf("objects of the kind %s with the label %s", kind, strings.Join(texts, ","))
}

func (x *explainer) routes(o *Object, in compile.Inspection) {
	known := catalogue.New(catalogue.Options{
		ForwardBackendURL: x.Proxy.ForwardBackendURL, DisabledFilters: x.Proxy.DisabledFilters,
		ExtraFilters: x.Proxy.ExtraFilters, ExtraPredicates: x.Proxy.ExtraPredicates,
	})
	o.TotalRoutes = len(in.Routes)
	waiting, why := 0, "the route server holds it back, or is about to serve it"
	do := "If this lasts for more than a minute, ask the operators of the ingress: the guard of the route server is holding a change."
	if x.Hold != nil {
		why, do = x.Hold.text(), x.Hold.advice()
	}
	for _, r := range in.Routes {
		out := Route{ID: r.ID, Main: r.Main, State: StateServed}
		switch {
		case r.Route == nil:
			out.State, out.Why = StateLeftOut, "see the problems"
			if r.Wins && len(r.Clones) > 0 {
				out.Why += "; its clones by --clone-route are served"
			}
		case !r.Wins:
			out.State, out.Why = StateLeftOut, fmt.Sprintf("%s has a route of the same id", r.Keeper)
		case x.HasServed:
			if s := x.Served.Get(r.ID); s == nil || s.Text != r.Route.Text {
				out.State, out.Why = StateWaiting, "it is not served yet: "+why
				waiting++
			}
		}
		if len(o.Routes) == maxRoutes {
			continue
		}
		if r.Route != nil {
			if parsed, err := r.Route.Parse(); err == nil {
				out.Predicates, out.Filters, out.Backend = shadowdiff.Expression(parsed)
				if n := len(parsed.LBEndpoints); n > 1 {
					out.Backend = fmt.Sprintf("%d endpoints, %s", n, cmp.Or(parsed.LBAlgorithm, "roundRobin"))
				}
				if reason, wrong := known.Check(parsed); wrong != nil && out.State != StateLeftOut {
					out.State, out.Why = StateRefused, fmt.Sprintf("proxies refuse it: %s: %v", reason, wrong)
				}
			}
		}
		o.Routes = append(o.Routes, out)
	}
	if waiting > 0 {
		x.out.Hold = x.Hold
		x.warn(o.Owner, rankWaiting, "", fmt.Sprintf("its latest change is not served yet (%s): %s", shadowdiff.Plural(waiting, "route"), why), do)
	}
}

func serviceOf(s *rules.Service) Service {
	out := Service{Namespace: s.Key.Namespace, Name: s.Key.Name, Exists: s.Service != nil, Zones: s.Zones(), Ports: []string{}}
	out.Ready, out.NotReady = s.Readiness()
	if s.Service == nil {
		return out
	}
	out.Type = s.Service.Type
	for _, p := range s.Service.Ports {
		text := strconv.Itoa(p.Port)
		if p.Name != "" {
			text += " (" + p.Name + ")"
		}
		if p.TargetPort.Set {
			text += " -> " + p.TargetPort.String()
		}
		out.Ports = append(out.Ports, text)
	}
	return out
}
