package kube

import (
	"iter"
	"slices"
)

// Routed is an object that requests routes: an [*Ingress] or a [*RouteGroup].
type Routed interface {
	Object
	// Metadata returns the metadata of the object. It must not be changed.
	Metadata() *Meta
	// Hosts returns the distinct hosts of the object, in their order.
	Hosts() []string
	// WithMeta returns the object with other metadata.
	WithMeta(m Meta) Routed
}

// Objects yields the Ingresses, then the RouteGroups.
func (i *Intent) Objects() iter.Seq[Routed] {
	return func(yield func(Routed) bool) {
		for _, o := range i.Ingresses {
			if !yield(o) {
				return
			}
		}
		for _, o := range i.RouteGroups {
			if !yield(o) {
				return
			}
		}
	}
}

// Metadata implements [Routed].
func (m *Meta) Metadata() *Meta { return m }

// Hosts implements [Routed].
func (i *Ingress) Hosts() (hosts []string) {
	if i.Spec != nil {
		for _, r := range i.Spec.Rules {
			hosts = append(hosts, r.Host)
		}
	}
	return distinct(hosts)
}

// Hosts implements [Routed].
func (r *RouteGroup) Hosts() []string {
	if r.Spec == nil {
		return nil
	}
	return distinct(slices.Clone(r.Spec.Hosts))
}

// distinct removes repeated and empty texts from a list, in place.
func distinct(list []string) []string {
	seen := map[string]bool{"": true}
	kept := list[:0]
	for _, s := range list {
		if !seen[s] {
			seen[s] = true
			kept = append(kept, s)
		}
	}
	return kept
}

// WithMeta implements [Routed].
func (i *Ingress) WithMeta(m Meta) Routed { return &Ingress{m, i.Spec, i.Nulls} }

// WithMeta implements [Routed].
func (r *RouteGroup) WithMeta(m Meta) Routed { return &RouteGroup{m, r.Spec, r.Nulls} }

// Version is an object at some time, in a form with JSON: one of the fields is set, or none for an object that did not exist.
type Version struct {
	Ingress    *Ingress    `json:"ingress,omitempty"`
	RouteGroup *RouteGroup `json:"routegroup,omitempty"`
}

// VersionOf returns the version of an object, which may be nil.
func VersionOf(o Object) (v Version) {
	v.Ingress, _ = o.(*Ingress)
	v.RouteGroup, _ = o.(*RouteGroup)
	return v
}

// Object returns the object; nil if it did not exist.
func (v *Version) Object() Routed {
	switch {
	case v.Ingress != nil:
		return v.Ingress
	case v.RouteGroup != nil:
		return v.RouteGroup
	}
	return nil
}
