package compile

import (
	"slices"

	"github.com/routesrv/routesrv/compile/rules"
	"github.com/routesrv/routesrv/kube"
)

// assembly is everything that the list of routes of a snapshot is made of.
type assembly struct {
	rules    *rules.Set
	view     *rules.View
	objects  objects
	hosts    map[string]*host
	fixed    *rules.Unit              // the routes of the options
	sections []section                // in no particular order
	units    map[*rules.Unit]struct{} // of the sections
	claims   *claims
}

// assemble puts the units of a snapshot together. It compiles only what others have not: units are those of recent builds, what belongs to
// no single object is from other assemblies.
func (c *Compiler) assemble(s *kube.Snapshot, from []*assembly, recent []memo) *assembly {
	a := &assembly{rules: c.set, objects: gather(s), fixed: c.fixed}
	views := make([]*rules.View, len(from))
	for i, other := range from {
		views[i] = other.view
	}
	a.view = c.set.View(s, views...)
	a.objects.compile(c.set, a.view, recent)
	a.sections = make([]section, 0, 2*len(a.objects)+1)
	for i := range a.objects {
		a.sections = a.objects[i].sections(a.sections)
	}
	a.addCatchAlls(from)
	a.sections = append(a.sections, section{rank: fromOptions, unit: a.fixed, routes: a.fixed.Global})
	a.units = make(map[*rules.Unit]struct{}, len(a.sections))
	for i := range a.sections {
		a.units[a.sections[i].unit] = struct{}{}
	}
	a.claims = newClaims(claimsOf(a.sections))
	return a
}

// host is what the objects of a host say about its catch-all.
type host struct {
	first       *object  // of those that have the host
	expressions []string // for the host, of the first object
	has         bool     // one of them has a route that counts as a catch-all
	redirect    rules.Redirect
	catchAll    *rules.Unit // nil if it has one, or none is wanted
}

// addCatchAlls adds the catch-alls of the hosts that have none.
func (a *assembly) addCatchAlls(from []*assembly) {
	a.hosts = make(map[string]*host, len(a.objects))
	for i := range a.objects {
		o := &a.objects[i]
		for k := range o.unit.Groups {
			g := &o.unit.Groups[k]
			h := a.hosts[g.Host]
			if h == nil {
				h = &host{first: o, expressions: g.FirstHosts}
				a.hosts[g.Host] = h
			}
			h.has = h.has || g.CatchAll
			h.redirect.Disabled = h.redirect.Disabled || g.Redirect.Disabled
			if g.Redirect.Code != 0 {
				h.redirect.Code = g.Redirect.Code // the last one counts
			}
		}
	}
	for name, h := range a.hosts {
		if !h.has && !a.rules.DisableCatchAllRoutes {
			h.catchAll = a.catchAll(name, h, from)
			a.sections = append(a.sections, section{
				rank: fromHost, host: name, unit: h.catchAll, routes: h.catchAll.Global, object: h.first, catchAll: true,
			})
		}
	}
}

// catchAll returns the catch-all of a host. It reuses the unit of another assembly if nothing that it depends on differs.
func (a *assembly) catchAll(name string, h *host, from []*assembly) *rules.Unit {
	for _, other := range from {
		if o := other.hosts[name]; o != nil && o.catchAll != nil && o.redirect == h.redirect && slices.Equal(o.expressions, h.expressions) {
			return o.catchAll
		}
	}
	return a.rules.CatchAll(name, h.redirect, h.expressions)
}
