package compile

import (
	"cmp"
	"slices"
	"strings"

	"github.com/routesrv/routesrv/compile/rules"
	"github.com/routesrv/routesrv/kube"
)

// memo has the units of the objects of the last builds. It is all that makes a build cheaper than the first one.
type memo struct {
	rules             *rules.Set
	number            uint64 // of the current build
	objects           map[kube.Object]*object
	catchAll          map[string]*catchAll // by host
	ingresses, groups []*object            // of the last build, in the order of its snapshot
	fixed             *rules.Unit          // nil before the first build
	view              *rules.View          // of the last build; nil before the first one
}

func newMemo(set *rules.Set) *memo {
	return &memo{
		rules: set, objects: make(map[kube.Object]*object), catchAll: make(map[string]*catchAll),
	}
}

// object is an Ingress or a RouteGroup with its units.
type object struct {
	kube.Object
	meta    *kube.Meta
	refused *rules.Problem // why it is not compiled; nil if it is
	units   [2]*rules.Unit // one for each of two builds in turn that look up different backends
	used    [2]uint64
	listed  uint64 // the last build with the object
}

func compareMeta(a, b *kube.Meta) int {
	return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
}

// compiled is an object in a build.
type compiled struct {
	*object
	unit *rules.Unit
}

func compareObjects(a, b compiled) int { return compareMeta(a.meta, b.meta) }

// placed returns the number of a position. Odd numbers are between two positions, for an object that is only tried
// ([Compiler.Try]).
func placed(i int) int { return 2 * i }

// objects are the objects of one kind in a build.
type objects struct {
	sorted  []compiled // by namespace and name
	refused []*object  // in the order of the snapshot
}

// gather returns the objects of a snapshot, each once. last has all those of the last call, in the order of its snapshot.
func gather[T kube.Object](m *memo, snapshot []T, last *[]*object) objects {
	k := objects{sorted: make([]compiled, 0, len(snapshot))}
	all := make([]*object, len(snapshot))
	for i, o := range snapshot {
		var known *object
		if i < len(*last) && (*last)[i].Object == kube.Object(o) {
			known = (*last)[i] // nearly always, and cheaper than a map
		} else if known = m.objects[o]; known == nil {
			known = newObject(m.rules, o)
			m.objects[o] = known
		}
		if all[i] = known; known.listed == m.number {
			continue // listed again
		}
		known.listed = m.number
		if known.refused != nil {
			k.refused = append(k.refused, known)
		} else {
			k.sorted = append(k.sorted, compiled{object: known})
		}
	}
	*last = all
	if !slices.IsSortedFunc(k.sorted, compareObjects) {
		slices.SortStableFunc(k.sorted, compareObjects)
	}
	return k
}

func newObject(set *rules.Set, o kube.Object) *object {
	known := &object{Object: o, refused: set.Admit(o)}
	switch of := o.(type) {
	case *kube.Ingress:
		known.meta = &of.Meta
	case *kube.RouteGroup:
		known.meta = &of.Meta
	}
	return known
}

// unit returns the unit of an object at a place. It reuses one that would be the same.
func (m *memo) unit(o *object, v *rules.View, at int) *rules.Unit {
	is := -1
	for i, u := range o.units {
		if u != nil && u.Holds(v) {
			is = i
		}
	}
	if is < 0 {
		if is = 0; o.used[1] < o.used[0] {
			is = 1
		}
		o.units[is] = m.rules.Compile(o.Object, v, at)
	}
	if other := 1 - is; o.used[other]+remembered < m.number {
		o.units[other] = nil
	}
	o.used[is] = m.number
	return o.units[is]
}

// remembered is for how many builds a unit is kept that they do not use: a read of a cluster takes a few builds while objects are kept at
// earlier versions.
const remembered = 5

// tidy forgets the objects and catch-alls that the last builds do not have.
func (m *memo) tidy() {
	for key, o := range m.objects {
		if o.listed+remembered < m.number {
			delete(m.objects, key)
		}
	}
	for host, c := range m.catchAll {
		if c.used+remembered < m.number {
			delete(m.catchAll, host)
		}
	}
}
