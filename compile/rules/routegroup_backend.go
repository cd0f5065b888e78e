package rules

import (
	"cmp"
	"fmt"
	"net/url"
	"strings"

	"github.com/routesrv/routesrv/eskip"
	"github.com/routesrv/routesrv/kube"
)

func (u *Unit) backendFailed(prefix string, p Problem) {
	p.Severity, p.Message = Error, prefix+p.Message
	u.add(p)
}

func backendRefused(format string, args ...any) *Problem {
	return &Problem{Reason: BackendRefused, Message: fmt.Sprintf(format, args...)}
}

func (p *routeGroupPass) checkBackend(be *kube.RouteGroupBackend) *Problem {
	switch typ, _ := routeGroupBackendType(be.Type); typ {
	case serviceBackend:
		return p.checkService(be)
	case eskip.NetworkBackend:
		if !p.allowedAddress(be.Address) {
			return backendRefused("routegroup with not allowed network backend: %s", be.Address)
		}
	case eskip.LBBackend:
		for _, e := range be.Endpoints {
			if !p.allowedAddress(e) {
				return backendRefused("routegroup with not allowed explicit LB endpoint: %s", e)
			}
		}
	}
	return nil
}

func (p *routeGroupPass) setBackend(r *eskip.Route, be *kube.RouteGroupBackend) {
	switch typ, _ := routeGroupBackendType(be.Type); typ {
	case serviceBackend:
		p.setService(r, be)
	case eskip.NetworkBackend:
		r.BackendType, r.Backend = eskip.NetworkBackend, be.Address
	case eskip.LBBackend:
		r.BackendType, r.LBAlgorithm, r.LBEndpoints = eskip.LBBackend, p.algorithm(be), eskip.NewLBEndpoints(be.Endpoints)
	case eskip.ForwardBackend:
		r.Filters = nil
		r.BackendType, r.Backend = eskip.NetworkBackend, p.set.ForwardBackendURL
	default: // shunt, loopback, dynamic
		r.BackendType = typ
	}
}

func (b *routeGroupBuilder) algorithm(be *kube.RouteGroupBackend) string {
	return cmp.Or(be.Algorithm, b.set.DefaultLBAlgorithm)
}

// allowedAddress checks the host of an address against the allowed names. It refuses an address that is not a URL.
func (b *routeGroupBuilder) allowedAddress(address string) bool {
	u, err := url.Parse(address)
	return err == nil && b.set.allowedExternalName(u.Hostname())
}

func (p *routeGroupPass) checkService(be *kube.RouteGroupBackend) *Problem {
	svc := p.lookups.service(kube.ServiceKey{Namespace: p.ns, Name: be.ServiceName})
	switch {
	case svc == nil:
		return &Problem{
			Reason: ServiceNotFound, Message: fmt.Sprintf("%s/%s: service not found", p.ns, be.ServiceName),
			Detail: missingService(p.ns, be.ServiceName), About: be.ServiceName,
		}
	case !strings.EqualFold(svc.Type, "ClusterIP"):
		return backendRefused("not supported service type in service/%s/%s: %s", p.ns, be.ServiceName, svc.Type)
	}
	if _, ok := portOf(svc, be.ServicePort); !ok {
		given := fmt.Sprint(be.ServicePort)
		return &Problem{
			Reason: PortNotFound, Message: fmt.Sprintf("target port not found: %s:%s", be.ServiceName, given),
			Detail: noPort(svc, be.ServiceName, given) + ", so the routes to it are left out", About: be.ServiceName + ":" + given,
		}
	}
	return nil
}

func (p *routeGroupPass) setService(r *eskip.Route, be *kube.RouteGroupBackend) {
	optOut := p.rg.Annotations.Get(zoneAwareKey) == "false"
	if optOut {
		prepend(r, filter(annotateFilter, zoneAwareKey, "false"))
	}
	key := kube.ServiceKey{Namespace: p.ns, Name: be.ServiceName}
	port, _ := portOf(p.lookups.service(key), be.ServicePort)
	eps := p.endpointsOf(kube.KindRouteGroup, key, port, p.rg.Annotations)
	p.checkEndpoints(kube.KindRouteGroup, key, port, eps)
	if !p.internal && !optOut {
		eps = inZone(eps, p.set.TopologyZone)
	}
	setEndpoints(r, eps, p.algorithm(be))
}

func portOf(svc *kube.Service, port int) (kube.ServicePort, bool) {
	return first(svc.Ports, func(p kube.ServicePort) bool { return p.Port == port })
}
