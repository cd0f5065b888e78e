package rules

import (
	"time"

	"github.com/routesrv/routesrv/table"
)

// Unit is the compiled form of one object. It depends only on the options, the object and its lookups, so it is kept until one of
// these changes. The catch-all of a host is a unit as well, and so are the routes that only depend on the options.
type Unit struct {
	lookups lookups
	findings

	// texts are all printed routes, packed, because those of one object have most of their text in common; nil for none. printing are
	// those of a unit that is being compiled.
	texts    *table.Block
	printing []*table.Route

	// Refused means that the object has no routes because of its class, or because validation refused it.
	Refused bool
	// Global are the routes outside of host groups: of default backends, and all routes of a RouteGroup.
	Global []Route
	// Companions are the deprecated east-west companions of default backends, which come after all host groups.
	Companions []Route
	// Groups are the routes by host, in the order of appearance of the hosts.
	Groups []HostGroup
	// Certificates are the certificates accepted for hosts, in order.
	Certificates []Certificate
}

// Problems returns what was found while the object was compiled, in the order of detection. The slice must not be changed.
func (u *Unit) Problems() []Problem { return u.list }

// Services returns what the object looked up of services, including missing ones, in the order of the lookups.
func (u *Unit) Services() []Service { return u.lookups.services }

// Holds reports whether the object compiles to the same unit with another view.
func (u *Unit) Holds(v *View) bool { return !u.lookups.volatile && u.lookups.hold(v) }

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

// Redirect says what the objects of a host ask for its catch-all: a redirect with a code, 0 for none, or that there be none.
type Redirect struct {
	Code     int
	Disabled bool
}

// Certificate is a certificate that was accepted for a host.
type Certificate struct {
	Host      string
	NotBefore time.Time
}

// Route is a finished route of a unit. It competes for its id with the routes of all units; a winner comes with its clones.
type Route struct {
	// ID is a hash of the id that the route wants, and Match of what it matches: see hash.go. A companion of another route has no match.
	ID, Match uint64
	more      *more // nil for most routes
	text      int32 // index among the texts of the unit; leftOut if it has none, but it still reserves its id
}

const leftOut = -1

// more holds data that only few routes have: those that were left out, edited or cloned.
type more struct {
	id string
	// before is the text of the route before edit rules, with which the reference compares routes of one id.
	before string
	clones []int32 // indexes of texts with distinct ids
}

// LeftOut reports whether the route is not in the table even if it has its id: a reader of the table would fail on it.
func (r *Route) LeftOut() bool { return r.text == leftOut }

// role says why a route exists.
type role bool

const (
	mainRoute role = true  // an object requested it
	companion role = false // it accompanies another route or a host
)

// addText appends a printed route to the texts of a unit that is being compiled, and returns its index.
func (u *Unit) addText(r *table.Route) int32 {
	u.printing = append(u.printing, r)
	return int32(len(u.printing) - 1)
}

// done ends the compilation of a unit.
func (u *Unit) done() *Unit {
	u.texts, u.printing = table.Pack(u.printing), nil
	u.lookups.view, u.seen = nil, nil // the unit outlives them
	return u
}

// group returns the group of the host and creates it on first use.
func (u *Unit) group(host string) *HostGroup {
	for i := range u.Groups {
		if u.Groups[i].Host == host {
			return &u.Groups[i]
		}
	}
	u.Groups = append(u.Groups, HostGroup{Host: host})
	return &u.Groups[len(u.Groups)-1]
}
