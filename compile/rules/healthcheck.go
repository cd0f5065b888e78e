package rules

import (
	"slices"

	"github.com/routesrv/routesrv/eskip"
	"github.com/routesrv/routesrv/internal/routeid"
)

// healthcheckNetworks may use the health-check routes: the private networks and the local host.
var healthcheckNetworks = []string{
	"10.0.0.0/8", "192.168.0.0/16", "172.16.0.0/12", "127.0.0.1/8", "fd00::/8", "::1/128",
}

const healthcheckPath = "/kube-system/healthz"

// healthcheckRoutes returns routes that answer 200, and 503 while the proxy shuts down.
func healthcheckRoutes(set *Set) []*eskip.Route {
	source := "Source"
	if set.ReverseSource {
		source = "SourceFromLast"
	}
	var networks []any
	for _, n := range slices.Concat(healthcheckNetworks, set.HealthcheckCIDRs) {
		networks = append(networks, n)
	}
	up := &eskip.Route{
		Id:          routeid.HealthzUp,
		Path:        healthcheckPath,
		Predicates:  []*eskip.Predicate{predicate(source, networks...)},
		Filters:     []*eskip.Filter{filter("disableAccessLog", 200.0), filter("status", 200.0)},
		BackendType: eskip.ShuntBackend,
	}
	if set.HealthcheckAccessLog {
		up.Filters = up.Filters[1:]
	}
	down := &eskip.Route{
		Id:          routeid.HealthzDown,
		Path:        healthcheckPath,
		Predicates:  []*eskip.Predicate{predicate(source, networks...), predicate("Shutdown")},
		Filters:     []*eskip.Filter{filter("status", 503.0)},
		BackendType: eskip.ShuntBackend,
	}
	return []*eskip.Route{up, down}
}

// oauthCallback returns the route to which the OAuth provider redirects the browser.
func oauthCallback(path string) *eskip.Route {
	return &eskip.Route{
		Id:          routeid.OAuthCallback,
		Path:        path,
		Filters:     []*eskip.Filter{filter("grantCallback")},
		BackendType: eskip.ShuntBackend,
	}
}
