package compile

import (
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/routesrv/routesrv/eskip"
	"github.com/routesrv/routesrv/kube"
)

// endpoint is the URL of an endpoint with its zone.
type endpoint struct{ url, zone string }

const (
	appProtocolH2C = "kubernetes.io/h2c"
	zoneMinimum    = 3 // a zone with fewer endpoints is not used alone

	annotateFilter     = "annotate"
	zoneAwareKey       = "zalando.org/traffic-zone-aware"
	protocolAnnotation = "zalando.org/skipper-backend-protocol"
)

func endpointURL(scheme, address string, port int) string {
	return scheme + "://" + net.JoinHostPort(address, strconv.Itoa(port))
}

func sortEndpoints(eps []endpoint) []endpoint {
	slices.SortStableFunc(eps, func(a, b endpoint) int { return strings.Compare(a.url, b.url) })
	return eps
}

// inZone keeps only the endpoints of the zone if there are enough of them.
func inZone(eps []endpoint, zone string) []endpoint {
	if zone == "" {
		return eps
	}
	var own []endpoint
	for _, e := range eps {
		if e.zone == zone {
			own = append(own, e)
		}
	}
	if len(own) < zoneMinimum {
		return eps
	}
	return own
}

// endpointsKey is the key of the reference's cache of endpoints. It lacks the name of the service port. One property is not
// copied: the reference uses one scheme for all RouteGroups.
type endpointsKey struct {
	kind    kube.Kind
	service kube.ServiceKey
	scheme  string
	target  string
}

// ambiguous reports whether two ports of the service have the same text as target port but differ otherwise: in name, number, or
// in whether the target is a name or a number. For such a service the reference uses, for the whole load, the result of the port
// that was converted first. This package does the same for parity; therefore it cannot cache objects that refer to such a
// service.
func ambiguous(svc *kube.Service) bool {
	for i, p := range svc.Ports {
		for _, q := range svc.Ports[:i] {
			if p.TargetPort.Set && p.TargetPort.String() == q.TargetPort.String() && p != q {
				return true
			}
		}
	}
	return false
}

// ingressEndpoints resolves a service port for an Ingress. protocol is the value of the protocol annotation, nil if it is absent. With
// EndpointSlices an empty value counts as absent: the reference has one cache entry for both, and the first user decides.
func (l *lookups) ingressEndpoints(set *settings, key kube.ServiceKey, svc *kube.Service, port kube.ServicePort, protocol *string) []endpoint {
	if protocol != nil && *protocol == "" && set.EndpointSlices {
		protocol = nil
	}
	resolve := func() []endpoint {
		if set.EndpointSlices {
			return ingressSliceEndpoints(l.cluster.slices[key], port, protocol)
		}
		scheme := "http"
		if protocol != nil {
			scheme = *protocol
		}
		return ingressSubsetEndpoints(l.cluster.endpoints[key], port, scheme)
	}
	if !ambiguous(svc) {
		return resolve()
	}
	return l.resolveOnce(endpointsKey{kube.KindIngress, key, cachedScheme(set, protocol), port.TargetPort.String()}, resolve)
}

// cachedScheme returns the scheme in the key of the cache.
func cachedScheme(set *settings, protocol *string) string {
	switch {
	case protocol != nil:
		return *protocol
	case !set.EndpointSlices:
		return "http"
	}
	return ""
}

// resolveOnce returns what the first user of the key got in this compilation. The result then depends on other objects.
func (l *lookups) resolveOnce(k endpointsKey, resolve func() []endpoint) []endpoint {
	l.volatile = true
	r, ok := l.cluster.resolved[k]
	if !ok {
		r = resolution{resolve(), l.cluster.at}
		l.cluster.resolved[k] = r
	}
	return r.endpoints
}

// resolution is the result for the first user of a key, with the position of that user among the objects of its kind.
type resolution struct {
	endpoints []endpoint
	at        int
}

// ingressSubsetEndpoints uses the first subset that qualifies: with a single port, or with a port of the service port's name.
func ingressSubsetEndpoints(e *kube.Endpoints, port kube.ServicePort, scheme string) []endpoint {
	if e == nil {
		return nil
	}
	for _, sub := range e.Subsets {
		if len(sub.Ports) == 1 {
			return subsetEndpoints(sub, sub.Ports[0].Port, scheme)
		}
		for _, p := range sub.Ports {
			if p.Name == port.Name {
				return subsetEndpoints(sub, p.Port, scheme)
			}
		}
	}
	return nil
}

func subsetEndpoints(sub kube.Subset, port int, scheme string) []endpoint {
	eps := make([]endpoint, len(sub.Addresses))
	for i, a := range sub.Addresses {
		eps[i].url = endpointURL(scheme, a, port)
	}
	return sortEndpoints(eps)
}

// ingressSliceEndpoints resolves a service port in the merged slices. A port that is not found becomes port 0, as in the
// reference.
func ingressSliceEndpoints(g *mergedSlices, port kube.ServicePort, protocol *string) []endpoint {
	if g == nil {
		return nil
	}
	var number int
	switch {
	case port.Name != "":
		number = firstPort(g.ports(), func(p kube.EndpointPort) bool { return p.Name == port.Name || p.Port == port.Port }).Port
	case !port.TargetPort.IsName:
		number = port.TargetPort.Number
	default:
		number = firstPort(g.ports(), func(p kube.EndpointPort) bool { return p.Name == "" || p.Port == port.Port }).Port
	}
	scheme := "http"
	if protocol != nil {
		scheme = *protocol
	} else if firstPort(g.ports(), func(p kube.EndpointPort) bool {
		return p.Name == port.Name || p.Port == port.Port
	}).AppProtocol == appProtocolH2C {
		scheme = "h2c"
	}
	return sliceEndpoints(g, scheme, number)
}

