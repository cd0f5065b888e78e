package table

import (
	"iter"
	"strings"
)

// HostsOf yields the hosts of a route, possibly more than once; nothing for a route that answers every host. The compiler joins the
// hosts of a RouteGroup to ^(host|host)$, and wraps the host of an Ingress rule in the same way: such an expression is split at each "|",
// so that ^(a[.]org|b[.]org)$ counts as two hosts, and every other expression is one. They are for counting and comparing, not for
// matching. The strings belong to the route.
func (r *Route) HostsOf() iter.Seq[string] {
	return func(yield func(string) bool) {
		if r.Hosts == "" {
			return
		}
		for expr := range strings.SplitSeq(r.Hosts, "\n") {
			parts := []string{expr}
			if strings.HasPrefix(expr, "^(") && strings.HasSuffix(expr, ")$") {
				parts = strings.Split(expr[len("^("):len(expr)-len(")$")], "|")
			}
			for _, host := range parts {
				if !yield(host) {
					return
				}
			}
		}
	}
}
