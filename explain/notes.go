package explain

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/routesrv/routesrv/compile"
	"github.com/routesrv/routesrv/compile/rules"
	"github.com/routesrv/routesrv/eskip"
	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/match"
)

const maxNotes = 8

// notes explains why an object that is served as written may still not do what its team expects.
func (x *explainer) notes(o *Object, in compile.Inspection, own map[string]bool, main []*eskip.Route) {
	x.checkAnnotations(o.Owner, in.Object.Metadata().Annotations)
	for _, route := range main {
		if len(o.Notes) >= maxNotes {
			break
		}
		x.checkLiteral(o.Owner, route)
		if found := samples(route, x.Proxy); len(found) > 0 {
			x.leftOut(o, route, found[0])
			x.checkLost(o.Owner, route.Id, found, own)
		}
	}
	if secrets := secretsOf(in.Object); len(secrets) > 0 {
		o.note("spec.tls names the Secret %s. The route server reads no Secrets, so it cannot check the Secret: ask the operators of the TLS termination for the host.",
			short(secrets, 3))
	}
}

func (o *Object) note(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); len(o.Notes) < maxNotes && !slices.Contains(o.Notes, text) {
		o.Notes = append(o.Notes, text)
	}
}

// leftOut notes requests that nearly match a route and get none: with another method, from another address, or without a slash.
func (x *explainer) leftOut(o *Object, r *eskip.Route, s match.Request) {
	if x.beyond(s.Host) {
		return
	}
	table := x.routesFor(s.Host).table
	unanswered := func(change func(*match.Request)) bool {
		request := s
		request.Header = maps.Clone(s.Header)
		change(&request)
		res := table.Find(request)
		return res.Answer == nil && res.Decided() && res.Winner() == nil
	}
	if methods := methodsOf(r); len(methods) > 0 {
		other := "GET"
		if slices.Contains(methods, other) {
			other = "POST"
		}
		if unanswered(func(q *match.Request) { q.Method = other }) {
			o.note("%s is for %s only: %s gets 404, because the predicates of the route name the method.", s.URL(), strings.Join(methods, " and "), other)
		}
	}
	for _, p := range r.Predicates {
		if p.Name != "ClientIP" && p.Name != "Source" && p.Name != "SourceFromLast" {
			continue
		}
		if unanswered(func(q *match.Request) {
			q.RemoteAddr = outside
			q.Header["X-Forwarded-For"] = []string{outside}
		}) {
			o.note("%s is for clients within %s only: all others get 404. A host for traffic inside the cluster is not reachable from outside.", s.URL(), p)
		}
	}
	if path := r.Path; len(path) > 1 && strings.HasSuffix(path, "/") && !strings.ContainsAny(path, ":*") &&
		unanswered(func(q *match.Request) { q.Target = strings.TrimSuffix(s.Target, "/") }) {
		o.note("%s ends with a slash and its path is exact: %s gets 404. Use the type Prefix, or a second path without the slash.",
			s.URL(), strings.TrimSuffix(s.URL(), "/"))
	}
}

func (x *explainer) checkLost(owner kube.Ref, id string, meant []match.Request, own map[string]bool) {
	var first *eskip.Route
	var why, url string
	for _, s := range meant {
		if x.beyond(s.Host) {
			return
		}
		res := x.routesFor(s.Host).table.Find(s)
		if res.Answer != nil || !res.Decided() || res.Winner() == nil || res.Winner().Id == id || !own[res.Winner().Id] {
			return
		}
		if first == nil {
			first, why, url = res.Winner(), whyBehind(res, id), s.URL()
		}
	}
	x.warn(owner, rankOther, id,
		fmt.Sprintf("its route %s does not get the requests meant for it, such as %s: its own route %s takes them, because %s", id, url, first.Id, why),
		"In this object, give the route a path of the same kind, or write the expression as the predicate PathRegexp of a route with that path.")
}

// outside is an address of the range for documentation (RFC 5737), which no cluster has.
const outside = "192.0.2.1"

func methodsOf(r *eskip.Route) (methods []string) {
	if r.Method != "" {
		return []string{r.Method}
	}
	for _, p := range r.Predicates {
		if p.Name == "Methods" {
			for _, a := range p.Args {
				if m, ok := a.(string); ok {
					methods = append(methods, strings.ToUpper(m))
				}
			}
		}
	}
	return methods
}

func (x *explainer) checkLiteral(owner kube.Ref, r *eskip.Route) {
	path, _ := patternOf(r)
	if !strings.ContainsAny(path, `^$+?()[]{}|\`) && !strings.Contains(path, ".*") {
		return
	}
	do := "Write the path without regular expression syntax."
	if _, err := regexp.Compile(path); err == nil {
		do = "If an expression is meant, give the path the type ImplementationSpecific and the object the annotation zalando.org/skipper-ingress-path-mode: path-regexp. " +
			"Otherwise write the path without regular expression syntax."
		if owner.Kind == kube.KindRouteGroup {
			do = "If an expression is meant, use pathRegexp. Otherwise write the path without regular expression syntax."
		}
	}
	x.warn(owner, rankWarning, r.Id, fmt.Sprintf("the path %q looks like a regular expression, but is matched literally", path), do)
}

func (x *explainer) checkAnnotations(owner kube.Ref, annotations kube.Pairs) {
	known := rules.Annotations()
	for _, a := range annotations {
		if slices.Contains(known, a.Key) {
			continue
		}
		prefix, name, ok := strings.Cut(a.Key, "/")
		if !ok {
			prefix, name = "", a.Key
		}
		for _, k := range known {
			ours, wanted, _ := strings.Cut(k, "/")
			plain := strings.ReplaceAll(strings.ToLower(name), "_", "-")
			misspelt := prefix == ours && near(plain, wanted)
			misplaced := plain == wanted && (prefix == "" || near(prefix, ours))
			if misspelt || misplaced {
				x.warn(owner, rankWarning, "", fmt.Sprintf("the annotation %q has no effect here", a.Key),
					fmt.Sprintf("Did you mean %s? Rename the annotation in this object.", k))
				break
			}
		}
	}
}

func secretsOf(o kube.Object) []string {
	switch o := o.(type) {
	case *kube.Ingress:
		if o.Spec != nil {
			return kube.Distinct(o.Spec.Secrets)
		}
	case *kube.RouteGroup:
		if o.Spec != nil {
			return kube.Distinct(o.Spec.Secrets)
		}
	}
	return nil
}
