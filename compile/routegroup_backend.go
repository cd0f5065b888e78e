package compile

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/routesrv/routesrv/eskip"
	"github.com/routesrv/routesrv/kube"
)

// Conditions that have a reason of their own.
var (
	errServiceNotFound = errors.New("service not found")
	errPortNotFound    = errors.New("target port not found")
)

func backendReason(err error) Reason {
	switch {
	case errors.Is(err, errServiceNotFound):
		return ServiceNotFound
	case errors.Is(err, errPortNotFound):
		return PortNotFound
	}
	return BackendRefused
}

// setBackend applies a backend to a route: backend, and the filters that it adds or replaces.
func (p *routeGroupPass) setBackend(r *eskip.Route, be *kube.RouteGroupBackend) error {
	var err error
	switch typ, _ := routeGroupBackendType(be.Type); typ {
	case serviceBackend:
		err = p.setService(r, be)
	case eskip.NetworkBackend:
		if !p.allowedAddress(be.Address) {
			return fmt.Errorf("routegroup with not allowed network backend: %s", be.Address)
		}
		r.BackendType, r.Backend = eskip.NetworkBackend, be.Address
	case eskip.LBBackend:
		for _, e := range be.Endpoints {
			if !p.allowedAddress(e) {
				return fmt.Errorf("routegroup with not allowed explicit LB endpoint: %s", e)
			}
		}
		r.BackendType, r.LBAlgorithm, r.LBEndpoints = eskip.LBBackend, p.algorithm(be), eskip.NewLBEndpoints(be.Endpoints)
	case eskip.ForwardBackend:
		r.Filters = nil
		r.BackendType, r.Backend = eskip.NetworkBackend, p.set.ForwardBackendURL
	default: // shunt, loopback, dynamic
		r.BackendType = typ
	}
	if err != nil {
		return err
	}
	if p.set.BackendNameTracingTag {
		r.Filters = append(r.Filters, filter("tracingTag", "skipper.backend_name", be.Name))
	}
	return nil
}

func (b *routeGroupBuilder) algorithm(be *kube.RouteGroupBackend) string {
	if be.Algorithm != "" {
		return be.Algorithm
	}
	return b.set.DefaultLBAlgorithm
}

// allowedAddress checks the host of an address against the allowed names. An address that is not a URL is refused even
// when every name is allowed.
func (b *routeGroupBuilder) allowedAddress(address string) bool {
	u, err := url.Parse(address)
	return err == nil && b.set.allowedExternalName(u.Hostname())
}

// setService applies the endpoints of a service.
func (p *routeGroupPass) setService(r *eskip.Route, be *kube.RouteGroupBackend) error {
	optOut := p.rg.Annotations[zoneAwareKey] == "false"
	if optOut {
		prepend(r, filter(annotateFilter, zoneAwareKey, "false"))
	}
	key := kube.ServiceKey{Namespace: p.ns, Name: be.ServiceName}
	svc := p.unit.lookups.service(key)
	switch {
	case svc == nil:
		return fmt.Errorf("%s/%s: %w", p.ns, be.ServiceName, errServiceNotFound)
	case !strings.EqualFold(svc.Type, "ClusterIP"):
		return fmt.Errorf("not supported service type in service/%s/%s: %s", p.ns, be.ServiceName, svc.Type)
	}
	target, ok := targetOf(svc, be.ServicePort)
	if !ok {
		return fmt.Errorf("%w: %s:%d", errPortNotFound, be.ServiceName, be.ServicePort)
	}
	var protocol *string
	if v, ok := p.rg.Annotations[protocolAnnotation]; ok {
		protocol = &v
	}
	eps := p.unit.lookups.routeGroupEndpoints(p.set, key, svc, target, protocol)
	if !p.internal && !optOut {
		eps = inZone(eps, p.set.TopologyZone)
	}
	setEndpoints(r, eps, p.algorithm(be))
	return nil
}

func targetOf(svc *kube.Service, port int) (kube.TargetPort, bool) {
	for _, sp := range svc.Ports {
		if sp.Port == port {
			return sp.TargetPort, true
		}
	}
	return kube.TargetPort{}, false
}
