package kube

import (
	"encoding/json"
	"fmt"
	"iter"
	"time"
)

// LastAppliedAnnotation is written by kubectl apply and often larger than the object; nothing here reads it.
const LastAppliedAnnotation = "kubectl.kubernetes.io/last-applied-configuration"

// DecodeError means that one object could not be decoded. Ref is what could be determined of its identity.
type DecodeError struct {
	Ref Ref
	Err error
}

func (e *DecodeError) Error() string { return fmt.Sprintf("decode %s: %v", e.Ref, e.Err) }

// Unwrap returns the cause.
func (e *DecodeError) Unwrap() error { return e.Err }

// DecodeJSON decodes one object, and keeps no reference to data. The error is a *DecodeError, also for an unknown kind.
func DecodeJSON(kind Kind, data []byte) (o Object, err error) {
	if decode := decoders[kind]; decode != nil {
		o, err = decode(data)
	} else {
		err = fmt.Errorf("kind %q is not read", kind)
	}
	if err != nil {
		return nil, &DecodeError{Ref: SalvageRef(kind, data), Err: err}
	}
	return o, nil
}

var decoders = map[Kind]func([]byte) (Object, error){
	KindIngress: decode[jsonIngress], KindRouteGroup: decode[jsonRouteGroup], KindService: decode[jsonService],
	KindEndpoints: decode[jsonEndpoints], KindEndpointSlice: decode[jsonEndpointSlice],
	KindNamespace: decode[jsonNamespace],
}

type slimmer interface{ slim() Object }

func decode[T slimmer](data []byte) (Object, error) {
	var v T
	if err := json.Unmarshal(data, &v); err != nil {
		return nil, err
	}
	return v.slim(), nil
}

// SalvageRef determines the object's identity from the text as far as possible, to name objects that cannot be decoded.
func SalvageRef(kind Kind, data []byte) Ref {
	ref := Ref{Kind: kind}
	var outer struct{ Metadata json.RawMessage }
	if json.Unmarshal(data, &outer) != nil {
		return ref
	}
	// Decode field by field: a namespace of a wrong type must not hide the name.
	var name struct{ Name string }
	var namespace struct{ Namespace string }
	if json.Unmarshal(outer.Metadata, &name) == nil {
		ref.Name = name.Name
	}
	if json.Unmarshal(outer.Metadata, &namespace) == nil {
		ref.Namespace = namespace.Namespace
	}
	return ref
}

type jsonMeta struct {
	Namespace         string            `json:"namespace"`
	Name              string            `json:"name"`
	Annotations       map[string]string `json:"annotations"`
	Labels            map[string]string `json:"labels"`
	CreationTimestamp time.Time         `json:"creationTimestamp"`
	ManagedFields     jsonManagedFields `json:"managedFields"`
}

// jsonManagedFields is the part of the managed fields that is read. Malformed fields count as missing: no route depends on them.
type jsonManagedFields []struct {
	Manager     string    `json:"manager"`
	Time        time.Time `json:"time"`
	Subresource string    `json:"subresource"`
}

func (m *jsonManagedFields) UnmarshalJSON(b []byte) error {
	type plain jsonManagedFields
	var fields plain
	if json.Unmarshal(b, &fields) == nil {
		*m = jsonManagedFields(fields)
	}
	return nil
}

func (m jsonManagedFields) all(yield func(time.Time, string) bool) {
	for _, f := range m {
		if f.Subresource == "" && !yield(f.Time, f.Manager) {
			return
		}
	}
}

func (m *jsonMeta) slim() Meta {
	if m == nil {
		return Meta{}
	}
	delete(m.Annotations, LastAppliedAnnotation)
	slim := Meta{
		Namespace: m.Namespace, Name: m.Name, Annotations: PairsOf(m.Annotations), Labels: PairsOf(m.Labels),
		Changed: LastChange(m.ManagedFields.all),
	}
	if !m.CreationTimestamp.IsZero() {
		slim.Created = m.CreationTimestamp.Unix()
	}
	return slim
}

func (m *jsonMeta) name() (namespace, name string) {
	if m == nil {
		return "", ""
	}
	return m.Namespace, m.Name
}

type jsonTLS struct {
	Hosts      []string `json:"hosts"`
	SecretName string   `json:"secretName"`
}

