// Package kube defines the result of one complete read of a cluster: slim, immutable objects with only the fields that the
// compiler reads, and the snapshot that contains them. It uses no network, log or clock.
//
// A source that reads the same bytes of an object again returns the same pointer. Equal pointers therefore prove that nothing
// changed; unequal ones prove nothing. Caches of earlier work use the pointer as key.
//
// [DecodeJSON] decodes one object and reports its errors ([*DecodeError]). As in encoding/json, field names match regardless of
// case, and unknown fields are ignored.
//
// Other modules should not import it: it may change with every release.
package kube

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"
)

// Kind is the kind of an object as the API spells it, for example "Ingress".
type Kind string

// The kinds that a snapshot can hold.
const (
	KindIngress       Kind = "Ingress"
	KindRouteGroup    Kind = "RouteGroup"
	KindService       Kind = "Service"
	KindNamespace     Kind = "Namespace"
	KindEndpoints     Kind = "Endpoints"
	KindEndpointSlice Kind = "EndpointSlice"
)

var apiVersions = map[Kind]string{
	KindIngress: "networking.k8s.io/v1", KindRouteGroup: "zalando.org/v1", KindEndpointSlice: "discovery.k8s.io/v1",
	KindService: "v1", KindEndpoints: "v1", KindNamespace: "v1",
}

// APIVersion returns the API version in which sources read the kind, or "" for a kind that none reads.
func (k Kind) APIVersion() string { return apiVersions[k] }

// Ref identifies an object. The zero Ref owns what no object requested, such as the health-check routes.
type Ref struct {
	Kind      Kind   `json:"kind,omitempty"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`
}

// String returns "RouteGroup shop/cart". It omits a missing namespace; an object without a name is "(unnamed)".
func (r Ref) String() string {
	if r == (Ref{}) {
		return "(generated)"
	}
	name := r.Name
	if name == "" {
		name = "(unnamed)"
	}
	if r.Namespace != "" {
		name = r.Namespace + "/" + name
	}
	return string(r.Kind) + " " + name
}

// Compare orders by kind, namespace and name, bytewise.
func (r Ref) Compare(o Ref) int {
	return cmp.Or(
		strings.Compare(string(r.Kind), string(o.Kind)),
		strings.Compare(r.Namespace, o.Namespace),
		strings.Compare(r.Name, o.Name),
	)
}

// Revision is a Kubernetes resourceVersion as an integer. Revisions of one cluster are ordered; 0 means none, for a source
// without revisions, such as a folder of manifests.
type Revision uint64

// Object is any of the object types of this package; all are used by pointer and never change once decoded.
type Object interface {
	// Ref returns the namespace and name as they were read; both may be empty.
	Ref() Ref
}

// Meta is the metadata that is kept of Ingresses and RouteGroups.
type Meta struct {
	Namespace   string
	Name        string
	Annotations Pairs // without the last-applied annotation
	Labels      Pairs
	// Created is the time of creation in seconds since 1970, or 0 if unknown.
	Created int64
	// Changed is the last change and its field manager: "2026-11-22T10:00:00Z kubectl-apply", without subresources.
	Changed string
}

// LastChange formats the newest of the managed fields for Meta.Changed. Names of managers come from clients and are truncated.
func LastChange(fields iter.Seq2[time.Time, string]) string {
	var at time.Time
	var by string
	for t, manager := range fields {
		if t.After(at) {
			at, by = t, manager
		}
	}
	if at.IsZero() {
		return ""
	}
	const longest = 64
	if len(by) > longest {
		by = strings.ToValidUTF8(by[:longest], "") + "…"
	}
	return at.UTC().Format(time.RFC3339) + " " + by
}

// Nulls are the places in the lists of an object that contained a null, which counts as absent: "spec.rules[0]".
type Nulls []string

// NamespaceOrDefault returns ns, or "default" for the empty namespace, for lookups of Services and Endpoints.
func NamespaceOrDefault(ns string) string {
	if ns == "" {
		return "default"
	}
	return ns
}

// BadObject is an item of a list that could not be decoded: a problem of that object only.
type BadObject struct {
	Ref Ref
	Err error
}

// Intent is the part of a [Snapshot] that teams write: the objects that request routes. It is immutable.
type Intent struct {
	Ingresses   []*Ingress
	RouteGroups []*RouteGroup

	// DefaultFilters are those of services; nil if no folder is configured. The pointer changes only when a text does.
	DefaultFilters *DefaultFilters
}

// Backends is the part of a [Snapshot] with the current destinations of traffic. It is immutable.
type Backends struct {
	Services []*Service

	// Endpoints and EndpointSlices: the source fills the requested one, or both.
	Endpoints      []*Endpoints
	EndpointSlices []*EndpointSlice
}

// Of returns the objects of some services.
func (b *Backends) Of(takes func(ServiceKey) bool) *Backends {
	return &Backends{
		Services:  objectsOf(b.Services, takes),
		Endpoints: objectsOf(b.Endpoints, takes), EndpointSlices: objectsOf(b.EndpointSlices, takes),
	}
}

func objectsOf[T interface{ ServiceKey() ServiceKey }](list []T, takes func(ServiceKey) bool) (some []T) {
	for _, o := range list {
		if takes(o.ServiceKey()) {
			some = append(some, o)
		}
	}
	return some
}

