package rules

import (
	"fmt"

	"github.com/routesrv/routesrv/eskip"
	"github.com/routesrv/routesrv/internal/routeid"
	"github.com/routesrv/routesrv/kube"
)

// customRoutes adds the routes of the routes annotation to a host, once for each path, even if the service of the path does not
// exist.
func (b *ingressBuilder) customRoutes(host string, p *kube.IngressPath) {
	for i, own := range b.ann.routes {
		// Copy with new slices: the reference's copies share memory and overwrite each other.
		r := shallow(own)
		r.Id = routeid.Custom(b.ing.Namespace, b.ing.Name, own.Id, i, host, p.Path)
		r.HostRegexps = []string{b.hostExpr}
		setPath(r, b.ann.pathMode, p)
		if n := countPaths(r); n > 1 {
			b.unit.add(Problem{
				Route: r.Id, Reason: MultiplePaths, Severity: Error,
				Message: fmt.Sprintf("Ignoring route due to multiple path predicates: %d path predicates, route: %s", n, Shortened(r.String())),
			})
			b.eastWestCompanion(r, b.copies(own)) // as in the reference: the companion is created nevertheless
			continue
		}
		b.set.appendAnnotated(r, b.ing.Annotations, b.set.eastWestRange(host) > 0)
		b.set.application(r, &b.ing.Meta)
		sharers := b.sharers(1)
		if len(r.Filters) == len(own.Filters) {
			sharers = b.copies(own)
		}
		b.forward(r)
		b.addToHost(host, r, mainRoute, sharers)
		b.rememberRedirect(host)
		b.eastWestCompanion(r, sharers)
	}
}

// copies returns how many routes share the filters of a custom route in the reference: its copies for all paths, and their east-west
// companions, also those of copies that are refused. It stops counting at maxSharers, and counts only where it matters.
func (b *ingressBuilder) copies(own *eskip.Route) int {
	if len(b.set.EditRoutes) == 0 || len(own.Filters) == 0 {
		return 1
	}
	paths, n := countPaths(own), 0
	for i := range b.ing.Spec.Rules {
		rule := &b.ing.Spec.Rules[i]
		for k := range rule.Paths {
			if !rule.HTTP {
				break
			}
			with := &eskip.Route{}
			setPath(with, b.ann.pathMode, &rule.Paths[k])
			if paths+countPaths(with) <= 1 {
				n++
			}
			if b.set.EastWest {
				n++
			}
			if n >= maxSharers {
				return n
			}
		}
	}
	return n
}

// countPaths counts the path predicates of a route, not including path expressions.
func countPaths(r *eskip.Route) int {
	n := 0
	if r.Path != "" {
		n++
	}
	for _, p := range r.Predicates {
		if isPathPredicate(p) {
			n++
		}
	}
	return n
}
