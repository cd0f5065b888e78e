package trial

import (
	"cmp"
	"slices"
	"strings"

	"github.com/routesrv/routesrv/eskip"
)

// Call is a filter or a predicate with its arguments, as a route has it: what a proxy creates when it loads a table. It is printed without
// the route around it, so that equal calls of many routes are one.
type Call struct {
	Text      string `json:"text"` // such as compress(-1)
	Predicate bool   `json:"predicate,omitempty"`
}

// String returns the call as it is written in a route.
func (c Call) String() string { return c.Text }

// Calls returns the distinct calls of routes, sorted. Conditions on hosts, paths, methods and headers without expressions are no calls: they are
// data of the proxy's own matcher, and differ from route to route.
func Calls(routes ...*eskip.Route) []Call {
	var all []Call
	for _, r := range routes {
		for _, f := range r.Filters {
			all = append(all, Call{Text: f.String()})
		}
		for _, p := range r.Predicates {
			switch p.Name {
			case "Path", "PathSubtree", "Host", "HostAny", "Method", "Methods", "Header", "Weight", "True", "False", "Any", "*":
			default:
				all = append(all, Call{Text: p.String(), Predicate: true})
			}
		}
		for _, expr := range r.PathRegexps {
			all = append(all, Call{Text: (&eskip.Predicate{Name: "PathRegexp", Args: []any{expr}}).String(), Predicate: true})
		}
		for name, list := range r.HeaderRegexps {
			for _, expr := range list {
				all = append(all, Call{Text: (&eskip.Predicate{Name: "HeaderRegexp", Args: []any{name, expr}}).String(), Predicate: true})
			}
		}
	}
	slices.SortFunc(all, compareCalls)
	return slices.Compact(all)
}

// name returns the name of the filter or predicate.
func (c Call) name() string {
	name, _, _ := strings.Cut(c.Text, "(")
	return name
}

// usable reports whether a request may go through the filter. It may not if it would leave the container, to a backend of a tenant or to a
// service that the filter names, or if the filter is there to make requests slow. Such filters are loaded, and not used.
func (c Call) usable() bool {
	name := strings.ToLower(c.name())
	return !slices.ContainsFunc([]string{
		"tee", "webhook", "oauth", "oidc", "opa", "lua", "grant", "tokeninfo", "introspection", "dynamicbackend", "forwardtoken", "jwtvalidation",
		"latency", "tarpit", "chunks", "bandwidth", "randomcontent", "repeatcontent",
	}, func(word string) bool { return strings.Contains(name, word) })
}

func compareCalls(a, b Call) int {
	return cmp.Or(strings.Compare(a.Text, b.Text), boolRank(a.Predicate)-boolRank(b.Predicate))
}

func boolRank(b bool) int {
	if b {
		return 1
	}
	return 0
}
