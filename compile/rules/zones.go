package rules

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/routesrv/routesrv/kube"
)

// maxServiceZones is how many zones the endpoints of a service may have. Clouds have up to six in a region.
const maxServiceZones = 16

// limitZones returns the endpoints without their zones where these exceed the limit: the zones with the most endpoints stay. It returns
// how many zones there are. It does not change its argument.
func limitZones(eps []endpoint) (limited []endpoint, zones int) {
	count := make(map[string]int)
	for _, e := range eps {
		if e.zone != "" {
			count[e.zone]++
		}
	}
	if len(count) <= maxServiceZones {
		return eps, len(count)
	}
	names := slices.SortedFunc(maps.Keys(count), func(a, b string) int { return cmp.Or(cmp.Compare(count[b], count[a]), strings.Compare(a, b)) })
	limited = slices.Clone(eps)
	for i := range limited {
		if slices.Contains(names[maxServiceZones:], limited[i].zone) {
			limited[i].zone = ""
		}
	}
	return limited, len(names)
}

// zonesOf limits the zones of the endpoints of a service, and reports it.
func (u *Unit) zonesOf(key kube.ServiceKey, eps []endpoint) []endpoint {
	limited, zones := limitZones(eps)
	if zones > maxServiceZones {
		u.addOnce(Problem{
			Reason: TooManyZones, Severity: Warning, About: key.Name,
			Message: fmt.Sprintf("the endpoints of service %s are in %d zones, and only the %d with the most endpoints count", key.Name, zones, maxServiceZones),
			Detail: fmt.Sprintf("the pods of Service %q are in %d zones; only the %d zones with the most pods count, and proxies in other zones use all pods",
				key.Name, zones, maxServiceZones),
		})
	}
	return limited
}
