package validate

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/routesrv/routesrv/compile"
	"github.com/routesrv/routesrv/compile/rules"
	"github.com/routesrv/routesrv/eskip"
	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/table"
	"github.com/routesrv/routesrv/test/robustness/history"
)

// oracle computes the routes of an object with given backends. It compiles each object alone and from scratch.
type oracle struct {
	all    *compile.Compiler // for everything
	alone  *compile.Compiler // for one object
	fixed  []line            // from the options alone, sorted
	known  map[string]*routeSet
	shared map[string]map[kube.Ref]bool // ids with the objects that ever want them
	sole   map[string]kube.Ref          // ids in shared that one object wants
	// requests are what an object answers, by the number of its state.
	requests map[int]map[string]bool
}

// routeSet is the compiled form of a combination, sorted by id.
type routeSet struct {
	lines  []line
	split  bool   // the fields below are set
	mine   []line // ids that no other object ever wants
	shared []line // the others
}

// line is one route of a table.
type line struct{ id, text string }

// head returns the text without its backend, which follows the last arrow.
func head(text string) string {
	i := strings.LastIndex(text, "-> ")
	if i < 0 {
		return text
	}
	return text[:i]
}

func newOracle(o history.Options) *oracle {
	// The programs log at level debug, and then health checks are in the access log.
	options := rules.Options{
		EndpointSlices: o.EndpointSlices, Healthcheck: o.Healthcheck, HealthcheckAccessLog: o.Healthcheck, HTTPSRedirect: o.HTTPSRedirect,
	}
	r := &oracle{
		known: make(map[string]*routeSet), shared: make(map[string]map[kube.Ref]bool), requests: make(map[int]map[string]bool),
	}
	alone := options
	alone.Healthcheck = false // they belong to no object, and would be created for each
	r.all, r.alone = newCompiler(options), newCompiler(alone)
	r.fixed = compiled(r.all, &kube.Snapshot{}, "")
	return r
}

func newCompiler(o rules.Options) *compile.Compiler {
	c, err := compile.New(o)
	if err != nil {
		panic(fmt.Sprintf("options without anything to parse: %v", err))
	}
	return c
}

// compiled returns the lines of a snapshot, sorted by id. It changes the snapshot, which belongs to the caller. A new value of
// default filters, although there are none, makes the compiler drop its cached state.
func compiled(c *compile.Compiler, s *kube.Snapshot, zone string) []line {
	s.DefaultFilters = &kube.DefaultFilters{}
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

// combination is a state of an owner with a state of each object that it depends on.
type combination struct {
	owner    *state
	backends []*state
}

// nobodys is the result for an object that does not exist or cannot be decoded.
var nobodys = &routeSet{split: true}

// routes returns the lines of an owner, without those of the options.
func (r *oracle) routes(c combination, zone string) *routeSet {
	if c.owner.object == nil {
		return nobodys
	}
	var space [64]byte
	key := binary.AppendUvarint(space[:0], uint64(c.owner.number))
	for _, b := range c.backends {
		key = binary.AppendUvarint(key, uint64(b.number))
	}
	key = append(key, zone...)
	if known, ok := r.known[string(key)]; ok {
		return known
	}
	s := &kube.Snapshot{}
	addTo(s, c.owner.object)
	for _, b := range c.backends {
		addTo(s, b.object)
	}
	set := &routeSet{lines: slices.DeleteFunc(compiled(r.alone, s, zone), func(l line) bool {
		_, fixed := slices.BinarySearchFunc(r.fixed, l.id, byID)
		return fixed
	})}
	r.known[string(key)] = set
	return set
}

// parted is routes after all claims: it separates the lines with the owner's own ids from those that others want, too.
func (r *oracle) parted(c combination, zone string) *routeSet {
	set := r.routes(c, zone)
	if !set.split {
		set.split = true
		for _, l := range set.lines {
			if r.isShared(l.id) {
				set.shared = append(set.shared, l)
			} else {
				set.mine = append(set.mine, l)
			}
		}
	}
	return set
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

// claim records which ids the states of an epoch's owners want: ids that several objects want may belong to any of them.
func (r *oracle) claim(e *epoch) {
	for _, t := range e.owners {
		for _, s := range t.states {
			if s.object == nil {
				continue
			}
			full := e.full(t, s)
			empty := combination{s, slices.DeleteFunc(slices.Clone(full.backends), func(b *state) bool { return !isService(b.object) })}
			for _, l := range slices.Concat(r.routes(full, "").lines, r.routes(empty, "").lines) { // without endpoints some have other routes
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

// full returns a state of an owner with the last existing state of each of its dependencies: with these it has all its ids.
func (e *epoch) full(t *thing, s *state) combination {
	c := combination{owner: s}
	for _, name := range servicesOf(s.object) {
		for _, dep := range e.services[kube.ServiceKeyOf(t.ref.Namespace, name)] {
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

// claimed ends the claims.
func (r *oracle) claimed() {
	r.sole = make(map[string]kube.Ref, len(r.shared))
	for id, refs := range r.shared {
		if len(refs) == 1 {
			for ref := range refs {
				r.sole[id] = ref
			}
		}
	}
}

func (r *oracle) isShared(id string) bool { return len(r.shared[id]) > 1 }

// maxCombinations limits the combinations tried for an object that changed much in a window. Above it any routes are accepted.
const maxCombinations = 48

// combinations returns the combinations of an owner and its backends that may have been seen together: the owner within [intent,
// hi], the backends within [backends, hi]. ok is false if there are too many.
func (e *epoch) combinations(t *thing, w window) ([]combination, bool) {
	var all []combination
	for _, owner := range t.between(w.intent, max(w.hi, w.intentHi)) {
		if owner.object == nil {
			all = append(all, combination{owner: owner})
			continue
		}
		own := []combination{{owner: owner}}
		for _, name := range servicesOf(owner.object) {
			for _, dep := range e.services[kube.ServiceKeyOf(t.ref.Namespace, name)] {
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

// whole compiles the table of all objects at the end of an epoch from scratch.
func (r *oracle) whole(e *epoch, zone string) []line { return r.wholeAt(e, math.MaxUint64, zone) }

// at returns the text of the table of all objects at a revision.
func (r *oracle) at(e *epoch, revision uint64) string {
	var b strings.Builder
	for i, l := range r.wholeAt(e, revision, "") {
		if i > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(l.text)
	}
	return b.String()
}

func (r *oracle) wholeAt(e *epoch, revision uint64, zone string) []line {
	s := &kube.Snapshot{}
	for _, t := range sortedThings(e) {
		if o := t.at(revision).object; o != nil {
			addTo(s, o)
		}
	}
	return compiled(r.all, s, zone)
}

func sortedThings(e *epoch) []*thing {
	all := make([]*thing, 0, len(e.things))
	for _, t := range e.things {
		all = append(all, t)
	}
	slices.SortFunc(all, func(a, b *thing) int { return a.ref.Compare(b.ref) })
	return all
}

// parse parses a table's text line by line. The error is about the overall form: ids must be sorted and distinct.
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

// readable reports whether a line can be parsed separately.
func readable(text string) error {
	_, err := eskip.Parse(text)
	return err
}
