package table

import (
	"iter"
	"maps"
	"slices"
	"strings"
)

// Hosts returns the distinct hosts in the table's host expressions, sorted; see [Route.HostsOf]. The slice is shared: it must not be
// changed.
func (t *Table) Hosts() []string { return t.hosts() }

// hostsOf returns the distinct hosts of all blocks, sorted.
func hostsOf(blocks []*Block) []string {
	distinct := make(map[string]struct{})
	for _, b := range blocks {
		for _, hosts := range b.hosts {
			for host := range splitHosts(hosts) {
				distinct[host] = struct{}{}
			}
		}
	}
	return slices.Sorted(maps.Keys(distinct))
}

// HostsOf yields the hosts of a route, possibly more than once; nothing for a route that answers every host. The compiler joins the
// hosts of a RouteGroup to ^(host|host)$, and wraps the host of an Ingress rule in the same way: such an expression is split at each "|",
// so that ^(a[.]org|b[.]org)$ counts as two hosts, and every other expression is one. They are for counting and comparing, not for
// matching. The strings belong to the route.
func (r *Route) HostsOf() iter.Seq[string] { return splitHosts(r.Hosts) }

func splitHosts(hosts string) iter.Seq[string] {
	return func(yield func(string) bool) {
		if hosts == "" {
			return
		}
		for expr := range strings.SplitSeq(hosts, "\n") {
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
