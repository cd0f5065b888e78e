package compile

import (
	"cmp"
	"iter"
	"slices"
	"strings"

	"github.com/routesrv/routesrv/compile/rules"
	"github.com/routesrv/routesrv/kube"
)

// object is an Ingress or a RouteGroup of a build with its unit.
type object struct {
	kube.Routed
	unit *rules.Unit
}

// objects are the objects of a build, sorted by kind, namespace and name.
type objects []object

func compareObjects(a, b object) int { return a.Ref().Compare(b.Ref()) }

// gather returns the objects of a snapshot, each once, without their units.
func gather(s *kube.Snapshot) objects {
	all := make(objects, 0, len(s.Ingresses)+len(s.RouteGroups))
	for o := range s.Objects() {
		all = append(all, object{Routed: o})
	}
	if !slices.IsSortedFunc(all, compareObjects) {
		slices.SortStableFunc(all, compareObjects)
	}
	seen := make(map[kube.Object]bool, len(all))
	return slices.DeleteFunc(all, func(o object) bool {
		twice := seen[o.Routed]
		seen[o.Routed] = true
		return twice
	})
}

// search returns the index of the first object with a name, or the index at which it would be inserted.
func (k objects) search(name kube.Ref) (at int, found bool) {
	return slices.BinarySearchFunc(k, name, func(o object, name kube.Ref) int { return o.Ref().Compare(name) })
}

// memo caches the units of the objects of a build, which makes later builds cheaper than the first one.
type memo map[kube.Object]*rules.Unit

// compile sets the unit of each object: the unit of an earlier build if the object's lookups give the same results, otherwise a
// new one.
func (k objects) compile(set *rules.Set, v *rules.View, recent []memo) {
	for i := range k { // in order, because of what objects resolve for others
		for _, known := range recent {
			if u := known[k[i].Routed]; u != nil && u.Holds(v) {
				k[i].unit = u
				break
			}
		}
		if k[i].unit == nil {
			k[i].unit = set.Compile(k[i].Routed, v)
		}
	}
}

func (k objects) memo() memo {
	units := make(memo, len(k))
	for i := range k {
		units[k[i].Routed] = k[i].unit
	}
	return units
}

// section is a run of routes that are adjacent in the order of the reference.
type section struct {
	rank   rank
	host   string // for fromHost
	unit   *rules.Unit
	routes []rules.Route // some or all of the unit
	// object is the object named in problems. For the catch-all of a host it is the oldest object with the host; nil for the
	// routes of the options.
	object   *object
	catchAll bool // of the host; no object has requested it
}

type rank uint8

const (
	fromIngress    rank = iota // routes outside of host groups, ordered by object
	fromHost                   // ordered by host, where the reference's order of hosts is random, then by object; the catch-all is last
	fromCompanions             // ordered by object
	fromRouteGroup             // ordered by object
	fromOptions
)

// compare orders sections as the reference does. If creation times are equal or missing, this order decides which route gets an
// id that several routes claim.
func (s *section) compare(o *section) int {
	behind := func(s *section) int {
		if s.catchAll {
			return 1
		}
		return 0
	}
	return cmp.Or(cmp.Compare(s.rank, o.rank), strings.Compare(s.host, o.host), cmp.Compare(behind(s), behind(o)), s.owner().Compare(o.owner()))
}

// sections appends the sections of an object.
func (o *object) sections(all []section) []section {
	u := o.unit
	add := func(r rank, host string, routes []rules.Route) {
		if len(routes) > 0 {
			all = append(all, section{rank: r, host: host, unit: u, routes: routes, object: o})
		}
	}
	if _, ok := o.Routed.(*kube.RouteGroup); ok {
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

// groups yields the hosts of an object, which may be nil.
func (o *object) groups() iter.Seq2[string, *rules.HostGroup] {
	return func(yield func(string, *rules.HostGroup) bool) {
		if o == nil {
			return
		}
		for i := range o.unit.Groups {
			if g := &o.unit.Groups[i]; !yield(g.Host, g) {
				return
			}
		}
	}
}

// asker returns the object that requested the routes; nil for a catch-all, and for the routes of the options.
func (s *section) asker() *object {
	if s.catchAll {
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

// created returns when the owner was created, or 0 if unknown.
func (s *section) created() int64 {
	if s.object == nil {
		return 0
	}
	return s.object.Metadata().Created
}
