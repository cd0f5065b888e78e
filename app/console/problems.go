package console

import (
	"cmp"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/routesrv/routesrv/compile/rules"
	"github.com/routesrv/routesrv/poller"
)

// Limits of the list of problems.
const (
	maxProblems   = 50 // on one page, which links to the next one
	maxNamespaces = 24
)

type problemsView struct {
	Errors, Warnings, Infos int // independent of the filter
	Namespaces              []namespaceCount
	MoreNamespaces          int
	Kinds, Reasons          []string // existing ones, for the menus

	Namespace, Kind, Severity, Reason, Query string // filter values; empty means all
	Filtered                                 bool
	Matched                                  int
	First, Last                              int // numbers of the rows, from 1
	Rows                                     []poller.Problem
	Next, Previous                           string // links; empty if there is none
	JSON                                     string // link to all problems that match
	Form                                     bool   // there is something to filter
}

type namespaceCount struct {
	Name, Link       string
	Errors, Warnings int
	Total            int
	Chosen           bool
}

var severities = map[rules.Severity]stateView{
	rules.Error: {"error", "✕", bad}, rules.Warning: {"warning", "▲", notice}, rules.Info: {"info", "●", neutral},
}

// newProblemsView filters by the query: namespace, kind, severity and reason must be equal, q must be part of a text. Empty
// values match everything, so that the form needs no script; "-" stands for no namespace.
func newProblemsView(all []poller.Problem, q url.Values) *problemsView {
	v := &problemsView{
		Namespace: text(q.Get("namespace")), Kind: text(q.Get("kind")), Severity: text(q.Get("severity")), Reason: text(q.Get("reason")),
		Query: text(q.Get("q")), Form: len(all) > 0,
	}
	v.Filtered = v.Namespace+v.Kind+v.Severity+v.Reason+v.Query != ""
	counts := make(map[string]*namespaceCount)
	kinds, reasons := make(map[string]bool), make(map[string]bool)
	var chosen []poller.Problem
	for _, p := range all {
		namespace := text(cmp.Or(p.Owner.Namespace, noNamespace))
		n := counts[namespace]
		if n == nil {
			n = &namespaceCount{Name: cut(namespace, 63), Chosen: namespace == v.Namespace}
			n.Link = link(url.Values{}, "namespace", namespace)
			if n.Chosen {
				n.Link = "./#problems"
			}
			counts[namespace] = n
		}
		n.Total++
		switch p.Severity {
		case rules.Error:
			v.Errors++
			n.Errors++
		case rules.Warning:
			v.Warnings++
			n.Warnings++
		default:
			v.Infos++
		}
		kinds[string(p.Owner.Kind)], reasons[string(p.Reason)] = true, true
		if v.chooses(&p, namespace) {
			chosen = append(chosen, p)
		}
	}
	for _, n := range counts {
		v.Namespaces = append(v.Namespaces, *n)
	}
	slices.SortFunc(v.Namespaces, func(a, b namespaceCount) int {
		first := func(n namespaceCount) int { return map[bool]int{true: 0, false: 1}[n.Chosen] }
		return cmp.Or(first(a)-first(b), b.Errors-a.Errors, b.Warnings-a.Warnings, b.Total-a.Total, strings.Compare(a.Name, b.Name))
	})
	if len(v.Namespaces) > maxNamespaces {
		v.MoreNamespaces = len(v.Namespaces) - maxNamespaces
		v.Namespaces = v.Namespaces[:maxNamespaces]
	}
	v.Kinds, v.Reasons = sorted(kinds, v.Kind), sorted(reasons, v.Reason)
	v.list(chosen, q)
	return v
}

const noNamespace = "-"

// sorted returns the entries of a menu, including the chosen one.
func sorted(set map[string]bool, chosen string) []string {
	if chosen != "" {
		set[chosen] = true
	}
	return slices.Sorted(maps.Keys(set))
}

func (v *problemsView) chooses(p *poller.Problem, namespace string) bool {
	switch {
	case v.Namespace != "" && v.Namespace != namespace,
		v.Kind != "" && v.Kind != string(p.Owner.Kind),
		v.Severity != "" && v.Severity != p.Severity.String(),
		v.Reason != "" && v.Reason != string(p.Reason):
		return false
	case v.Query == "":
		return true
	}
	want := strings.ToLower(v.Query)
	return strings.Contains(strings.ToLower(p.Owner.String()), want) || strings.Contains(strings.ToLower(p.Route), want) ||
		strings.Contains(strings.ToLower(p.Text()), want) || p.ID() == want
}

func (v *problemsView) list(chosen []poller.Problem, q url.Values) {
	slices.SortStableFunc(chosen, func(a, b poller.Problem) int { return int(b.Severity) - int(a.Severity) })
	v.Matched = len(chosen)
	from, err := strconv.Atoi(q.Get("from"))
	if err != nil || from < 1 || from > len(chosen) {
		from = 1
	}
	rows := chosen[min(from-1, len(chosen)):]
	if len(rows) > maxProblems {
		rows = rows[:maxProblems]
		v.Next = link(q, "from", strconv.Itoa(from+maxProblems))
	}
	if from > 1 {
		v.Previous = link(q, "from", strconv.Itoa(max(from-maxProblems, 1)))
	}
	v.First, v.Last = from, from+len(rows)-1
	v.JSON = "problems" + jsonQuery(v)
	v.Rows = rows
}

// jsonQuery returns the query of /problems for the same filter. It has no text search.
func jsonQuery(v *problemsView) string {
	q := url.Values{}
	for name, value := range map[string]string{"namespace": v.Namespace, "kind": v.Kind, "severity": v.Severity, "reason": v.Reason} {
		switch {
		case name == "namespace" && value == noNamespace:
			q.Set(name, "")
		case value != "":
			q.Set(name, value)
		}
	}
	if len(q) == 0 {
		return ""
	}
	return "?" + q.Encode()
}

func link(q url.Values, name, value string) string {
	next := url.Values{}
	for _, known := range []string{"namespace", "kind", "severity", "reason", "q"} {
		if s := q.Get(known); s != "" {
			next.Set(known, s)
		}
	}
	next.Set(name, value)
	return "./?" + next.Encode() + "#problems"
}

// routeLink returns the page of the object that a route comes from. It uses the id of the route, because the object's name cannot
// be derived from the id: characters other than letters, digits and underscores are underscores in it.
func routeLink(id string) string { return "object?" + url.Values{"route": {id}}.Encode() }
