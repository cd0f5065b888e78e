package compile

import (
	"slices"

	"github.com/routesrv/routesrv/compile/rules"
	"github.com/routesrv/routesrv/kube"
)

// object is an Ingress or a RouteGroup of a build with its unit.
type object struct {
	kube.Object
	unit *rules.Unit
}

// meta returns the metadata of an Ingress or a RouteGroup; nil for another object.
func (o *object) meta() *kube.Meta {
	switch of := o.Object.(type) {
	case *kube.Ingress:
		return &of.Meta
	case *kube.RouteGroup:
		return &of.Meta
	}
	return nil
}

// objects are those of a build, by kind, namespace and name.
type objects []object

func compareObjects(a, b object) int { return a.Ref().Compare(b.Ref()) }

// gather returns the objects of a snapshot, each once, without their units.
func gather(s *kube.Snapshot) objects {
	all := make(objects, 0, len(s.Ingresses)+len(s.RouteGroups))
	for _, o := range s.Ingresses {
		all = append(all, object{Object: o})
	}
	for _, o := range s.RouteGroups {
		all = append(all, object{Object: o})
	}
	if !slices.IsSortedFunc(all, compareObjects) {
		slices.SortStableFunc(all, compareObjects)
	}
	seen := make(map[kube.Object]bool, len(all))
	return slices.DeleteFunc(all, func(o object) bool {
		twice := seen[o.Object]
		seen[o.Object] = true
		return twice
	})
}

// search returns the index of the first object with a name, or where one would be inserted.
func (k objects) search(name kube.Ref) (at int, found bool) {
	return slices.BinarySearchFunc(k, name, func(o object, name kube.Ref) int { return o.Ref().Compare(name) })
}

// memo has the units of the objects of a build. It is all that makes the next builds cheaper than the first one.
type memo map[kube.Object]*rules.Unit

// compile gives each object its unit: that of a build before, if the object looks up the same, or a new one.
func (k objects) compile(set *rules.Set, v *rules.View, recent []memo) {
	for i := range k { // in order, because of what objects resolve for others
		for _, known := range recent {
			if u := known[k[i].Object]; u != nil && u.Holds(v) {
				k[i].unit = u
				break
			}
		}
		if k[i].unit == nil {
			k[i].unit = set.Compile(k[i].Object, v)
		}
	}
}

func (k objects) memo() memo {
	units := make(memo, len(k))
	for i := range k {
		units[k[i].Object] = k[i].unit
	}
	return units
}
