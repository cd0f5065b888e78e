package decode

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/routesrv/routesrv/kube"
)

// The functions of this file take from the types of k8s.io/api what an object keeps. They return what [kube.DecodeJSON] returns for
// the JSON form of the same object.

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
		spec.TLS = append(spec.TLS, kube.TLS{Hosts: t.Hosts, SecretName: t.SecretName})
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
	switch {
	case b == nil:
		return nil
	case b.Service == nil:
		return &kube.IngressBackend{}
	default:
		return &kube.IngressBackend{Service: b.Service.Name, PortName: b.Service.Port.Name, PortNumber: int(b.Service.Port.Number)}
	}
}

func slimNamespace(in *corev1.Namespace) kube.Object {
	m := slimMeta(&in.ObjectMeta)
	return &kube.Namespace{Name: m.Name, Annotations: m.Annotations}
}

func slimConfigMap(in *corev1.ConfigMap) kube.Object {
	return &kube.ConfigMap{Namespace: in.Namespace, Name: in.Name, Data: in.Data}
}

func slimService(in *corev1.Service) kube.Object {
	o := &kube.Service{Namespace: in.Namespace, Name: in.Name, Type: string(in.Spec.Type), ExternalName: in.Spec.ExternalName}
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
