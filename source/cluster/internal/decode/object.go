// Package decode decodes what the Kubernetes API sends: lists, streams of events and single objects, in JSON and, except for
// streams, in protobuf. It makes no request, logs nothing and has no clock.
//
// A [Walker] walks a list without decoding its items, so that the caller need not decode items that it already knows.
// [Events] does the same for the stream of a watch. [Object] decodes one item of either; only it turns bytes into objects.
//
// The package does not trust its input. A body that is truncated, of another kind or has wrong lengths is an error, and costs
// at most as much memory as its size.
package decode

import (
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/routesrv/routesrv/kube"
)

// Media types that the API sends.
const (
	MediaProtobuf = "application/vnd.kubernetes.protobuf"
	MediaJSON     = "application/json"
)

// decoders decode the protobuf form of the kinds that have one.
var decoders = map[kube.Kind]func(raw []byte) (kube.Object, error){
	kube.KindIngress:   decoder[networkingv1.Ingress](slimIngress),
	kube.KindService:   decoder[corev1.Service](slimService),
	kube.KindNamespace: decoder[corev1.Namespace](slimNamespace),
	//lint:ignore SA1019 deprecated and still served
	kube.KindEndpoints:     decoder[corev1.Endpoints](slimEndpoints),
	kube.KindEndpointSlice: decoder[discoveryv1.EndpointSlice](slimEndpointSlice),
}

// decoder returns a function that decodes an object and reduces it to the parts that are kept.
func decoder[T any, P interface {
	*T
	Unmarshal(raw []byte) error
}](slim func(*T) kube.Object) func([]byte) (kube.Object, error) {
	return func(raw []byte) (kube.Object, error) {
		var o T
		if err := P(&o).Unmarshal(raw); err != nil {
			return nil, err
		}
		return slim(&o), nil
	}
}

// HasProtobuf reports whether the kind has a protobuf form. Custom resources have none.
func HasProtobuf(kind kube.Kind) bool { return decoders[kind] != nil }

// Object decodes one object. For protobuf, raw is the message without its envelope, and the kind must have a protobuf form. The
// error is a *[kube.DecodeError] if it can name the object. The result keeps no reference to raw.
func Object(kind kube.Kind, media string, raw []byte) (kube.Object, error) {
	if media != MediaProtobuf {
		return kube.DecodeJSON(kind, raw)
	}
	decode := decoders[kind]
	if decode == nil {
		return nil, &kube.DecodeError{Ref: kube.Ref{Kind: kind}, Err: errors.New("it has no protobuf form")}
	}
	o, err := decode(raw)
	if err != nil {
		var m metav1.PartialObjectMetadata
		_ = m.Unmarshal(raw) // as far as it is readable
		return nil, &kube.DecodeError{Ref: kube.Ref{Kind: kind, Namespace: m.Namespace, Name: m.Name}, Err: err}
	}
	return o, nil
}

// The functions of this file convert the types of k8s.io/api to the types of package kube. The results equal the results of
// [kube.DecodeJSON] for the JSON form of the same object.

func slimMeta(m *metav1.ObjectMeta) kube.Meta {
	delete(m.Annotations, kube.LastAppliedAnnotation)
	slim := kube.Meta{Namespace: m.Namespace, Name: m.Name, Annotations: kube.PairsOf(m.Annotations), Labels: kube.PairsOf(m.Labels)}
	if !m.CreationTimestamp.IsZero() {
		slim.Created = m.CreationTimestamp.Unix()
	}
	slim.Changed = kube.LastChange(func(yield func(time.Time, string) bool) {
		for i := range m.ManagedFields {
			f := &m.ManagedFields[i]
			if f.Subresource == "" && f.Time != nil && !yield(f.Time.Time, f.Manager) {
				return
			}
		}
	})
	return slim
}

func slimIngress(in *networkingv1.Ingress) kube.Object {
	spec := &kube.IngressSpec{IngressClassName: deref(in.Spec.IngressClassName), DefaultBackend: slimBackend(in.Spec.DefaultBackend)}
	for _, t := range in.Spec.TLS {
		spec.Secrets = append(spec.Secrets, t.SecretName)
	}
	spec.Rules = sized[kube.IngressRule](len(in.Spec.Rules))
	for i, r := range in.Spec.Rules {
		rule := &spec.Rules[i]
		if rule.Host = r.Host; r.HTTP == nil {
			continue
		}
		rule.HTTP, rule.Paths = true, sized[kube.IngressPath](len(r.HTTP.Paths))
		for j := range r.HTTP.Paths {
			p := &r.HTTP.Paths[j]
			rule.Paths[j] = kube.IngressPath{Path: p.Path, PathType: string(deref(p.PathType)), Backend: slimBackend(&p.Backend)}
		}
	}
	return &kube.Ingress{Meta: slimMeta(&in.ObjectMeta), Spec: spec}
}

