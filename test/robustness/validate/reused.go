package validate

import (
	"net/netip"
	"reflect"
	"slices"
	"strings"

	"github.com/routesrv/routesrv/eskip"
	"github.com/routesrv/routesrv/kube"
)

// A service that keeps its previous addresses gives up those that another service has by now: pods of others may answer there. So a route
// of it may have fewer endpoints than any state of its objects.

// shed reports whether the routes of an object are those of a combination, but for endpoints whose address another service has in the
// window.
func (j *judgement) shed(t *thing, c combination, own []int) bool {
	// Of all zones: without an address, a zone may have too few endpoints to be served alone.
	want := j.oracle.parted(c, "").mine
	if len(want) != len(own) {
		return false
	}
	var taken map[string]bool
	for n, i := range own {
		l := j.lines[i]
		switch {
		case l.id != want[n].id:
			return false
		case l.text == want[n].text:
			continue
		case taken == nil:
			taken = j.addressesOfOthers(t)
		}
		if !fewerEndpoints(l.text, want[n].text, taken, j.zone) {
			return false
		}
	}
	return true
}

// servicesChanged reports whether a service of an object was ever another than in its first state: one that lost a port keeps its
// endpoints.
func (j *judgement) servicesChanged(t *thing) bool {
	for _, s := range t.between(0, j.hi) {
		if s.object == nil {
			continue
		}
		for _, name := range servicesOf(s.object) {
			for _, of := range j.epoch.services[kube.ServiceKeyOf(t.ref.Namespace, name)] {
				var first *kube.Service
				for _, state := range of.between(0, j.hi) {
					now, _ := state.object.(*kube.Service)
					switch {
					case first == nil:
						first = now // or it does not exist yet
					case now == nil || !reflect.DeepEqual(first, now):
						return true
					}
				}
			}
		}
	}
	return false
}

// addressesOfOthers returns the addresses that the slices of other services have at some time of the window.
func (j *judgement) addressesOfOthers(t *thing) map[string]bool {
	own := make(map[kube.ServiceKey]bool)
	for _, s := range t.states {
		if s.object != nil {
			for _, name := range servicesOf(s.object) {
				own[kube.ServiceKeyOf(t.ref.Namespace, name)] = true
			}
		}
	}
	taken := make(map[string]bool)
	for key, things := range j.epoch.services {
		if own[key] {
			continue
		}
		for _, of := range things {
			for _, s := range of.between(0, j.hi) { // a kept service may have shed an address earlier in the hold
				if slice, ok := s.object.(*kube.EndpointSlice); ok {
					for _, e := range slice.Endpoints {
						taken[e.Address] = true
					}
				}
			}
		}
	}
	return taken
}

// fewerEndpoints reports whether a route is another one without some of its endpoints, all of which have an address among these, or belong
// to another zone than the one that is served alone.
func fewerEndpoints(text, whole string, taken map[string]bool, zone string) bool {
	got, want := single(text), single(whole)
	if got == nil || want == nil {
		return false
	}
	left, all := endpointsOf(got), endpointsOf(want)
	if len(left) == 0 || len(left) >= len(all) {
		return false
	}
	same := func(e *eskip.LBEndpoint) func(*eskip.LBEndpoint) bool {
		return func(o *eskip.LBEndpoint) bool {
			return o.Address == e.Address && (o.Zone == e.Zone || got.BackendType == eskip.NetworkBackend)
		}
	}
	if slices.ContainsFunc(left, func(e *eskip.LBEndpoint) bool { return !slices.ContainsFunc(all, same(e)) }) {
		return false
	}
	alone := zone != "" && len(left) >= minZone && !slices.ContainsFunc(left, func(e *eskip.LBEndpoint) bool { return e.Zone != zone })
	for _, e := range all {
		if alone && e.Zone != zone {
			continue
		}
		if !slices.ContainsFunc(left, same(e)) && !taken[hostOf(e.Address)] {
			return false
		}
	}
	for _, r := range []*eskip.Route{got, want} {
		r.BackendType, r.Backend, r.LBEndpoints, r.LBAlgorithm = eskip.LBBackend, "", nil, ""
	}
	return eskip.Eq(got, want)
}

// hostOf returns the IP address of an endpoint; "" if it has none.
func hostOf(endpoint string) string {
	host, err := netip.ParseAddrPort(strings.TrimPrefix(strings.TrimPrefix(endpoint, "http://"), "https://"))
	if err != nil {
		return ""
	}
	return host.Addr().String()
}

// minZone is how many endpoints of a zone are served without those of other zones (spec/routesrv.md).
const minZone = 3

func single(text string) *eskip.Route {
	routes, err := eskip.Parse(text)
	if err != nil || len(routes) != 1 {
		return nil
	}
	return routes[0]
}

func endpointsOf(r *eskip.Route) []*eskip.LBEndpoint {
	if r.BackendType == eskip.NetworkBackend {
		return eskip.NewLBEndpoints([]string{r.Backend})
	}
	return r.LBEndpoints
}
