package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/routesrv/routesrv/compile/rules"
	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/shadowdiff"
)

// rank orders findings: the lowest one is reported as the cause.
type rank int

const (
	rankBroken  rank = iota // the whole object produces nothing
	rankError               // a part of it was left out, or its requests get errors
	rankLoop                // its redirects form a loop
	rankRefused             // proxies refuse some of its routes
	rankNoPods              // no ready pods
	rankOther               // other objects get its requests
	rankShared              // other objects get some of its requests
	rankWaiting             // the latest change is not served
	rankWarning
	rankInfo
)

type finding struct {
	owner    kube.Ref
	rank     rank
	severity rules.Severity
	route    string
	what, do string
}

func (x *explainer) warn(owner kube.Ref, r rank, route, what, do string) {
	x.findings = append(x.findings, finding{owner: owner, rank: r, severity: rules.Warning, route: route, what: what, do: do})
}

func ofProblem(owner kube.Ref, p rules.Problem) finding {
	f := finding{owner: owner, severity: p.Severity, route: p.Route, what: p.What(), do: p.Advice(), rank: rankInfo}
	switch {
	case p.Reason == rules.Undecodable, p.Reason == rules.InvalidObject:
		f.rank = rankBroken
	case p.Reason == rules.NotSelected:
		f.rank, f.severity = rankBroken, rules.Error // an error to the user who asks, even if the fleet is not affected
	case p.Severity == rules.Error:
		f.rank = rankError
	case p.Reason == rules.WouldReject, p.Reason == rules.InvalidExpression:
		f.rank = rankRefused
	case p.Reason == rules.NoEndpoints, p.Reason == rules.PortDiffers:
		f.rank = rankNoPods
	case p.Reason == rules.Shadows:
		f.rank = rankShared
	case p.Severity == rules.Warning:
		f.rank = rankWarning
	}
	return f
}

func (x *explainer) worst() *finding {
	found := slices.DeleteFunc(slices.Clone(x.findings), func(f finding) bool { return f.rank == rankInfo && f.do == "" })
	if len(found) == 0 {
		return nil
	}
	rankOf := func(f finding) rank {
		if x.out.Query.Route != "" && f.route == x.out.Query.Route {
			return f.rank - rankInfo - 1 // the route in question comes first
		}
		return f.rank
	}
	slices.SortStableFunc(found, func(a, b finding) int { return cmp.Compare(rankOf(a), rankOf(b)) })
	return &found[0]
}

func (x *explainer) report(f *finding) {
	x.out.Cause = fmt.Sprintf("%s: %s.", f.owner, f.what)
	x.out.Advice = f.do
	x.out.Result = f.severity.String()
	for _, other := range x.findings {
		if other.severity > f.severity && other.rank != rankInfo {
			x.out.Result = other.severity.String()
		}
	}
}

func (x *explainer) conclude(ref kube.Ref) {
	if f := x.worst(); f != nil {
		x.report(f)
		return
	}
	o := &x.out.Objects[0]
	x.out.Result = "fine"
	main := 0
	for _, r := range o.Routes {
		if r.Main {
			main++
		}
	}
	text := fmt.Sprintf("%s is served: %s", ref, shadowdiff.Plural(main, "route"))
	var hosts []string
	for _, h := range o.Hosts {
		hosts = append(hosts, h.Host)
	}
	if len(hosts) > 0 {
		text += " for " + short(hosts, 3)
	}
	for i, s := range o.Services {
		if i == 3 {
			text += ", and more"
			break
		}
		if s.Type != "ExternalName" && !x.WithoutPods {
			text += fmt.Sprintf(", %s behind Service %s", shadowdiff.Plural(s.Ready, "ready pod"), s.Name)
		}
	}
	x.out.Cause = text + "."
	if len(o.Notes) > 0 {
		x.out.Advice = "Note: " + o.Notes[0]
	}
}

func short(names []string, most int) string {
	if len(names) > most {
		return strings.Join(names[:most], ", ") + fmt.Sprintf(" and %d more", len(names)-most)
	}
	return strings.Join(names, ", ")
}
