package compile

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/routesrv/routesrv/kube"
)

// maxServiceZones is how many zones the endpoints of a service may have. Clouds have up to six in a region.
const maxServiceZones = 16

// limitZones returns the endpoints without their zones where these exceed the limit: the zones with the most endpoints stay. It returns
// how many zones there are. It does not change its argument.
func limitZones(eps []endpoint) (limited []endpoint, zones int) {
	var few [maxServiceZones]string // nearly always enough, and cheaper than a map
	for _, e := range eps {
		if e.zone == "" || slices.Contains(few[:min(zones, maxServiceZones)], e.zone) {
			continue
		}
		if zones == maxServiceZones {
			return mostUsed(eps)
		}
		few[zones] = e.zone
		zones++
	}
	return eps, zones
}

func mostUsed(eps []endpoint) (limited []endpoint, zones int) {
	count := make(map[string]int)
	for _, e := range eps {
		if e.zone != "" {
			count[e.zone]++
		}
	}
	names := make([]string, 0, len(count))
	for name := range count {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Or(cmp.Compare(count[b], count[a]), strings.Compare(a, b)) })
	keep := make(map[string]bool, maxServiceZones)
	for _, name := range names[:maxServiceZones] {
		keep[name] = true
	}
	limited = slices.Clone(eps)
	for i := range limited {
		if !keep[limited[i].zone] {
			limited[i].zone = ""
		}
	}
	return limited, len(names)
}

// zonesOf limits the zones of the endpoints of a service, and reports it.
func (u *unit) zonesOf(key kube.ServiceKey, eps []endpoint) []endpoint {
	limited, zones := limitZones(eps)
	if zones > maxServiceZones {
		u.addOnce(Problem{
			Reason: TooManyZones, Severity: Warning, about: key.Name,
			Message: fmt.Sprintf("the endpoints of service %s are in %d zones, and only the %d with the most endpoints count", key.Name, zones, maxServiceZones),
			detail: fmt.Sprintf("the pods of Service %q are in %d zones; only the %d zones with the most pods count, and proxies in other zones use all pods",
				key.Name, zones, maxServiceZones),
		})
	}
	return limited
}
