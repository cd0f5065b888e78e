package explain

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/routesrv/routesrv/compile"
	"github.com/routesrv/routesrv/compile/rules"
	"github.com/routesrv/routesrv/eskip"
	"github.com/routesrv/routesrv/internal/routeid"
	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/match"
)

const forwardedProto = "X-Forwarded-Proto"

type routesOf struct {
	table  *match.Table
	owners map[string]kube.Ref
}

func (x *explainer) routesFor(host string) *routesOf {
	if known := x.hosts[host]; known != nil {
		return known
	}
	var routes []*eskip.Route
	for r := range match.RoutesFor(x.result.Routes, host) {
		if parsed, err := r.Parse(); err == nil {
			routes = append(routes, parsed)
		}
	}
	o := x.Proxy
	o.Candidates = 50
	found := &routesOf{owners: map[string]kube.Ref{}}
	found.table, _ = match.New(routes, o)
	for _, claim := range x.claimsOf(host) {
		in, _ := x.result.Inspect(claim)
		for _, r := range in.Routes {
			if r.Wins {
				found.owners[r.ID] = claim
			}
		}
	}
	x.hosts[host] = found
	return found
}

// owner returns the owner of a route: exactly for objects that have the host, otherwise as far as the id shows.
func (x *explainer) owner(h *routesOf, id string) kube.Ref {
	if ref, ok := h.owners[id]; ok {
		return ref
	}
	if kind := routeid.OwnerOf(id).Kind; kind == routeid.KindGenerated || kind == routeid.KindOther {
		return kube.Ref{}
	}
	if found := x.owners().Candidates(id); len(found) > 0 {
		return found[0]
	}
	return kube.Ref{}
}

func (x *explainer) requests(o *Object, in compile.Inspection, own map[string]bool, main []*eskip.Route) {
	asked := map[string]bool{}
	for _, route := range main {
		if len(o.Requests) >= maxRequests {
			break
		}
		for _, s := range samples(route, x.Proxy) {
			key := s.Method + " " + s.URL() + fmt.Sprint(s.Header)
			if asked[key] || len(o.Requests) >= maxRequests || x.beyond(s.Host) {
				continue
			}
			asked[key] = true
			if q, ok := x.ask(o.Owner, route.Id, s, own); ok {
				o.Requests = append(o.Requests, q)
			}
		}
	}
}

// samples returns requests that the route gets if no other route takes them: one for its path, and one below it.
func samples(r *eskip.Route, o match.Options) (found []match.Request) {
	alone, refused := match.New([]*eskip.Route{r}, o)
	if len(refused) > 0 {
		return nil
	}
	_, subtree := patternOf(r)
	requests, _, _ := alone.Contest(r, r, maxContest)
	for _, q := range requests {
		below := len(found) == 1 && subtree && !strings.HasSuffix(q.Target, "/") &&
			strings.Count(q.Target, "/") > strings.Count(strings.TrimSuffix(found[0].Target, "/"), "/")
		if len(found) == 0 || below {
			scheme, _, _ := strings.Cut(q.URL(), "://")
			q.Header, q.RemoteAddr = withScheme(q.Header, scheme), ""
			found = append(found, q)
		}
	}
	return found
}

// withScheme returns a header as the load balancer sends it for a scheme.
func withScheme(header map[string][]string, scheme string) map[string][]string {
	next := map[string][]string{forwardedProto: {scheme}}
	for name, lines := range header {
		if !strings.EqualFold(name, forwardedProto) {
			next[name] = lines
		}
	}
	return next
}

func patternOf(r *eskip.Route) (pattern string, subtree bool) {
	for _, p := range r.Predicates {
		if p.Name == "PathSubtree" && len(p.Args) == 1 {
			pattern, _ = p.Args[0].(string)
			return pattern, true
		}
	}
	return r.Path, false
}