func sliceEndpoints(g *mergedSlices, scheme string, port int) []endpoint {
	addresses := g.endpoints()
	eps := make([]endpoint, len(addresses))
	for i, a := range addresses {
		eps[i] = endpoint{endpointURL(scheme, a.address, port), a.zone}
	}
	return sortEndpoints(eps)
}

// firstPort returns the first TCP port that fits, or the zero port. A port without a protocol never fits.
func firstPort(ports []kube.EndpointPort, fits func(kube.EndpointPort) bool) kube.EndpointPort {
	for _, p := range ports {
		if p.Protocol == "TCP" && fits(p) {
			return p
		}
	}
	return kube.EndpointPort{}
}

// routeGroupEndpoints resolves the target port of a service for a RouteGroup. The scheme is part of the key here: the reference's
// cache mixes up the schemes of groups that share a service port. An empty annotation counts as absent.
func (l *lookups) routeGroupEndpoints(set *settings, key kube.ServiceKey, svc *kube.Service, target kube.TargetPort, protocol *string) []endpoint {
	if protocol != nil && *protocol == "" {
		protocol = nil
	}
	resolve := func() []endpoint {
		if set.EndpointSlices {
			return routeGroupSliceEndpoints(l.cluster.slices[key], target, protocol)
		}
		scheme := "http"
		if protocol != nil {
			scheme = *protocol
		}
		return routeGroupSubsetEndpoints(l.cluster.endpoints[key], target, scheme)
	}
	if !ambiguousTarget(svc) {
		return resolve()
	}
	return l.resolveOnce(endpointsKey{kube.KindRouteGroup, key, cachedScheme(set, protocol), target.String()}, resolve)
}

// ambiguousTarget is ambiguous for RouteGroups, which use only the target port.
func ambiguousTarget(svc *kube.Service) bool {
	for i, p := range svc.Ports {
		for _, q := range svc.Ports[:i] {
			if p.TargetPort != q.TargetPort && p.TargetPort.String() == q.TargetPort.String() {
				return true
			}
		}
	}
	return false
}

// routeGroupSubsetEndpoints uses the first subset that has the target port.
func routeGroupSubsetEndpoints(e *kube.Endpoints, target kube.TargetPort, scheme string) []endpoint {
	if e == nil {
		return nil
	}
	for _, sub := range e.Subsets {
		for _, p := range sub.Ports {
			if target.IsName && p.Name == target.Name || target.IsNumber(p.Port) {
				return subsetEndpoints(sub, p.Port, scheme)
			}
		}
	}
	return nil
}

func routeGroupSliceEndpoints(g *mergedSlices, target kube.TargetPort, protocol *string) []endpoint {
	if g == nil {
		return nil
	}
	port := firstPort(g.ports(), func(p kube.EndpointPort) bool {
		if target.IsName {
			return p.Name == target.Name
		}
		return p.Name == "" || target.IsNumber(p.Port)
	})
	scheme := "http"
	if protocol != nil {
		scheme = *protocol
	} else if port.AppProtocol == appProtocolH2C {
		scheme = "h2c"
	}
	return sliceEndpoints(g, scheme, port.Port)
}

// setEndpoints sets the route's backend for the endpoints: a shunt that answers 502 for none, the address for one, a load
// balancer for more.
func setEndpoints(r *eskip.Route, eps []endpoint, algorithm string) {
	switch len(eps) {
	case 0:
		setNoEndpoints(r)
	case 1:
		r.BackendType = eskip.NetworkBackend
		r.Backend = eps[0].url
	default:
		r.BackendType = eskip.LBBackend
		r.LBAlgorithm = algorithm
		r.LBEndpoints = make([]*eskip.LBEndpoint, len(eps))
		block := make([]eskip.LBEndpoint, len(eps))
		for i, e := range eps {
			block[i] = balanced(e)
			r.LBEndpoints[i] = &block[i]
		}
	}
}

// balanced returns an endpoint of a load balancer as every reader of the table has it: readers remove the zone from the URL, and with
// another spelling a data plane would compute another digest. This changes only schemes in upper case and those with a query, from
// which the reference reads the zone as well.
func balanced(e endpoint) eskip.LBEndpoint {
	if plainURL(e.url) {
		return eskip.LBEndpoint{Address: e.url, Zone: e.zone}
	}
	text := e.url
	if e.zone != "" {
		text += "?zone=" + url.QueryEscape(e.zone) // as the reference writes it, even behind a query
	}
	return *eskip.NewLBEndpoints([]string{text})[0]
}

// plainURL reports whether a URL remains the same when a zone is added and removed.
func plainURL(url string) bool {
	for i := range len(url) {
		c := url[i]
		if (c < 'a' || c > 'z') && (c < '-' || c > ':') && c != '[' && c != ']' { // - . / digits :
			return false
		}
	}
	return true
}

// setNoEndpoints makes the route answer 502 and do nothing else.
func setNoEndpoints(r *eskip.Route) {
	r.BackendType = eskip.ShuntBackend
	r.Filters = []*eskip.Filter{filter("status", 502.0), filter("inlineContent", "no endpoints")}
}

// prepend adds filters before those of a route, in a new slice.
func prepend(r *eskip.Route, filters ...*eskip.Filter) {
	if len(filters) > 0 {
		r.Filters = slices.Concat(filters, r.Filters)
	}
}
