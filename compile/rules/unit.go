package rules

import (
	"fmt"
	"hash/maphash"
	"iter"
	"strings"

	"github.com/routesrv/routesrv/eskip"
	"github.com/routesrv/routesrv/table"
)

// Unit is the compiled form of one object, of the catch-all of a host, or of the routes that only depend on the options.
type Unit struct {
	set     *Set // while the unit is compiled
	lookups lookups
	findings

	// packed are all printed routes. printing are the routes of a unit being compiled.
	packed   table.Packed
	printing []*table.Route

	// Refused means that the object has no routes because of its class, or because validation refused it.
	Refused bool
	// Global are the routes outside of host groups: of default backends, and all routes of a RouteGroup.
	Global []Route
	// Companions are the deprecated east-west companions of default backends, which come after all host groups.
	Companions []Route
	// Groups are the routes by host, in the order of appearance of the hosts.
	Groups []HostGroup
}

// Problems returns the problems of the object in the order of detection. The slice must not be changed.
func (u *Unit) Problems() []Problem { return u.list }

// Services returns the services that the object looked up, including missing ones, in the order of the lookups.
func (u *Unit) Services() []*Service { return u.lookups.services }

// HostGroup is the contribution of one object to a host.
type HostGroup struct {
	Host   string
	Routes []Route
	// FirstHosts are the host expressions of the first route; the catch-all of the host uses them.
	FirstHosts []string
	// CatchAll means that one of the routes counts as a catch-all.
	CatchAll bool
	// Redirect is what the object asks for the catch-all of the host.
	Redirect Redirect
}

// Redirect is what the objects of a host request for its catch-all: a redirect with a code (0: no request), or none.
type Redirect struct {
	Code     int
	Disabled bool
}

// Route is a finished route of a unit. It competes for its id with the routes of all units; a winner comes with its clones.
type Route struct {
	// ID is a hash of the id that the route wants, and Match of what it matches, 0 for a companion.
	ID, Match uint64
	more      *more // nil for most routes
	text      int32 // index among the texts of the unit; leftOut if it has none, but it still reserves its id
}

const leftOut = -1

type more struct {
	id string
	// before is the text before edit rules, with which the reference compares routes of one id.
	before string
	clones []int32 // indexes of texts with distinct ids
}

// LeftOut reports whether the route is not in the table even if it has its id: a reader would fail on it. Its clones may be.
func (r *Route) LeftOut() bool { return r.text == leftOut }

type role bool

const (
	mainRoute role = true  // an object requested it
	companion role = false // it accompanies another route or a host
)

func (u *Unit) addText(r *table.Route) int32 {
	u.printing = append(u.printing, r)
	return int32(len(u.printing) - 1)
}

func (u *Unit) done() *Unit {
	u.packed, u.printing = table.Pack(u.printing), nil
	u.set, u.lookups.view, u.seen = nil, nil, nil // the unit outlives them
	return u
}

// Routes returns all printed routes of the unit, including routes left out of the table because another object has their id.
func (u *Unit) Routes() []*table.Route { return u.packed.Routes() }

func (u *Unit) group(host string) *HostGroup {
	for i := range u.Groups {
		if u.Groups[i].Host == host {
			return &u.Groups[i]
		}
	}
	u.Groups = append(u.Groups, HostGroup{Host: host})
	return &u.Groups[len(u.Groups)-1]
}

// Texts unpacks the routes of units. It remembers the last two, because problems are mostly about the routes of two objects.
type Texts struct {
	units  [2]*Unit
	routes [2][]*table.Route
	next   int
}

func (t *Texts) of(u *Unit) []*table.Route {
	for i, known := range t.units {
		if known == u {
			t.next = 1 - i // the other one was used before
			return t.routes[i]
		}
	}
	routes := u.Routes()
	t.units[t.next], t.routes[t.next] = u, routes
	t.next = 1 - t.next
	return routes
}

// Route returns the printed form of a route of a unit; nil for a route that was left out.
func (t *Texts) Route(u *Unit, r *Route) *table.Route {
	if r.LeftOut() {
		return nil
	}
	return t.of(u)[r.text]
}

// Rows yields what the table has of a route that has its id: the route, unless it was left out, and its clones.
func (t *Texts) Rows(u *Unit, r *Route) iter.Seq[*table.Route] {
	return func(yield func(*table.Route) bool) {
		if route := t.Route(u, r); route != nil && !yield(route) || r.more == nil {
			return
		}
		for _, clone := range r.more.clones {
			if !yield(t.of(u)[clone]) {
				return
			}
		}
	}
}

// ID returns the id that a route wants.
func (t *Texts) ID(u *Unit, r *Route) string {
	if r.more != nil {
		return r.more.id
	}
	return t.of(u)[r.text].ID
}

// Expression returns the text that is compared with other routes of the id.
func (t *Texts) Expression(u *Unit, r *Route) string {
	if r.more != nil {
		return r.more.before
	}
	text := t.of(u)[r.text]
	return strings.TrimSuffix(strings.TrimPrefix(text.Text, text.ID+": "), ";")
}

// Same reports whether two routes of one id are the same. Only the text counts.
func (t *Texts) Same(u *Unit, r *Route, v *Unit, s *Route) bool {
	return (r.more == nil) == (s.more == nil) && t.Expression(u, r) == t.Expression(v, s)
}

// seed makes hashes differ between processes. They are only compared with each other.
var seed = maphash.MakeSeed()

// matchOf returns a hash of the predicates of a route as a multiset, whatever fields they are in. It is never 0.
func matchOf(r *eskip.Route) uint64 {
	var sum uint64
	add := func(name string, args ...any) { sum += predicateHash(name, args) }
	if r.Path != "" {
		add("Path", r.Path)
	}
	for _, h := range r.HostRegexps {
		add("Host", h)
	}
	for _, p := range r.PathRegexps {
		add("PathRegexp", p)
	}
	if r.Method != "" {
		add("Method", r.Method)
	}
	for k, v := range r.Headers {
		add("Header", k, v)
	}
	for k, vs := range r.HeaderRegexps {
		for _, v := range vs {
			add("HeaderRegexp", k, v)
		}
	}
	for _, p := range r.Predicates {
		if p.Name != "Any" && p.Name != "*" {
			add(p.Name, p.Args...)
		}
	}
	return sum | 1
}

func predicateHash(name string, args []any) uint64 {
	var h maphash.Hash
	h.SetSeed(seed)
	maphash.WriteComparable(&h, name)
	for _, a := range args {
		switch a.(type) {
		case string, float64:
			maphash.WriteComparable(&h, a)
		default: // of programs: it may have no hash
			h.WriteString(fmt.Sprint(a))
		}
	}
	return h.Sum64()
}

// HashID returns the hash of an id, as in [Route]. Hashes differ between processes.
func HashID(id string) uint64 { return maphash.String(seed, id) }
