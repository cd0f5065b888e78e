package rules

import (
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/routesrv/routesrv/eskip"
	"github.com/routesrv/routesrv/kube"
)

// endpoint is the address of an endpoint, or its URL, with its zone.
type endpoint struct{ address, zone string }

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
	slices.SortStableFunc(eps, func(a, b endpoint) int { return strings.Compare(a.address, b.address) })
	return eps
}

func inZone(eps []endpoint, zone string) []endpoint {
	if zone == "" {
		return eps
	}
	own := slices.DeleteFunc(slices.Clone(eps), func(e endpoint) bool { return e.zone != zone })
	if len(own) < zoneMinimum {
		return eps
	}
	return own
}

// endpointsKey is the key of the reference's cache of endpoints, which lacks the name of the service port.
type endpointsKey struct {
	kind    kube.Kind
	service kube.ServiceKey
	scheme  string
	target  string
}

// ambiguous reports whether two ports of the service have the same text as target port but differ otherwise: for an Ingress in
// name or number, or in whether the target is a name. The reference then uses, for the whole load, the result of the port that
// was converted first, and so does this package: objects that refer to such a service cannot be cached.
func ambiguous(kind kube.Kind, svc *kube.Service) bool {
	for i, p := range svc.Ports {
		for _, q := range svc.Ports[:i] {
			differ := p.TargetPort != q.TargetPort || kind == kube.KindIngress && p != q
			if differ && p.TargetPort.String() == q.TargetPort.String() {
				return true
			}
		}
	}
	return false
}

// endpointsOf resolves a service port. An empty protocol counts as absent, except for Ingresses with Endpoints.
func (u *Unit) endpointsOf(kind kube.Kind, key kube.ServiceKey, port kube.ServicePort, annotations kube.Pairs) []endpoint {
	var scheme string // empty: the scheme of the port
	protocol, given := annotations.Lookup(protocolAnnotation)
	switch {
	case given && (protocol != "" || kind == kube.KindIngress && !u.set.EndpointSlices):
		scheme = protocol
	case !u.set.EndpointSlices:
		scheme = "http"
	}
	resolve := func() []endpoint {
		if u.set.EndpointSlices {
			return sliceEndpoints(kind, u.lookups.backing(key).slices, port, scheme)
		}
		return subsetEndpoints(kind, u.lookups.backing(key).endpoints, port, scheme)
	}
	if !ambiguous(kind, u.lookups.service(key)) {
		return resolve()
	}
	return u.lookups.resolveOnce(endpointsKey{kind, key, scheme, port.TargetPort.String()}, resolve)
}

// resolveOnce returns what the first user of the key got in this compilation.
func (l *lookups) resolveOnce(k endpointsKey, resolve func() []endpoint) []endpoint {
	l.volatile = true
	r, ok := l.view.resolved[k]
	if !ok {
		r = resolution{resolve(), l.view.user}
		l.view.resolved[k] = r
	}
	return r.endpoints
}

type resolution struct {
	endpoints []endpoint
	user      kube.Ref
}

// subsetEndpoints uses the first subset with the target port, or for an Ingress the port's name or a single port.
func subsetEndpoints(kind kube.Kind, e *kube.Endpoints, port kube.ServicePort, scheme string) []endpoint {
	if e == nil {
		return nil
	}
	for i := range e.Subsets {
		sub := &e.Subsets[i]
		found, ok := subsetPort(kind, sub, port)
		if !ok {
			continue
		}
		eps := make([]endpoint, len(sub.Addresses))
		for i, a := range sub.Addresses {
			eps[i].address = endpointURL(scheme, a, found.Port)
		}
		return sortEndpoints(eps)
	}
	return nil
}

func subsetPort(kind kube.Kind, sub *kube.Subset, port kube.ServicePort) (kube.EndpointPort, bool) {
	target := port.TargetPort
	return first(sub.Ports, func(p kube.EndpointPort) bool {
		if kind == kube.KindIngress {
			return p.Name == port.Name || len(sub.Ports) == 1
		}
		return target.IsName && p.Name == target.Name || target.IsNumber(p.Port)
	})
}

