package rules

import (
	"regexp"
	"slices"
	"strings"

	"github.com/routesrv/routesrv/eskip"
	"github.com/routesrv/routesrv/internal/catalogue"
)

// A route that proxies refuse is published as in the reference, because the tables must be equal. Each proxy then drops it, and
// only its own log says so. Therefore it is a problem here.

// checkRefused reports a route that proxies refuse, once for each kind of mistake in an object. Hosts with wildcards have been reported.
func (f *findings) checkRefused(s *Set, r *eskip.Route) {
	refused, err := s.proxies.Check(r)
	if err == nil {
		return
	}
	what := err.Error()
	if strings.HasPrefix(what, "predicate Host:") && slices.ContainsFunc(f.list, func(p Problem) bool { return strings.HasPrefix(p.About, aboutWildcard) }) {
		return
	}
	reason, detail := WouldReject, ""
	switch refused {
	case catalogue.UnknownFilter:
		detail = "proxies know no filter " + nameIn(what) + meant(s.proxies.Similar(nameIn(what), false))
	case catalogue.UnknownPredicate:
		detail = "proxies know no predicate " + nameIn(what) + meant(s.proxies.Similar(nameIn(what), true))
	case catalogue.InvalidFilterParams:
		detail = "proxies do not accept the filter " + what
	case catalogue.InvalidPredicateParams:
		detail = "proxies do not accept the predicate " + what
	case catalogue.InvalidMatcher:
		reason, detail = InvalidExpression, "proxies cannot match a host, a path or a header: "+what
	default:
		detail = "proxies do not accept a route: " + what
	}
	f.ownf(Problem{Route: r.Id, Reason: reason, Severity: Warning, About: string(refused) + " " + what}, "%s, so they ignore the routes that have it", detail)
}

// checkAllowed reports filters that operators refuse, and returns false if the route has one. It warns of filters that work while a
// proxy loads its routes, unless the operators add these filters themselves.
func (f *findings) checkAllowed(s *Set, r *eskip.Route) bool {
	for _, filter := range r.Filters {
		name := filter.Name
		if slices.Contains(s.RefuseFilters, name) {
			f.ownf(Problem{Route: r.Id, Reason: FilterRefused, Severity: Error},
				"the operators of this ingress do not allow the filter %s, so the route %s is left out", name, r.Id)
			return false
		}
		does := s.proxies.AtLoad(name)
		if does == "" || slices.Contains(s.ownFilters, name) {
			continue
		}
		f.ownf(Problem{Route: r.Id, Reason: RunsAtLoad, Severity: Warning, About: name},
			"the filter %s %s each time a proxy loads its routes, and a proxy that waits for it serves old routes", name, does)
	}
	return true
}

// insideSegment matches a path with a colon or an asterisk behind the first character of a segment.
var insideSegment = regexp.MustCompile(`(^|/)[^/:*][^/]*[:*]`)

// checkPaths reports a path that proxies accept and never match, of a route that was read back.
func (f *findings) checkPaths(r *eskip.Route) {
	check := func(path string) {
		if strings.ContainsAny(path, ":*") && insideSegment.MatchString(path) {
			f.ownf(Problem{Reason: InvalidExpression, Severity: Warning, About: path},
				"the path %q has a colon or an asterisk inside of a segment, so it matches no request", path)
		}
	}
	check(r.Path)
	for _, p := range r.Predicates {
		if isPathPredicate(p) && len(p.Args) > 0 {
			path, _ := p.Args[0].(string)
			check(path)
		}
	}
}

// nameIn returns the quoted name in an error of the catalogue.
func nameIn(text string) string {
	_, text, _ = strings.Cut(text, `"`)
	name, _, _ := strings.Cut(text, `"`)
	return name
}

// meant suggests names that may have been meant.
func meant(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return " (is " + strings.Join(names, " or ") + " meant?)"
}
