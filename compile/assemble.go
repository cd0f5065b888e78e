package compile

import (
	"math"
	"slices"
	"strings"

	"github.com/routesrv/routesrv/compile/rules"
	"github.com/routesrv/routesrv/kube"
)

// order is the place of a run of routes in the order of the reference. It decides who keeps an id that several routes want if creation
// times do not.
type order struct {
	rank rank
	host string // for fromHost
	at   int    // of the object; the catch-all of a host is behind all
}

type rank uint8

const (
	fromIngress    rank = iota // routes outside of host groups, ordered by object
	fromHost                   // ordered by host, where the reference's order of hosts is random
	fromCompanions             // ordered by object
	fromRouteGroup             // ordered by object
	fromOptions
)

// section is a run of routes that are adjacent in that order.
type section struct {
	order
	unit   *rules.Unit
	routes []rules.Route // some or all of the unit
	// object is the one that problems name: for the catch-all of a host the first object with the host, nil for the routes of the options.
	object *object
}

// asker returns the object that requested the routes; nil for a catch-all, and for the routes of the options.
func (s *section) asker() *object {
	if s.at == behindAll {
		return nil
	}
	return s.object
}

// owner returns the object as problems name it.
func (s *section) owner() kube.Ref {
	if s.object == nil {
		return kube.Ref{}
	}
	return s.object.Ref()
}

// created returns when the asker was created, or 0 if unknown.
func (s *section) created() int64 {
	if o := s.asker(); o != nil {
		return o.meta.Created
	}
	return 0
}

// behindAll is the position of a catch-all among the objects of its host.
const behindAll = math.MaxInt

// assembly is everything that the list of routes of a snapshot is made of.
type assembly struct {
	rules             *rules.Set
	ingresses, groups objects
	view              *rules.View
	sections          []section                // in no particular order
	units             map[*rules.Unit]struct{} // of the sections
	hosts             int
	faulty            []section // catch-alls with problems
	fixed             *rules.Unit
	claims            *claims
}

// assemble compiles what must be compiled, and puts the units of a snapshot together.
func (m *memo) assemble(s *kube.Snapshot) *assembly {
	m.number++
	m.view = m.rules.View(s, m.view)
	a := &assembly{rules: m.rules, view: m.view, ingresses: gather(m, s.Ingresses, &m.ingresses), groups: gather(m, s.RouteGroups, &m.groups)}
	a.sections = make([]section, 0, 2*len(a.ingresses.sorted)+len(a.groups.sorted)+1)
	a.units = make(map[*rules.Unit]struct{}, cap(a.sections))
	for _, k := range []*objects{&a.ingresses, &a.groups} {
		for i := range k.sorted { // in order, because of volatile units
			o := &k.sorted[i]
			o.unit = m.unit(o.object, a.view, placed(i))
			a.sections = o.sections(a.sections, placed(i))
		}
	}
	m.addCatchAlls(a)
	if m.fixed == nil {
		m.fixed = m.rules.Fixed()
	}
	a.fixed = m.fixed
	a.sections = append(a.sections, section{order: order{rank: fromOptions}, unit: m.fixed, routes: m.fixed.Global})
	routes := 0
	for i := range a.sections {
		a.units[a.sections[i].unit] = struct{}{}
		routes += len(a.sections[i].routes)
	}
	a.claims = newClaims(slices.AppendSeq(make([]claim, 0, routes), claimsOf(a.sections)))
	return a
}

// sections appends the sections of an object at a place.
func (o compiled) sections(all []section, at int) []section {
	u := o.unit
	add := func(r rank, host string, routes []rules.Route) {
		if len(routes) > 0 {
			all = append(all, section{order{r, host, at}, u, routes, o.object})
		}
	}
	if _, ok := o.Object.(*kube.RouteGroup); ok {
		add(fromRouteGroup, "", u.Global)
		return all
	}
	add(fromIngress, "", u.Global)
	for i := range u.Groups {
		add(fromHost, u.Groups[i].Host, u.Groups[i].Routes)
	}
	add(fromCompanions, "", u.Companions)
	return all
}

// host is what the objects of a host say about its catch-all.
type host struct {
	name        string
	first       *object  // of those that have the host
	expressions []string // for the host, of the first object
	has         bool     // one of them has a route that counts as a catch-all
	redirect    rules.Redirect
}

// addCatchAlls adds the catch-alls of the hosts that have none.
func (m *memo) addCatchAlls(a *assembly) {
	numbers := make(map[string]int, len(a.ingresses.sorted))
	hosts := make([]host, 0, len(a.ingresses.sorted)) // in the order of appearance
	for _, o := range a.ingresses.sorted {
		for i := range o.unit.Groups {
			g := &o.unit.Groups[i]
			at, known := numbers[g.Host]
			if !known {
				at = len(hosts)
				numbers[g.Host] = at
				hosts = append(hosts, host{name: g.Host, first: o.object, expressions: g.FirstHosts})
			}
			h := &hosts[at]
			h.has = h.has || g.CatchAll
			h.redirect.Disabled = h.redirect.Disabled || g.Redirect.Disabled
			if g.Redirect.Code != 0 {
				h.redirect.Code = g.Redirect.Code // the last one counts
			}
		}
	}
	a.hosts = len(hosts)
	if m.rules.DisableCatchAllRoutes {
		return
	}
	for i := range hosts {
		h := &hosts[i]
		if h.has {
			continue
		}
		u := m.catchAllOf(h)
		s := section{order{fromHost, h.name, behindAll}, u, u.Global, h.first}
		a.sections = append(a.sections, s)
		if len(u.Problems()) > 0 {
			a.faulty = append(a.faulty, s)
		}
	}
}

// catchAll is the compiled catch-all of a host, with everything that it depends on.
type catchAll struct {
	unit        *rules.Unit
	expressions string
	redirect    rules.Redirect
	used        uint64 // the last build that has it
}

// catchAllOf returns the catch-all of a host. It reuses the previous one if that would be the same.
func (m *memo) catchAllOf(h *host) *rules.Unit {
	expressions := strings.Join(h.expressions, "\x00")
	known := m.catchAll[h.name]
	if known == nil || known.expressions != expressions || known.redirect != h.redirect {
		known = &catchAll{unit: m.rules.CatchAll(h.name, h.redirect, h.expressions), expressions: expressions, redirect: h.redirect}
		// All strings of an object share one allocation, which a key that outlives its object would keep in memory.
		m.catchAll[strings.Clone(h.name)] = known
	}
	known.used = m.number
	return known.unit
}