// ask finds the route that gets a request intended for a route, and records a finding if it belongs to another object.
func (x *explainer) ask(owner kube.Ref, id string, s match.Request, own map[string]bool) (Request, bool) {
	routes := x.routesFor(s.Host)
	res := routes.table.Find(s)
	if res.Answer != nil || len(res.Outcomes) == 0 {
		return Request{}, false
	}
	q := Request{Method: s.Method, URL: s.URL(), Route: id, Result: "none"}
	var others []match.Outcome
	owned := false
	for _, out := range res.Outcomes {
		switch {
		case out.Route == nil:
		case own[out.Route.Id]:
			if !owned {
				q.Winner, q.Owner = out.Route.Id, owner
			}
			owned = true
		case x.owner(routes, out.Route.Id) != kube.Ref{}:
			others = append(others, out)
		}
	}
	switch {
	case len(others) == 0 && !owned:
		return q, true
	case len(others) == 0:
		q.Result = "own"
		x.follow(owner, &q, s)
		return q, true
	}
	winner := others[0].Route
	q.Winner, q.Owner = winner.Id, x.owner(routes, winner.Id)
	if owned {
		q.Result, q.Why = "shared", "the routes of both match, and none is more specific"
		if len(winner.PathRegexps) > 0 && winner.Path == "" {
			q.Why = fmt.Sprintf("its path is the expression %s, which matches this path as well, and neither is more specific", winner.PathRegexps[0])
		}
		if !slices.ContainsFunc(res.Outcomes, func(o match.Outcome) bool { return len(o.Ties) > 0 }) {
			q.Why = "it depends on chance or on a part of the request that is not known"
		}
		x.warn(owner, rankShared, "", fmt.Sprintf("requests for %s are answered by %s as well, at random: %s", q.URL, q.Owner, q.Why),
			"Give this object another host or path, or make its path more specific: a path of type Prefix or Exact wins over an expression.")
		return q, true
	}
	q.Result, q.Why = "other", whyBehind(res, id)
	x.warn(owner, rankOther, "", fmt.Sprintf("requests for %s reach %s and not this object: %s", q.URL, q.Owner, q.Why),
		"Use another host or path, or agree on the owner of these requests with the team of "+q.Owner.String()+".")
	return q, true
}

var advantages = map[match.Behind]string{
	match.LessSpecific: "its path is more specific",
	match.NoPath:       "a path (Prefix, Exact, path, pathSubtree) wins over an expression (ImplementationSpecific, pathRegexp), whatever it contains",
	match.LowerWeight:  "its route for the same path has more conditions, or a higher Weight",
}

func whyBehind(res match.Result, id string) string {
	for _, c := range res.Candidates {
		if c.Route.Id == id && c.Behind != "" {
			return advantages[c.Behind]
		}
	}
	return "its route comes first"
}

func (x *explainer) beyond(host string) bool {
	return x.hosts[host] == nil && len(x.hosts) >= maxTables
}

const maxHops = 8

// follow follows redirects from the route that gets the request, because browsers give up on loops.
func (x *explainer) follow(owner kube.Ref, q *Request, s match.Request) {
	seen := []string{s.URL()}
	for range maxHops {
		res := x.routesFor(s.Host).table.Find(s)
		winner := res.Winner()
		if winner == nil {
			return
		}
		next, ok := redirected(winner, s)
		if !ok || x.beyond(next.Host) {
			return
		}
		s = next
		if slices.Contains(seen, s.URL()) {
			q.Result, q.Why = "loop", "redirected to "+strings.Join(append(seen[1:], s.URL()), ", then to ")
			x.findings = append(x.findings, finding{
				owner: owner, rank: rankLoop, severity: rules.Error,
				what: fmt.Sprintf("requests for %s are redirected in a loop: %s -> %s", q.URL, strings.Join(seen, " -> "), s.URL()),
				do:   "Look at the redirect annotations and at filters such as redirectTo: remove one of them, or change its target.",
			})
			return
		}
		seen = append(seen, s.URL())
	}
}

func redirected(r *eskip.Route, s match.Request) (match.Request, bool) {
	for _, f := range r.Filters {
		if f.Name != "redirectTo" && f.Name != "redirectToLower" || len(f.Args) < 1 {
			continue
		}
		next := s
		scheme, _, _ := strings.Cut(s.URL(), "://")
		if len(f.Args) > 1 {
			text, _ := f.Args[1].(string)
			to, err := url.Parse(text)
			if err != nil {
				return s, false
			}
			scheme = cmp.Or(to.Scheme, scheme)
			next.Host, next.Target = cmp.Or(to.Hostname(), s.Host), cmp.Or(to.Path, s.Target)
		}
		if f.Name == "redirectToLower" {
			next.Target = strings.ToLower(next.Target)
		}
		next.Header = withScheme(s.Header, scheme)
		return next, scheme == "http" || scheme == "https"
	}
	return s, false
}
