package compile

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
		r.HostRegexps = []string{b.hostExpr(host)}
		setPath(r, b.ann.pathMode, p)
		if n := countPaths(r); n > 1 {
			b.unit.add(Problem{
				Route: r.Id, Reason: MultiplePaths, Severity: Error,
				Message: fmt.Sprintf("Ignoring route due to multiple path predicates: %d path predicates, route: %s", n, r),
			})
			b.eastWestCompanion(r) // as in the reference: the companion is created nevertheless
			continue
		}
		b.set.appendAnnotated(r, b.ing.Annotations, b.set.eastWestRange(host) > 0)
		b.set.application(r, &b.ing.Meta)
		b.forward(r)
		b.addToHost(host, r, mainRoute)
		b.rememberCustomRedirect(host)
		b.eastWestCompanion(r)
	}
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