// Snapshot is every object of one complete read, in the order of the lists. It is immutable.
type Snapshot struct {
	// Revision is the revision up to which the snapshot is complete: the lowest of its lists, 0 if the source has none.
	Revision Revision

	// Newest is the highest revision of the lists, or 0: the snapshot contains nothing newer. The list of a kind without writes
	// can keep the revision of its last write, so Revision stays behind while other kinds change; Newest grows with every
	// change.
	Newest Revision

	Intent
	Backends

	// Namespaces are the namespaces, if their annotations are needed.
	Namespaces []*Namespace

	// Bad are the objects that could not be decoded, in the order of reading.
	Bad []BadObject
}

// Add appends an object to the list of its kind, for a source that builds a snapshot.
func (s *Snapshot) Add(o Object) {
	switch o := o.(type) {
	case *Ingress:
		s.Ingresses = append(s.Ingresses, o)
	case *RouteGroup:
		s.RouteGroups = append(s.RouteGroups, o)
	case *Service:
		s.Services = append(s.Services, o)
	case *Namespace:
		s.Namespaces = append(s.Namespaces, o)
	case *Endpoints:
		s.Endpoints = append(s.Endpoints, o)
	case *EndpointSlice:
		s.EndpointSlices = append(s.EndpointSlices, o)
	}
}

// DefaultFilters is the content of a folder of default filter files, or why the folder could not be read.
type DefaultFilters struct {
	Texts map[ServiceKey]string
	Err   error `json:"-"`
}

// ServiceKey names a service.
type ServiceKey struct{ Namespace, Name string }

// MarshalText returns "namespace/name", and UnmarshalText reads it, for keys of JSON objects.
func (k ServiceKey) MarshalText() ([]byte, error) { return []byte(k.Namespace + "/" + k.Name), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (k *ServiceKey) UnmarshalText(text []byte) error {
	namespace, name, ok := strings.Cut(string(text), "/")
	if !ok {
		return fmt.Errorf("%q must be namespace/name", text)
	}
	k.Namespace, k.Name = namespace, name
	return nil
}

// ServiceKeyOf returns the key of a Service or Endpoints: an empty namespace counts as "default".
func ServiceKeyOf(ns, name string) ServiceKey {
	return ServiceKey{Namespace: NamespaceOrDefault(ns), Name: name}
}

// Compare orders keys by namespace and name.
func (k ServiceKey) Compare(o ServiceKey) int {
	return cmp.Or(strings.Compare(k.Namespace, o.Namespace), strings.Compare(k.Name, o.Name))
}

// SameObjects reports whether both hold identical objects in the same order. It compares pointers.
func (s *Snapshot) SameObjects(o *Snapshot) bool {
	if s == o || s == nil || o == nil {
		return s == o
	}
	return slices.Equal(s.Ingresses, o.Ingresses) && slices.Equal(s.RouteGroups, o.RouteGroups) && s.DefaultFilters == o.DefaultFilters &&
		slices.Equal(s.Services, o.Services) && slices.Equal(s.Endpoints, o.Endpoints) &&
		slices.Equal(s.EndpointSlices, o.EndpointSlices) && slices.Equal(s.Namespaces, o.Namespaces) &&
		slices.EqualFunc(s.Bad, o.Bad, func(a, b BadObject) bool { return a.Ref == b.Ref && a.Err.Error() == b.Err.Error() })
}

// Selection selects the objects that a source reads.
type Selection struct {
	// Namespace is the only namespace to read; empty means all.
	Namespace string
	// Selectors are label selectors by kind: equality, or existence if the value is empty. All of a kind must match.
	Selectors map[Kind]map[string]string
}

// Takes reports whether an object is read. label returns one of its labels.
func (s *Selection) Takes(kind Kind, namespace string, label func(string) (string, bool)) bool {
	if s.Namespace != "" && NamespaceOrDefault(namespace) != s.Namespace {
		return false
	}
	for key, want := range s.Selectors[kind] {
		if got, ok := label(key); !ok || want != "" && got != want {
			return false
		}
	}
	return true
}

// ReadOptions are options of a read.
type ReadOptions struct {
	// Consistent requests a read, without caches, that is not older than any write acknowledged before it began.
	Consistent bool
}

// ReadError reports which request made a read incomplete. The previous table stays in use.
type ReadError struct {
	// Verb and Resource as in RBAC ("list", "routegroups.zalando.org"); File and similar for manifests.
	Verb     string
	Resource string
	Err      error
}

func (e *ReadError) Error() string { return fmt.Sprintf("%s %s: %v", e.Verb, e.Resource, e.Err) }

// Unwrap returns the cause.
func (e *ReadError) Unwrap() error { return e.Err }

// Pairs are the annotations or the labels of an object, sorted by key: a fraction of the memory of a map.
type Pairs []Pair

// Pair is one annotation or label.
type Pair struct {
	Key   string
	Value string
}

// PairsOf returns the pairs of a map.
func PairsOf(m map[string]string) Pairs {
	if len(m) == 0 {
		return nil
	}
	p := make(Pairs, 0, len(m))
	for _, key := range slices.Sorted(maps.Keys(m)) {
		p = append(p, Pair{key, m[key]})
	}
	return p
}

// Get returns the value of a key, or "" without it.
func (p Pairs) Get(key string) string {
	value, _ := p.Lookup(key)
	return value
}

// Lookup returns the value of a key, and whether the key exists.
func (p Pairs) Lookup(key string) (value string, ok bool) {
	i, ok := slices.BinarySearchFunc(p, key, func(pair Pair, key string) int { return strings.Compare(pair.Key, key) })
	if !ok {
		return "", false
	}
	return p[i].Value, true
}
