package compile

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/routesrv/routesrv/compile/rules"
	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/table"
)

// assembly holds everything from which the list of routes of a snapshot is built.
type assembly struct {
	rules    *rules.Set
	view     *rules.View
	objects  objects
	hosts    hosts
	fixed    *rules.Unit              // the routes of the options
	sections []section                // in no particular order
	units    map[*rules.Unit]struct{} // of the sections
	claims   *claims
}

// assemble combines the units of a snapshot. It reuses units of recent builds, and the routes without a single owner of other
// assemblies; it compiles only the rest.
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
	a.hosts = make(hosts, len(a.objects))
	for i := range a.objects {
		for _, g := range a.objects[i].groups() {
			a.hosts.add(&a.objects[i], g)
		}
	}
	a.sections = append(a.sections, a.catchAlls(a.hosts, from)...)
	a.sections = append(a.sections, section{rank: fromOptions, unit: a.fixed, routes: a.fixed.Global})
	a.units = make(map[*rules.Unit]struct{}, len(a.sections))
	for i := range a.sections {
		a.units[a.sections[i].unit] = struct{}{}
	}
	a.claims = newClaims(claimsOf(a.sections))
	return a
}

// host collects what the objects of a host determine about its catch-all.
type host struct {
	oldest      *object  // of those that have the host: the catch-all is as old
	expressions []string // for the host, of the first object
	has         bool     // one of them has a route that counts as a catch-all
	redirect    rules.Redirect
	catchAll    *rules.Unit // nil if it has one, or none is wanted
}

// hosts are the hosts of objects, by name.
type hosts map[string]*host

// add adds a group of an object. Objects come in their order.
func (h hosts) add(o *object, g *rules.HostGroup) {
	of := h[g.Host]
	if of == nil {
		of = &host{oldest: o, expressions: g.FirstHosts}
		h[g.Host] = of
	}
	if at, oldest := o.Metadata().Created, of.oldest.Metadata().Created; at != 0 && (oldest == 0 || at < oldest) {
		of.oldest = o
	}
	of.has = of.has || g.CatchAll
	of.redirect.Disabled = of.redirect.Disabled || g.Redirect.Disabled
	if g.Redirect.Code != 0 {
		of.redirect.Code = g.Redirect.Code // the last one counts
	}
}

// catchAlls returns the catch-alls of the hosts that have none.
func (a *assembly) catchAlls(all hosts, from []*assembly) (sections []section) {
	for name, h := range all {
		if !h.has && !a.rules.DisableCatchAllRoutes {
			h.catchAll = a.catchAll(name, h, from)
			sections = append(sections, section{
				rank: fromHost, host: name, unit: h.catchAll, routes: h.catchAll.Global, object: h.oldest, catchAll: true,
			})
		}
	}
	return sections
}

// catchAll returns the catch-all of a host. It reuses the unit of another assembly if its inputs are equal.
func (a *assembly) catchAll(name string, h *host, from []*assembly) *rules.Unit {
	for _, other := range from {
		if o := other.hosts[name]; o != nil && o.catchAll != nil && o.redirect == h.redirect && slices.Equal(o.expressions, h.expressions) {
			return o.catchAll
		}
	}
	return a.rules.CatchAll(name, h.redirect, h.expressions)
}

// problems collects the problems of a snapshot, sorted by owner.
func (r *Result) problems() []rules.Problem {
	a := r.all
	var ofObjects []rules.Problem
	for _, o := range a.objects {
		ofObjects = append(ofObjects, o.unit.Problems()...)
	}
	problems := slices.Concat(
		snapshotProblems(r.Snapshot), a.view.Problems(), ofObjects, a.catchAllProblems(), a.eastWestProblems(),
		a.fixed.Problems(), a.claims.duplicates(everyone), a.claims.shadows(everyone),
	)
	// The problems of one owner stay in the order of detection.
	slices.SortStableFunc(problems, func(a, b rules.Problem) int { return a.Owner.Compare(b.Owner) })
	return problems
}

