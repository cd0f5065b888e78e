package console

import (
	"cmp"
	"net/url"
	"slices"
	"strings"

	"github.com/routesrv/routesrv/compile/rules"
	"github.com/routesrv/routesrv/poller"
)

// Limits of the list of problems.
const (
	maxProblems   = 100
	maxNamespaces = 24
)

type problemsView struct {
	Errors, Warnings, Infos int // independent of the filter
	Namespaces              []namespaceCount
	MoreNamespaces          int
	Namespace, Query        string // filter values; empty means all
	Matched                 int
	Rows                    []poller.Problem
	JSON                    string // link to all problems of the namespace
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

// noNamespace stands for objects without a namespace in the filter, where an empty value matches everything.
const noNamespace = "-"

// newProblemsView filters by the query: namespace must be equal, q must be part of a text.
func newProblemsView(all []poller.Problem, q url.Values) *problemsView {
	v := &problemsView{Namespace: text(q.Get("namespace")), Query: text(q.Get("q")), JSON: "problems"}
	if v.Namespace != "" {
		v.JSON += "?" + url.Values{"namespace": {strings.TrimPrefix(v.Namespace, noNamespace)}}.Encode()
	}
	counts := make(map[string]*namespaceCount)
	for _, p := range all {
		namespace := text(cmp.Or(p.Owner.Namespace, noNamespace))
		n := counts[namespace]
		if n == nil {
			n = &namespaceCount{Name: cut(namespace, 63), Chosen: namespace == v.Namespace}
			n.Link = "./?" + url.Values{"namespace": {namespace}}.Encode() + "#problems"
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
		if (v.Namespace == "" || v.Namespace == namespace) && contains(&p, q.Get("q")) {
			v.Rows = append(v.Rows, p)
		}
	}
	for _, n := range counts {
		v.Namespaces = append(v.Namespaces, *n)
	}
	slices.SortFunc(v.Namespaces, func(a, b namespaceCount) int {
		return cmp.Or(b.Errors-a.Errors, b.Warnings-a.Warnings, b.Total-a.Total, strings.Compare(a.Name, b.Name))
	})
	v.MoreNamespaces = max(len(v.Namespaces)-maxNamespaces, 0)
	v.Namespaces = v.Namespaces[:len(v.Namespaces)-v.MoreNamespaces]
	slices.SortStableFunc(v.Rows, func(a, b poller.Problem) int { return int(b.Severity) - int(a.Severity) })
	v.Matched = len(v.Rows)
	v.Rows = v.Rows[:min(v.Matched, maxProblems)]
	return v
}

// contains reports whether the texts of a problem contain part, in any case of letters.
func contains(p *poller.Problem, part string) bool {
	all := strings.Join([]string{p.Severity.String(), p.Owner.String(), p.Route, string(p.Reason), p.Text()}, "\n")
	return strings.Contains(strings.ToLower(all), strings.ToLower(part)) || p.ID() == part
}
