package rules

import (
	"github.com/routesrv/routesrv/eskip"
	"github.com/routesrv/routesrv/internal/routeid"
)

// eastWestCompanion adds the deprecated east-west companion of a route: a copy for the host NAME.NAMESPACE.DOMAIN.
func (b *ingressBuilder) eastWestCompanion(r *eskip.Route, sharers int) {
	if !b.set.EastWest {
		return
	}
	host := b.ing.Name + "." + b.ing.Namespace + "." + b.set.EastWestDomain
	c := shallow(r)
	c.Id = routeid.EastWest(r.Id)
	c.HostRegexps = []string{hostExpr(host)}
	b.forward(c) // it is forwarded like every route of a host, so it loses the filters that the options append
	b.addToHost(host, c, companion, sharers)
}

// defaultEastWestCompanion returns the companion of a default backend. Its host has name and namespace swapped, as in the
// reference.
func (b *ingressBuilder) defaultEastWestCompanion(r *eskip.Route) *eskip.Route {
	c := shallow(r)
	c.Id = routeid.EastWest(r.Id)
	c.HostRegexps = []string{hostExpr(b.ing.Namespace + "." + b.ing.Name + "." + b.set.EastWestDomain)}
	return c
}