// sliceEndpoints resolves a service port in the merged slices. A port that is not found becomes 0, as in the reference.
func sliceEndpoints(kind kube.Kind, g mergedSlices, port kube.ServicePort, scheme string) []endpoint {
	if len(g) == 0 {
		return nil
	}
	found, _ := slicePort(kind, g[len(g)-1].Ports, port) // the last slice counts
	number := found.Port
	if fixedNumber(kind, port) {
		number = port.TargetPort.Number
	}
	switch {
	case scheme != "":
	case found.AppProtocol == appProtocolH2C:
		scheme = "h2c"
	default:
		scheme = "http"
	}
	eps := g.endpoints()
	for i := range eps {
		eps[i].address = endpointURL(scheme, eps[i].address, number)
	}
	return sortEndpoints(eps)
}

func slicePort(kind kube.Kind, ports []kube.EndpointPort, port kube.ServicePort) (kube.EndpointPort, bool) {
	target := port.TargetPort
	return first(ports, func(p kube.EndpointPort) bool {
		switch {
		case p.Protocol != "TCP": // a port without a protocol never fits
			return false
		case kind == kube.KindIngress:
			return p.Name == port.Name || p.Port == port.Port
		case target.IsName:
			return p.Name == target.Name
		}
		return p.Name == "" || target.IsNumber(p.Port)
	})
}

// fixedNumber reports whether the service itself, not the slices, sets the number of the port.
func fixedNumber(kind kube.Kind, port kube.ServicePort) bool {
	return kind == kube.KindIngress && port.Name == "" && !port.TargetPort.IsName
}

func first[T any](list []T, fits func(T) bool) (found T, ok bool) {
	if at := slices.IndexFunc(list, fits); at >= 0 {
		return list[at], true
	}
	return found, false
}

func setEndpoints(r *eskip.Route, eps []endpoint, algorithm string) {
	switch len(eps) {
	case 0:
		r.BackendType = eskip.ShuntBackend
		r.Filters = []*eskip.Filter{filter("status", 502.0), filter("inlineContent", "no endpoints")}
	case 1:
		r.BackendType = eskip.NetworkBackend
		r.Backend = eps[0].address
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

// balanced returns an endpoint of a load balancer as every reader of the table has it: readers remove the zone from the URL,
// and with another spelling a data plane would compute another digest.
func balanced(e endpoint) eskip.LBEndpoint {
	text := e.address
	if plainURL(text) {
		return eskip.LBEndpoint{Address: text, Zone: e.zone}
	}
	if e.zone != "" {
		text += "?zone=" + url.QueryEscape(e.zone) // as the reference writes it, even behind a query
	}
	return *eskip.NewLBEndpoints([]string{text})[0]
}

// plainURL reports whether a URL remains the same when a zone is added and removed.
func plainURL(url string) bool {
	return !strings.ContainsFunc(url, func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < '-' || c > ':') && c != '[' && c != ']' // - . / digits :
	})
}

// mergedSlices are all slices of one service that list ports, in the order of the snapshot.
type mergedSlices []*kube.EndpointSlice

// endpoints returns the ready addresses. One that terminates in any slice is excluded.
func (g mergedSlices) endpoints() []endpoint {
	var all []endpoint
	position := make(map[string]int) // in all, by address; deleted for a terminating one
	const gone = -1
	for _, s := range g {
		for i := range s.Endpoints {
			e := &s.Endpoints[i]
			at, known := position[e.Address]
			switch {
			case e.NoAddress:
			case e.Terminating:
				position[e.Address] = gone
			case !e.Ready:
			case !known:
				position[e.Address] = len(all)
				all = append(all, endpoint{e.Address, e.Zone})
			case at != gone:
				all[at].zone = e.Zone // the last zone counts
			}
		}
	}
	return slices.DeleteFunc(all, func(a endpoint) bool { return position[a.address] == gone })
}

// Addresses returns the ready addresses of a service, sorted as strings, for the shard endpoints.
func (v *View) Addresses(namespace, name string) []string {
	var all []string
	for _, a := range v.service(kube.ServiceKey{Namespace: namespace, Name: name}).slices.endpoints() {
		all = append(all, a.address)
	}
	if e := v.service(kube.ServiceKeyOf(namespace, name)).endpoints; e != nil {
		for _, sub := range e.Subsets {
			all = append(all, sub.Addresses...)
		}
	}
	slices.Sort(all)
	return all
}
