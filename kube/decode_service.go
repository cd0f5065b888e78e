package kube

import (
	"encoding/json"
	"fmt"
)

type jsonService struct {
	Metadata *jsonMeta `json:"metadata"`
	Spec     *struct {
		Type         string             `json:"type"`
		ExternalName string             `json:"externalName"`
		Selector     jsonPresent        `json:"selector"`
		Ports        []*jsonServicePort `json:"ports"`
	} `json:"spec"`
}

type jsonServicePort struct {
	Name       string         `json:"name"`
	Port       int            `json:"port"`
	TargetPort jsonTargetPort `json:"targetPort"`
}

type jsonTargetPort TargetPort

// UnmarshalJSON accepts a string, an integer or null.
func (p *jsonTargetPort) UnmarshalJSON(b []byte) error {
	if string(b) == "null" {
		return nil
	}
	var n int
	if err := json.Unmarshal(b, &n); err == nil {
		*p = jsonTargetPort(NumberPort(n))
		return nil
	}
	var s string
	if err := json.Unmarshal(b, &s); err != nil {
		return fmt.Errorf("target port %s must be a string or an integer", b)
	}
	*p = jsonTargetPort(NamePort(s))
	return nil
}

func (s jsonService) slim() Object {
	o := &Service{Incomplete: s.Metadata == nil || s.Spec == nil}
	o.Namespace, o.Name = s.Metadata.name()
	if s.Spec == nil {
		return o
	}
	o.Type, o.ExternalName, o.Selector = s.Spec.Type, s.Spec.ExternalName, bool(s.Spec.Selector)
	for _, p := range entries(&o.Nulls, "spec.ports", s.Spec.Ports) {
		o.Ports = append(o.Ports, ServicePort{Name: p.Name, Port: p.Port, TargetPort: TargetPort(p.TargetPort)})
	}
	return o
}

// jsonPresent is whether the value is a mapping with an entry. Any other value counts as empty, without an error.
type jsonPresent bool

func (p *jsonPresent) UnmarshalJSON(b []byte) error {
	var entries map[string]json.RawMessage
	*p = json.Unmarshal(b, &entries) == nil && len(entries) > 0
	return nil
}

// jsonCount is the number of entries of a list. Anything else counts as an empty list, without an error.
type jsonCount int

func (c *jsonCount) UnmarshalJSON(b []byte) error {
	var list []json.RawMessage
	if json.Unmarshal(b, &list) == nil {
		*c = jsonCount(len(list))
	}
	return nil
}

type jsonEndpointPort struct {
	Name        string `json:"name"`
	Port        int    `json:"port"`
	Protocol    string `json:"protocol"`
	AppProtocol string `json:"appProtocol"`
}

func slimPorts(in []*jsonEndpointPort, nulls *Nulls, list string) []EndpointPort {
	out := make([]EndpointPort, 0, len(in))
	for _, p := range entries(nulls, list, in) {
		out = append(out, EndpointPort(*p))
	}
	return out
}

type jsonEndpoints struct {
	Metadata *jsonMeta `json:"metadata"`
	Subsets  []*struct {
		Addresses []*struct {
			IP string `json:"ip"`
		} `json:"addresses"`
		NotReady jsonCount           `json:"notReadyAddresses"`
		Ports    []*jsonEndpointPort `json:"ports"`
	} `json:"subsets"`
}

func (e jsonEndpoints) slim() Object {
	o := &Endpoints{}
	o.Namespace, o.Name = e.Metadata.name()
	for i, s := range entries(&o.Nulls, "subsets", e.Subsets) {
		sub := Subset{NotReady: int(s.NotReady), Ports: slimPorts(s.Ports, &o.Nulls, fmt.Sprintf("subsets[%d].ports", i))}
		for _, a := range entries(&o.Nulls, fmt.Sprintf("subsets[%d].addresses", i), s.Addresses) {
			sub.Addresses = append(sub.Addresses, a.IP)
		}
		o.Subsets = append(o.Subsets, sub)
	}
	return o
}

type jsonEndpointSlice struct {
	Metadata  *jsonMeta `json:"metadata"`
	Endpoints []*struct {
		Addresses  []string `json:"addresses"`
		Zone       string   `json:"zone"`
		Conditions *struct {
			Ready       *bool `json:"ready"`
			Terminating *bool `json:"terminating"`
		} `json:"conditions"`
	} `json:"endpoints"`
	Ports []*jsonEndpointPort `json:"ports"`
}

func (e jsonEndpointSlice) slim() Object {
	o := &EndpointSlice{NoPorts: e.Ports == nil}
	o.Ports = slimPorts(e.Ports, &o.Nulls, "ports")
	o.Namespace, o.Name = e.Metadata.name()
	if e.Metadata != nil {
		o.Service = e.Metadata.Labels[ServiceNameLabel]
	}
	for _, ep := range entries(&o.Nulls, "endpoints", e.Endpoints) {
		s := SliceEndpoint{Zone: ep.Zone, Ready: true, NoAddress: len(ep.Addresses) == 0}
		if !s.NoAddress {
			s.Address = ep.Addresses[0]
		}
		if c := ep.Conditions; c != nil {
			s.Ready = c.Ready == nil || *c.Ready
			s.Terminating = c.Terminating != nil && *c.Terminating
		}
		o.Endpoints = append(o.Endpoints, s)
	}
	return o
}

type jsonNamespace struct {
	Metadata *jsonMeta `json:"metadata"`
}

func (n jsonNamespace) slim() Object {
	m := n.Metadata.slim()
	return &Namespace{Name: m.Name, Annotations: m.Annotations}
}