func secrets(in []*jsonTLS, nulls *Nulls) (names []string) {
	for _, t := range entries(nulls, "spec.tls", in) {
		names = append(names, t.SecretName)
	}
	return names
}

// entries yields the entries of a list at a place, except nulls, whose places it adds.
func entries[T any](nulls *Nulls, place string, list []*T) iter.Seq2[int, *T] {
	return func(yield func(int, *T) bool) {
		for i, entry := range list {
			if entry == nil {
				*nulls = append(*nulls, fmt.Sprintf("%s[%d]", place, i))
			} else if !yield(i, entry) {
				return
			}
		}
	}
}

type jsonIngress struct {
	Metadata *jsonMeta        `json:"metadata"`
	Spec     *jsonIngressSpec `json:"spec"`
}

type jsonIngressSpec struct {
	IngressClassName string              `json:"ingressClassName"`
	DefaultBackend   *jsonIngressBackend `json:"defaultBackend"`
	Rules            []*jsonIngressRule  `json:"rules"`
	TLS              []*jsonTLS          `json:"tls"`
}

type jsonIngressRule struct {
	Host string `json:"host"`
	HTTP *struct {
		Paths []*jsonIngressPath `json:"paths"`
	} `json:"http"`
}

type jsonIngressPath struct {
	Path     string              `json:"path"`
	PathType string              `json:"pathType"`
	Backend  *jsonIngressBackend `json:"backend"`
}

type jsonIngressBackend struct {
	Service struct {
		Name string `json:"name"`
		Port struct {
			Name   string `json:"name"`
			Number int    `json:"number"`
		} `json:"port"`
	} `json:"service"`
	Resource jsonResource `json:"resource"`
}

// jsonResource is the kind and the name of a resource, as far as they are readable.
type jsonResource string

func (r *jsonResource) UnmarshalJSON(b []byte) error {
	var ref *struct{ Kind, Name string }
	if json.Unmarshal(b, &ref) == nil && ref != nil {
		*r = jsonResource(ref.Kind + " " + ref.Name)
	}
	return nil
}

func (b *jsonIngressBackend) slim() *IngressBackend {
	if b == nil {
		return nil
	}
	to := &IngressBackend{Service: b.Service.Name, PortName: b.Service.Port.Name, PortNumber: b.Service.Port.Number}
	if to.Service == "" {
		to.Resource = string(b.Resource)
	}
	return to
}

func (i jsonIngress) slim() Object {
	o := &Ingress{Meta: i.Metadata.slim()}
	if i.Spec == nil {
		return o
	}
	o.Spec = &IngressSpec{
		IngressClassName: i.Spec.IngressClassName,
		DefaultBackend:   i.Spec.DefaultBackend.slim(),
		Secrets:          secrets(i.Spec.TLS, &o.Nulls),
	}
	for _, r := range entries(&o.Nulls, "spec.rules", i.Spec.Rules) {
		rule := IngressRule{Host: r.Host, HTTP: r.HTTP != nil}
		if r.HTTP != nil {
			for _, p := range r.HTTP.Paths {
				if p == nil {
					p = &jsonIngressPath{} // reported like an entry without a backend
				}
				rule.Paths = append(rule.Paths, IngressPath{Path: p.Path, PathType: p.PathType, Backend: p.Backend.slim()})
			}
		}
		o.Spec.Rules = append(o.Spec.Rules, rule)
	}
	return o
}

type jsonRouteGroup struct {
	Metadata *jsonMeta           `json:"metadata"`
	Spec     *jsonRouteGroupSpec `json:"spec"`
}

type jsonRouteGroupSpec struct {
	Hosts           []string             `json:"hosts"`
	Backends        []*RouteGroupBackend `json:"backends"`
	DefaultBackends []*BackendReference  `json:"defaultBackends"`
	Routes          []*RouteSpec         `json:"routes"`
	TLS             []*jsonTLS           `json:"tls"`
}

func (r jsonRouteGroup) slim() Object {
	o := &RouteGroup{Meta: r.Metadata.slim()}
	if r.Spec != nil {
		o.Spec = &RouteGroupSpec{
			Hosts:           r.Spec.Hosts,
			Backends:        r.Spec.Backends,
			DefaultBackends: r.Spec.DefaultBackends,
			Routes:          r.Spec.Routes,
			Secrets:         secrets(r.Spec.TLS, &o.Nulls),
		}
	}
	return o
}
