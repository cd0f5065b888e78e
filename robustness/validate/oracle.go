package validate

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/routesrv/routesrv/compile"
	"github.com/routesrv/routesrv/eskip"
	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/robustness/history"
	"github.com/routesrv/routesrv/table"
)

// oracle says which routes an object has, with which backends. It compiles each object alone and from nothing.
type oracle struct {
	options compile.Options
	fixed   []line // that the options alone give, sorted
	known   map[string][]line
	shared  map[string]map[kube.Ref]bool // ids with the objects that ever want them
}

// line is one route of a table.
type line struct{ id, text string }

// head is the text without its backend, which stands behind the last arrow.
func head(text string) string {
	i := strings.LastIndex(text, "-> ")
	if i < 0 {
		return text
	}
	return text[:i]
}

func newOracle(o history.Options) *oracle {
	r := &oracle{
		options: compile.Options{EndpointSlices: o.EndpointSlices, Healthcheck: o.Healthcheck, HTTPSRedirect: o.HTTPSRedirect},
		known:   make(map[string][]line), shared: make(map[string]map[kube.Ref]bool),
	}
	r.fixed = r.compile(&kube.Snapshot{}, "")
	return r
}

// compile gives the lines of a snapshot, sorted by id.
func (r *oracle) compile(s *kube.Snapshot, zone string) []line {
	c, err := compile.New(r.options)
	if err != nil {
		panic(fmt.Sprintf("options without anything to parse: %v", err))
	}
	t := table.Of(c.Compile(s).Routes, 0, time.Time{})
	if zone != "" {
		t = t.Zone(zone)
	}
	var lines []line
	for route := range t.Routes().All() {
		lines = append(lines, line{route.ID, route.Text})
	}
	return lines
}

// combination is one state of an owner with one state of each object that it depends on.
type combination struct {
	owner    *state
	backends []*state
}

// routes gives the lines of an owner, without those of the options, sorted by id.
func (r *oracle) routes(c combination, zone string) []line {
	if c.owner.object == nil {
		return nil
	}
	key := make([]byte, 0, 64)
	key = binary.AppendUvarint(key, uint64(c.owner.number))
	for _, b := range c.backends {
		key = binary.AppendUvarint(key, uint64(b.number))
	}
	key = append(key, zone...)
	if lines, ok := r.known[string(key)]; ok {
		return lines
	}
	s := &kube.Snapshot{}
	addTo(s, c.owner.object)
	for _, b := range c.backends {
		addTo(s, b.object)
	}
	lines := slices.DeleteFunc(r.compile(s, zone), func(l line) bool {
		_, fixed := slices.BinarySearchFunc(r.fixed, l.id, byID)
		return fixed
	})
	r.known[string(key)] = lines
	return lines
}

func byID(l line, id string) int { return strings.Compare(l.id, id) }

func addTo(s *kube.Snapshot, o kube.Object) {
	switch o := o.(type) {
	case *kube.Ingress:
		s.Ingresses = append(s.Ingresses, o)
	case *kube.RouteGroup:
		s.RouteGroups = append(s.RouteGroups, o)
	case *kube.Service:
		s.Services = append(s.Services, o)
	case *kube.EndpointSlice:
		s.EndpointSlices = append(s.EndpointSlices, o)
	case *kube.Endpoints:
		s.Endpoints = append(s.Endpoints, o)
	}
}

// claim notes which ids the states of an epoch's owners want: those that several objects want can be anybody's.
func (r *oracle) claim(e *epoch) {
	for _, t := range e.owners {
		for _, s := range t.states {
			if s.object == nil {
				continue
			}
			full := e.full(t, s)
			empty := combination{s, slices.DeleteFunc(slices.Clone(full.backends), func(b *state) bool { return !isService(b.object) })}
			for _, l := range slices.Concat(r.routes(full, ""), r.routes(empty, "")) { // without endpoints some have other routes
				if r.shared[l.id] == nil {
					r.shared[l.id] = make(map[kube.Ref]bool)
				}
				r.shared[l.id][t.ref] = true
				t.ids = append(t.ids, l.id)
			}
		}
		slices.Sort(t.ids)
		t.ids = slices.Compact(t.ids)
	}
}

func isService(o kube.Object) bool { _, ok := o.(*kube.Service); return ok }

// full is a state of an owner with the last of each thing that it depends on that there ever was: with these it has all of
// its ids.
func (e *epoch) full(t *thing, s *state) combination {
	c := combination{owner: s}
	for _, name := range servicesOf(s.object) {
		for _, dep := range e.services[kube.ServiceKey{Namespace: kube.NamespaceOrDefault(t.ref.Namespace), Name: name}] {
			for _, d := range slices.Backward(dep.states) {
				if d.object != nil {
					c.backends = append(c.backends, d)
					break
				}
			}
		}
	}
	return c
}

func (r *oracle) isShared(id string) bool { return len(r.shared[id]) > 1 }

// maxCombinations bounds what is tried for an object of which much changed in a window. Above that its routes may be any.
const maxCombinations = 48

// combinations are those of an owner and its backends that may have been seen together: the owner within [intent, hi], the
// backends within [backends, hi]. It is false if there are too many.
func (e *epoch) combinations(t *thing, w window) ([]combination, bool) {
	var all []combination
	for _, owner := range t.between(w.intent, max(w.hi, w.intentHi)) {
		if owner.object == nil {
			all = append(all, combination{owner: owner})
			continue
		}
		own := []combination{{owner: owner}}
		for _, name := range servicesOf(owner.object) {
			for _, dep := range e.services[kube.ServiceKey{Namespace: kube.NamespaceOrDefault(t.ref.Namespace), Name: name}] {
				states := dep.between(w.backends, w.hi)
				var more []combination
				for _, c := range own {
					for _, s := range states {
						more = append(more, combination{owner, append(slices.Clip(c.backends), s)})
					}
				}
				if own = more; len(own)+len(all) > maxCombinations {
					return nil, false
				}
			}
		}
		all = append(all, own...)
	}
	return all, true
}

// whole gives the table of everything at the end of an epoch, from nothing.
func (r *oracle) whole(e *epoch, zone string) []line {
	s := &kube.Snapshot{}
	for _, t := range sortedThings(e) {
		if n := len(t.states); n > 0 && t.states[n-1].object != nil {
			addTo(s, t.states[n-1].object)
		}
	}
	return r.compile(s, zone)
}

func sortedThings(e *epoch) []*thing {
	all := make([]*thing, 0, len(e.things))
	for _, t := range e.things {
		all = append(all, t)
	}
	slices.SortFunc(all, func(a, b *thing) int { return a.ref.Compare(b.ref) })
	return all
}

// parse reads a table's text line by line. The error is about the form of the whole: ids in order, and distinct.
func parse(text string) ([]line, error) {
	if text == "" {
		return nil, nil
	}
	lines := make([]line, 0, strings.Count(text, "\n")+1)
	for l := range strings.SplitSeq(text, "\n") {
		id, _, ok := strings.Cut(l, ": ")
		if !ok || !strings.HasSuffix(l, ";") {
			return nil, fmt.Errorf("line %d is no route: %.80q", len(lines)+1, l)
		}
		if n := len(lines); n > 0 && lines[n-1].id >= id {
			return nil, fmt.Errorf("route %s comes after %s", id, lines[n-1].id)
		}
		lines = append(lines, line{id, l})
	}
	return lines, nil
}

// readable reports whether a line can be read alone.
func readable(text string) error {
	_, err := eskip.Parse(text)
	return err
}