func slimBackend(b *networkingv1.IngressBackend) *kube.IngressBackend {
	if b == nil {
		return nil
	}
	var to kube.IngressBackend
	if b.Service != nil {
		to.Service, to.PortName, to.PortNumber = b.Service.Name, b.Service.Port.Name, int(b.Service.Port.Number)
	}
	if to.Service == "" && b.Resource != nil {
		to.Resource = b.Resource.Kind + " " + b.Resource.Name
	}
	return &to
}

func slimNamespace(in *corev1.Namespace) kube.Object {
	m := slimMeta(&in.ObjectMeta)
	return &kube.Namespace{Name: m.Name, Annotations: m.Annotations}
}

func slimService(in *corev1.Service) kube.Object {
	o := &kube.Service{
		Namespace: in.Namespace, Name: in.Name, Type: string(in.Spec.Type), ExternalName: in.Spec.ExternalName, Selector: len(in.Spec.Selector) > 0,
	}
	o.Ports = sized[kube.ServicePort](len(in.Spec.Ports))
	for i := range in.Spec.Ports {
		p := &in.Spec.Ports[i]
		target := kube.NumberPort(int(p.TargetPort.IntVal))
		if p.TargetPort.Type == intstr.String {
			target = kube.NamePort(p.TargetPort.StrVal)
		}
		o.Ports[i] = kube.ServicePort{Name: p.Name, Port: int(p.Port), TargetPort: target}
	}
	return o
}

//lint:ignore SA1019 deprecated and still served
func slimEndpoints(in *corev1.Endpoints) kube.Object {
	o := &kube.Endpoints{Namespace: in.Namespace, Name: in.Name, Subsets: sized[kube.Subset](len(in.Subsets))}
	for i, s := range in.Subsets {
		sub := &o.Subsets[i]
		sub.NotReady, sub.Addresses, sub.Ports = len(s.NotReadyAddresses), sized[string](len(s.Addresses)), make([]kube.EndpointPort, len(s.Ports))
		for j := range s.Addresses {
			sub.Addresses[j] = s.Addresses[j].IP
		}
		for j, p := range s.Ports {
			sub.Ports[j] = kube.EndpointPort{Name: p.Name, Port: int(p.Port), Protocol: string(p.Protocol), AppProtocol: deref(p.AppProtocol)}
		}
	}
	return o
}

func slimEndpointSlice(in *discoveryv1.EndpointSlice) kube.Object {
	o := &kube.EndpointSlice{
		Namespace: in.Namespace, Name: in.Name, Service: in.Labels[kube.ServiceNameLabel], NoPorts: in.Ports == nil,
		Ports: make([]kube.EndpointPort, len(in.Ports)), Endpoints: sized[kube.SliceEndpoint](len(in.Endpoints)),
	}
	for i, p := range in.Ports {
		o.Ports[i] = kube.EndpointPort{
			Name: deref(p.Name), Port: int(deref(p.Port)), Protocol: string(deref(p.Protocol)), AppProtocol: deref(p.AppProtocol),
		}
	}
	for i := range in.Endpoints {
		e := &in.Endpoints[i]
		o.Endpoints[i] = kube.SliceEndpoint{
			Zone: deref(e.Zone), Ready: e.Conditions.Ready == nil || *e.Conditions.Ready,
			Terminating: deref(e.Conditions.Terminating), NoAddress: len(e.Addresses) == 0,
		}
		if len(e.Addresses) > 0 {
			o.Endpoints[i].Address = e.Addresses[0]
		}
	}
	return o
}

// sized returns a slice of n elements, nil for none.
func sized[T any](n int) []T {
	if n == 0 {
		return nil
	}
	return make([]T, n)
}

func deref[T any](p *T) T {
	if p == nil {
		var zero T
		return zero
	}
	return *p
}
