package kube

// RouteGroup is a zalando.org/v1 RouteGroup. Backend types and algorithms are kept as written, so that an unknown one is a matter
// of validation, not of decoding.
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
	TLS             []TLS
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
