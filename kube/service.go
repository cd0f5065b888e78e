package kube

import "strconv"

// Service is a core/v1 Service, without its labels, annotations and selector.
type Service struct {
	Namespace string
	Name      string
	// Incomplete marks a service without metadata or without spec; it cannot be referenced.
	Incomplete   bool
	Type         string // as written, "" if not set
	ExternalName string
	Selector     bool // it selects pods
	Ports        []ServicePort
	Nulls        Nulls
}

// ServicePort is one port of a service.
type ServicePort struct {
	Name       string
	Port       int
	TargetPort TargetPort
}

// TargetPort is a number or a name: "443" is a name, 443 a number. The zero value is not set.
type TargetPort struct {
	Set    bool
	IsName bool
	Number int
	Name   string
}

// NumberPort returns the numeric target port n.
func NumberPort(n int) TargetPort { return TargetPort{Set: true, Number: n} }

// NamePort returns the target port with the name s.
func NamePort(s string) TargetPort { return TargetPort{Set: true, IsName: true, Name: s} }

// IsNumber reports whether the target port is the number n.
func (p TargetPort) IsNumber(n int) bool { return p.Set && !p.IsName && p.Number == n }

// String returns the number or the name as text, or "" if not set.
func (p TargetPort) String() string {
	switch {
	case !p.Set:
		return ""
	case p.IsName:
		return p.Name
	default:
		return strconv.Itoa(p.Number)
	}
}

// Endpoints is a core/v1 Endpoints object. It keeps only ready addresses, the number of others, and no labels or annotations.
type Endpoints struct {
	Namespace string
	Name      string
	Subsets   []Subset
	Nulls     Nulls
}

// Subset is a set of addresses that share their ports.
type Subset struct {
	Addresses []string // IPs, in order
	NotReady  int      // how many addresses are not ready
	Ports     []EndpointPort
}

// EndpointPort is a port of Endpoints or of an EndpointSlice.
type EndpointPort struct {
	Name        string
	Port        int
	Protocol    string // as written, "" if not set
	AppProtocol string // EndpointSlice only
}

// EndpointSlice is a discovery.k8s.io/v1 EndpointSlice. Service is its label [ServiceNameLabel]; all others are dropped.
type EndpointSlice struct {
	Namespace string
	Name      string
	Service   string
	// NoPorts marks a slice whose list of ports is missing or null, which differs from an empty one.
	NoPorts   bool
	Ports     []EndpointPort
	Endpoints []SliceEndpoint
	Nulls     Nulls
}

// ServiceKey returns the key of the service that the slice belongs to. Its namespace does not default.
func (s *EndpointSlice) ServiceKey() ServiceKey {
	return ServiceKey{Namespace: s.Namespace, Name: s.Service}
}

// ServiceKey returns the key of the service.
func (s *Service) ServiceKey() ServiceKey { return ServiceKeyOf(s.Namespace, s.Name) }

// ServiceKey returns the key of the service that the endpoints belong to.
func (e *Endpoints) ServiceKey() ServiceKey { return ServiceKeyOf(e.Namespace, e.Name) }

// ServiceNameLabel is the label with which an EndpointSlice names its service.
const ServiceNameLabel = "kubernetes.io/service-name"

// SliceEndpoint is one endpoint of a slice, with the first of its addresses.
type SliceEndpoint struct {
	Address     string
	Zone        string
	NoAddress   bool // the list of addresses is empty; a list that begins with null or "" has the empty address
	Ready       bool // also if the object does not say
	Terminating bool
}

// Namespace is a core/v1 Namespace; only its annotations are kept.
type Namespace struct {
	Name        string
	Annotations Pairs // without the last-applied annotation
}

// Ref implements [Object].
func (n *Namespace) Ref() Ref { return Ref{Kind: KindNamespace, Name: n.Name} }

// Ref implements [Object].
func (s *Service) Ref() Ref { return Ref{KindService, s.Namespace, s.Name} }

// Ref implements [Object].
func (e *Endpoints) Ref() Ref { return Ref{KindEndpoints, e.Namespace, e.Name} }

// Ref implements [Object].
func (s *EndpointSlice) Ref() Ref { return Ref{KindEndpointSlice, s.Namespace, s.Name} }
