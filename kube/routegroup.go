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

// gather moves the strings of a decoded object into one.
func (r *RouteGroup) gather(t *Texts) {
	t.reshare(&r.Namespace)
	t.move(&r.Name)
	t.move(&r.Changed)
	for _, pairs := range []Pairs{r.Annotations, r.Labels} {
		for i := range pairs {
			t.reshare(&pairs[i].Key)
			t.move(&pairs[i].Value)
		}
	}
	if r.Spec == nil {
		return
	}
	t.moveAll(r.Spec.Hosts)
	for i := range r.Spec.TLS {
		t.moveAll(r.Spec.TLS[i].Hosts)
		t.move(&r.Spec.TLS[i].SecretName)
	}
	for _, b := range r.Spec.Backends {
		if b == nil {
			continue
		}
		for _, s := range []*string{&b.Name, &b.Address, &b.ServiceName} {
			t.move(s)
		}
		t.reshare(&b.Type)
		t.reshare(&b.Algorithm)
		t.moveAll(b.Endpoints)
	}
	gatherReferences(t, r.Spec.DefaultBackends)
	for _, route := range r.Spec.Routes {
		if route == nil {
			continue
		}
		for _, s := range []*string{&route.Path, &route.PathSubtree, &route.PathRegexp} {
			t.move(s)
		}
		gatherReferences(t, route.Backends)
		for _, list := range [][]string{route.Filters, route.Predicates} {
			t.moveAll(list)
		}
		for i := range route.Methods {
			t.reshare(&route.Methods[i])
		}
	}
}

func gatherReferences(t *Texts, references []*BackendReference) {
	for _, b := range references {
		if b != nil {
			t.move(&b.BackendName)
		}
	}
}
