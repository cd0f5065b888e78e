package decode

import (
	"encoding/base64"
	"time"

	"github.com/routesrv/routesrv/kube"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Type is a kind of objects with its API version.
type Type struct {
	Kind       kube.Kind
	APIVersion string
}

// listKind returns the kind of a list of the objects.
func (t Type) listKind() string { return string(t.Kind) + "List" }

// Media types that the API sends.
const (
	MediaProtobuf = "application/vnd.kubernetes.protobuf"
	MediaJSON     = "application/json"
)

// decoders decode the protobuf form of the kinds that have one. They return what [kube.DecodeJSON] returns for the
// JSON form of the same object, and keep no reference to raw: the generated Unmarshal copies every string.
var decoders = map[kube.Kind]func(raw []byte) (kube.Object, error){
	kube.KindIngress:       decodeIngress,
	kube.KindService:       decodeService,
	kube.KindEndpoints:     decodeEndpoints,
	kube.KindEndpointSlice: decodeEndpointSlice,
	kube.KindSecret:        decodeSecret,
}

// HasProtobuf reports whether the kind has a protobuf form. Custom resources have none.
func HasProtobuf(kind kube.Kind) bool { return decoders[kind] != nil }

// Object decodes one object. For protobuf, raw is the message without its envelope, and the kind must have a protobuf
// form. The error is a *[kube.DecodeError] if it can name the object. The result keeps no reference to raw.
func Object(kind kube.Kind, media string, raw []byte) (kube.Object, error) {
	if media == MediaProtobuf {
		return decoders[kind](raw)
	}
	return kube.DecodeJSON(kind, raw)
}

// message is an API type in its protobuf form.
type message[T any] interface {
	*T
	Unmarshal(raw []byte) error
}

func unmarshal[T any, M message[T]](kind kube.Kind, raw []byte) (*T, error) {
	v := new(T)
	if err := M(v).Unmarshal(raw); err != nil {
		id, _ := identityOf(raw) // as far as it is readable
		return nil, &kube.DecodeError{Ref: kube.Ref{Kind: kind, Namespace: id.namespace, Name: id.name}, Err: err}
	}
	return v, nil
}

func slimMeta(m *metav1.ObjectMeta) kube.Meta {
	slim := kube.SlimMeta(m.Namespace, m.Name, m.Annotations, m.Labels, m.CreationTimestamp.Time)
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

func decodeIngress(raw []byte) (kube.Object, error) {
	in, err := unmarshal[networkingv1.Ingress](kube.KindIngress, raw)
	if err != nil {
		return nil, err
	}
	spec := &kube.IngressSpec{
		IngressClassName: deref(in.Spec.IngressClassName),
		DefaultBackend:   slimBackend(in.Spec.DefaultBackend),
	}
	for _, t := range in.Spec.TLS {
		spec.TLS = append(spec.TLS, kube.TLS{Hosts: t.Hosts, SecretName: t.SecretName})
	}
	for i := range in.Spec.Rules {
		r := &in.Spec.Rules[i]
		rule := kube.IngressRule{Host: r.Host, HTTP: r.HTTP != nil}
		if r.HTTP != nil {
			for j := range r.HTTP.Paths {
				p := &r.HTTP.Paths[j]
				rule.Paths = append(rule.Paths, kube.IngressPath{
					Path: p.Path, PathType: string(deref(p.PathType)), Backend: slimBackend(&p.Backend),
				})
			}
		}
		spec.Rules = append(spec.Rules, rule)
	}
	return &kube.Ingress{Meta: slimMeta(&in.ObjectMeta), Spec: spec}, nil
}

func slimBackend(b *networkingv1.IngressBackend) *kube.IngressBackend {
	switch {
	case b == nil:
		return nil
	case b.Service == nil:
		return &kube.IngressBackend{}
	default:
		return &kube.IngressBackend{
			Service: b.Service.Name, PortName: b.Service.Port.Name, PortNumber: int(b.Service.Port.Number),
		}
	}
}

func decodeService(raw []byte) (kube.Object, error) {
	in, err := unmarshal[corev1.Service](kube.KindService, raw)
	if err != nil {
		return nil, err
	}
	o := &kube.Service{
		Namespace: in.Namespace, Name: in.Name, Type: string(in.Spec.Type), ExternalName: in.Spec.ExternalName,
	}
	for i := range in.Spec.Ports {
		p := &in.Spec.Ports[i]
		target := kube.NumberPort(int(p.TargetPort.IntVal))
		if p.TargetPort.Type == intstr.String {
			target = kube.NamePort(p.TargetPort.StrVal)
		}
		o.Ports = append(o.Ports, kube.ServicePort{Name: p.Name, Port: int(p.Port), TargetPort: target})
	}
	return o, nil
}

func decodeEndpoints(raw []byte) (kube.Object, error) {
	//lint:ignore SA1019 deprecated and still served
	in, err := unmarshal[corev1.Endpoints](kube.KindEndpoints, raw)
	if err != nil {
		return nil, err
	}
	o := &kube.Endpoints{Namespace: in.Namespace, Name: in.Name}
	for i := range in.Subsets {
		s := &in.Subsets[i]
		sub := kube.Subset{NotReady: len(s.NotReadyAddresses), Ports: make([]kube.EndpointPort, 0, len(s.Ports))}
		for j := range s.Addresses {
			sub.Addresses = append(sub.Addresses, s.Addresses[j].IP)
		}
		for _, p := range s.Ports {
			sub.Ports = append(sub.Ports, kube.EndpointPort{
				Name: p.Name, Port: int(p.Port), Protocol: string(p.Protocol), AppProtocol: deref(p.AppProtocol),
			})
		}
		o.Subsets = append(o.Subsets, sub)
	}
	return o, nil
}

func decodeEndpointSlice(raw []byte) (kube.Object, error) {
	in, err := unmarshal[discoveryv1.EndpointSlice](kube.KindEndpointSlice, raw)
	if err != nil {
		return nil, err
	}
	o := &kube.EndpointSlice{
		Namespace: in.Namespace, Name: in.Name, Service: in.Labels[kube.ServiceNameLabel],
		NoPorts: in.Ports == nil, Ports: make([]kube.EndpointPort, 0, len(in.Ports)),
	}
	for _, p := range in.Ports {
		o.Ports = append(o.Ports, kube.EndpointPort{
			Name: deref(p.Name), Port: int(deref(p.Port)), Protocol: string(deref(p.Protocol)), AppProtocol: deref(p.AppProtocol),
		})
	}
	for i := range in.Endpoints {
		e := &in.Endpoints[i]
		s := kube.SliceEndpoint{
			Zone:        deref(e.Zone),
			Ready:       e.Conditions.Ready == nil || *e.Conditions.Ready,
			Terminating: deref(e.Conditions.Terminating),
			NoAddress:   len(e.Addresses) == 0,
		}
		if !s.NoAddress {
			s.Address = e.Addresses[0]
		}
		o.Endpoints = append(o.Endpoints, s)
	}
	return o, nil
}

func decodeSecret(raw []byte) (kube.Object, error) {
	in, err := unmarshal[corev1.Secret](kube.KindSecret, raw)
	if err != nil {
		return nil, err
	}
	return &kube.Secret{
		Namespace: in.Namespace, Name: in.Name, Type: string(in.Type),
		Cert: base64.StdEncoding.EncodeToString(in.Data["tls.crt"]),
		Key:  base64.StdEncoding.EncodeToString(in.Data["tls.key"]),
	}, nil
}

func deref[T any](p *T) T {
	if p == nil {
		var zero T
		return zero
	}
	return *p
}
