package kube

import "strconv"

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
	TLS              []TLS
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

// IngressBackend names a service and one of its ports. A resource backend has an empty service name.
type IngressBackend struct {
	Service    string
	PortName   string
	PortNumber int
}

// Port returns the port as text: the number if there is one, else the name.
func (b *IngressBackend) Port() string {
	if b.PortNumber != 0 {
		return strconv.Itoa(b.PortNumber)
	}
	return b.PortName
}

// TLS is an entry of spec.tls, of an Ingress or a RouteGroup.
type TLS struct {
	Hosts      []string
	SecretName string
}

// Ref implements [Object].
func (i *Ingress) Ref() Ref { return Ref{KindIngress, i.Namespace, i.Name} }