// snapshotProblems returns the problems that the read found.
func snapshotProblems(s *kube.Snapshot) []rules.Problem {
	var problems []rules.Problem
	for _, b := range s.Bad {
		problems = append(problems, rules.BadObject(b))
	}
	if f := s.DefaultFilters; f != nil && f.Err != nil {
		problems = append(problems, rules.Problem{
			Reason: rules.DefaultFilters, Severity: rules.Error, Plain: true,
			Message: "could not fetch default filter configurations", Cause: f.Err.Error(),
		})
	}
	return problems
}

// catchAllProblems returns the problems of the catch-alls, by route.
func (a *assembly) catchAllProblems() []rules.Problem {
	var problems []rules.Problem
	for _, h := range a.hosts {
		if h.catchAll != nil {
			problems = append(problems, h.catchAll.Problems()...)
		}
	}
	slices.SortFunc(problems, func(a, b rules.Problem) int {
		return cmp.Or(strings.Compare(a.Route, b.Route), strings.Compare(a.Message, b.Message))
	})
	return problems
}

// eastWestProblems reports the companions of default backends, with the numbers that the reference logs.
func (a *assembly) eastWestProblems() []rules.Problem {
	before, n := 0, 0
	for i := range a.sections {
		switch s := &a.sections[i]; s.rank {
		case fromIngress, fromHost:
			before += len(s.routes)
		case fromCompanions:
			n += len(s.routes)
		}
	}
	if n == 0 {
		return nil
	}
	return []rules.Problem{{
		Reason: rules.EastWestEnabled, Severity: rules.Info, Plain: true,
		Message: fmt.Sprintf("Enabled east west routes: %d %d %d %d", before, before+n, n, len(a.hosts)),
	}}
}

// notIn yields the routes that are in the table of this assembly but not in the table of other, which may be nil.
func (a *assembly) notIn(o *assembly) iter.Seq[claim] {
	return func(yield func(claim) bool) {
		for i := range a.sections {
			s := &a.sections[i]
			shared := false
			if o != nil {
				_, shared = o.units[s.unit]
			}
			for j := range s.routes {
				r := &s.routes[j]
				if !a.claims.has(r) || shared && o.claims.has(r) {
					continue
				}
				if !yield(claim{s, j}) {
					return
				}
			}
		}
	}
}

// maxBatch is the maximum number of texts unpacked at once while a list is built.
const maxBatch = 8000

// changed returns the list of routes of the assembly is, derived from the list before and the assembly was that before was built
// from. The two lists share equal blocks. Deletions come last, because only then are the unused ids known.
func changed(before table.List, was, is *assembly) table.List {
	var texts rules.Texts
	deletes := make(map[string]struct{})
	if was != nil {
		for c := range was.notIn(is) {
			for r := range texts.Rows(c.section.unit, c.route()) {
				deletes[r.ID] = struct{}{}
			}
		}
	}
	list, upserts := before, []*table.Route(nil)
	for c := range is.notIn(was) {
		for r := range texts.Rows(c.section.unit, c.route()) {
			delete(deletes, r.ID)
			upserts = append(upserts, r)
		}
		if len(upserts) >= maxBatch {
			list, upserts = replaced(list, newIn(before, upserts), nil), nil
		}
	}
	return replaced(list, newIn(before, upserts), slices.Collect(maps.Keys(deletes)))
}

// newIn returns the routes that a list does not have with the same text. It searches in the order of ids, to unpack each block of
// the list only once.
func newIn(before table.List, routes []*table.Route) []*table.Route {
	slices.SortFunc(routes, func(a, b *table.Route) int { return strings.Compare(a.ID, b.ID) })
	has := before.Lookup()
	return slices.DeleteFunc(routes, func(r *table.Route) bool {
		was := has.Get(r.ID)
		return was != nil && *was == *r
	})
}

// replaced changes a list. The rules have already checked each printed route as the list does, so an error is a bug.
func replaced(list table.List, upserts []*table.Route, deletes []string) table.List {
	next, err := list.With(upserts, deletes)
	if err != nil {
		panic(fmt.Sprintf("compile: a route that was checked is refused: %v", err))
	}
	return next
}
