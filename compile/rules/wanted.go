package rules

import (
	"slices"
	"strconv"

	"github.com/routesrv/routesrv/kube"
)

// Wanted returns the Services that an object names, with the ports that it names, and one ready endpoint each.
func Wanted(o kube.Routed) *kube.Backends {
	all := &kube.Backends{}
	namespace := kube.NamespaceOrDefault(o.Metadata().Namespace)
	byName := make(map[string]*kube.Service)
	add := func(name, portName string, number int) {
		if name == "" {
			return
		}
		svc := byName[name]
		if svc == nil {
			svc = &kube.Service{Namespace: namespace, Name: name, Type: "ClusterIP"}
			byName[name] = svc
			all.Services = append(all.Services, svc)
		}
		port := kube.ServicePort{Name: portName, Port: number}
		for _, known := range svc.Ports {
			if known.Port == number && number != 0 || known.Name == portName && portName != "" {
				return
			}
		}
		if port.Port == 0 {
			port.Port = 1 + len(svc.Ports)
		}
		if port.Name == "" {
			port.Name = "port-" + strconv.Itoa(port.Port)
		}
		port.TargetPort = kube.NumberPort(port.Port)
		svc.Ports = append(svc.Ports, port)
	}
	switch o := o.(type) {
	case *kube.Ingress:
		if o.Spec == nil {
			break
		}
		backend := func(b *kube.IngressBackend) {
			if b != nil {
				add(b.Service, b.PortName, b.PortNumber)
			}
		}
		backend(o.Spec.DefaultBackend)
		for _, r := range o.Spec.Rules {
			for _, p := range r.Paths {
				backend(p.Backend)
			}
		}
	case *kube.RouteGroup:
		if o.Spec == nil {
			break
		}
		for _, b := range o.Spec.Backends {
			if b != nil {
				add(b.ServiceName, "", b.ServicePort)
			}
		}
	}
	for _, svc := range all.Services {
		var ports []kube.EndpointPort
		for _, p := range svc.Ports {
			ports = append(ports, kube.EndpointPort{Name: p.Name, Port: p.Port, Protocol: "TCP"})
		}
		const address = "192.0.2.1" // no request is sent to it
		all.Endpoints = append(all.Endpoints, &kube.Endpoints{
			Namespace: namespace, Name: svc.Name, Subsets: []kube.Subset{{Addresses: []string{address}, Ports: ports}},
		})
		all.EndpointSlices = append(all.EndpointSlices, &kube.EndpointSlice{
			Namespace: namespace, Name: svc.Name, Service: svc.Name, Ports: ports, Endpoints: []kube.SliceEndpoint{{Address: address, Ready: true}},
		})
	}
	return all
}

// Has reports whether each of some Services exists, has the ports, and endpoints.
func (v *View) Has(wanted *kube.Backends) bool {
	for _, w := range wanted.Services {
		has := v.service(w.ServiceKey())
		if has.Service == nil || has.Service.Type == externalNameType || len(has.slices.endpoints()) == 0 && (has.endpoints == nil || len(has.endpoints.Subsets) == 0) {
			return false
		}
		for _, p := range w.Ports {
			if !slices.ContainsFunc(has.Service.Ports, func(q kube.ServicePort) bool { return p.Port == q.Port || p.Name == q.Name }) {
				return false
			}
		}
	}
	return true
}
