package kube

import (
	"iter"
	"strconv"
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
	return Distinct(hosts)
}

// Hosts implements [Routed].
func (r *RouteGroup) Hosts() []string {
	if r.Spec == nil {
		return nil
	}
	return Distinct(r.Spec.Hosts)
}

// Distinct returns the texts of a list, without repeated and empty ones.
func Distinct(list []string) (kept []string) {
	seen := map[string]bool{"": true}
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

// Version is an object at some time as JSON: one of the fields is set, or none for an object that did not exist.
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

// Ingress is a networking.k8s.io/v1 Ingress.
type Ingress struct {
	Meta
	Spec  *IngressSpec // nil when the object has none
	Nulls Nulls
}

// IngressSpec is the part of an Ingress' spec that is read.
type IngressSpec struct {
	IngressClassName string
	DefaultBackend   *IngressBackend
	Rules            []IngressRule
	Secrets          []string // of spec.tls
}

// IngressRule is one host. HTTP is false for a rule without an http section.
type IngressRule struct {
	Host  string
	HTTP  bool
	Paths []IngressPath
}

// IngressPath is one path of a rule. Backend is nil if the entry has none.
type IngressPath struct {
	Path     string
	PathType string // as written: "Exact", "Prefix", "ImplementationSpecific", or anything else
	Backend  *IngressBackend
}

// IngressBackend names a service and one of its ports, or else a resource.
type IngressBackend struct {
	Service    string
	PortName   string
	PortNumber int
	Resource   string // kind and name, for people: no resource is supported
}

// Port returns the port as text: the number if there is one, else the name.
func (b *IngressBackend) Port() string {
	if b.PortNumber != 0 {
		return strconv.Itoa(b.PortNumber)
	}
	return b.PortName
}

// Ref implements [Object].
func (i *Ingress) Ref() Ref { return Ref{KindIngress, i.Namespace, i.Name} }

// RouteGroup is a zalando.org/v1 RouteGroup. Backend types and algorithms are kept as written: validation checks them.
type RouteGroup struct {
	Meta
	Spec  *RouteGroupSpec // nil if the object has none
	Nulls Nulls
}

// RouteGroupSpec is the spec of a RouteGroup. A nil pointer in one of the lists stands for a null in the object.
type RouteGroupSpec struct {
	Hosts           []string
	Backends        []*RouteGroupBackend
	DefaultBackends []*BackendReference
	Routes          []*RouteSpec
	Secrets         []string // of spec.tls
}

// RouteGroupBackend is one entry of spec.backends.
type RouteGroupBackend struct {
	Name        string
	Type        string // as written; "" means service
	Address     string
	Algorithm   string // as written; "" means not set
	ServiceName string
	ServicePort int
	Endpoints   []string
}

// BackendReference references a backend by name, with a weight.
type BackendReference struct {
	BackendName string
	Weight      int
}

// RouteSpec is one entry of spec.routes.
type RouteSpec struct {
	Path        string
	PathSubtree string
	PathRegexp  string
	Backends    []*BackendReference
	Filters     []string
	Predicates  []string
	Methods     []string
}

// Ref implements [Object].
func (r *RouteGroup) Ref() Ref { return Ref{KindRouteGroup, r.Namespace, r.Name} }
