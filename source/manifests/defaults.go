package manifests

import "github.com/routesrv/routesrv/kube"

// setDefaults sets the defaults that the API server would set in a new object, so that a manifest has the same routes as after it
// is applied: the namespace that kubectl would use, and the defaults of the fields that are read. An Ingress has no such fields:
// pathType is required.
func setDefaults(o kube.Object) {
	switch o := o.(type) {
	case *kube.Ingress:
		setNamespace(&o.Namespace)
	case *kube.RouteGroup:
		setNamespace(&o.Namespace)
	case *kube.Service:
		setNamespace(&o.Namespace)
		if o.Type == "" {
			o.Type = "ClusterIP"
		}
		for i := range o.Ports {
			p := &o.Ports[i]
			if p.TargetPort.IsNumber(0) || p.TargetPort.String() == "" {
				p.TargetPort = kube.NumberPort(p.Port)
			}
		}
	case *kube.Endpoints:
		setNamespace(&o.Namespace)
		for i := range o.Subsets {
			setProtocols(o.Subsets[i].Ports)
		}
	case *kube.EndpointSlice:
		setNamespace(&o.Namespace)
		setProtocols(o.Ports)
	}
}

func setNamespace(namespace *string) { *namespace = kube.NamespaceOrDefault(*namespace) }

func setProtocols(ports []kube.EndpointPort) {
	for i := range ports {
		if ports[i].Protocol == "" {
			ports[i].Protocol = "TCP"
		}
	}
}
