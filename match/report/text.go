package report

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/routesrv/routesrv/eskip"
	"github.com/routesrv/routesrv/match"
	"github.com/routesrv/routesrv/shadowdiff"
)

// WriteText prints the result for people, without control characters. It returns the writer's error.
func (v *View) WriteText(w io.Writer) error {
	var b bytes.Buffer
	res := &v.Result
	fmt.Fprintf(&b, "%s %s, table %s with %d routes\n", v.method(), v.URL, v.Table, v.Routes)
	if a := res.Answer; a != nil {
		fmt.Fprintf(&b, "\nno route: the proxy answers %d: %s\n", a.Status, a.Text)
	} else {
		fmt.Fprintf(&b, "host %s, path %s\n", res.Host, res.Path)
		if !res.Decided() {
			fmt.Fprintf(&b, "\nundecided: %d outcomes are possible\n", len(res.Outcomes))
		}
		for _, o := range res.Outcomes {
			v.writeOutcome(&b, o, res.Decided())
		}
		v.writeCandidates(&b, res.Candidates)
	}
	for _, warning := range res.Warnings {
		effect := "would match, behind the route above"
		switch {
		case warning.Partly:
			effect = "might match"
		case warning.Ahead:
			effect = "would win"
		}
		fmt.Fprintf(&b, "\nwarning: route %s (%s) %s, but a proxy does not use it: %s: %s\n",
			warning.Route.Id, v.owner(warning.Route), effect, warning.Reason, warning.Text)
	}
	if n := len(v.Refusals); n > len(res.Warnings) && res.Answer == nil {
		fmt.Fprintf(&b, "\n%d routes of the table are not used by a proxy; those that match this request are above: %d\n", n, len(res.Warnings))
	}
	_, err := io.WriteString(w, shadowdiff.PrintableLines(b.String()))
	return err
}

func (v *View) method() string {
	if m := v.Request.Method; m != "" {
		return m
	}
	return "GET"
}

func (v *View) owner(r *eskip.Route) string { return v.Owner.Of(r.Id).String() }

func (v *View) writeOutcome(b *bytes.Buffer, o match.Outcome, decided bool) {
	share := ""
	if !decided && o.Share >= 0 {
		share = fmt.Sprintf(", for %.4g %% of such requests", 100*o.Share)
	}
	b.WriteByte('\n')
	if o.Route == nil {
		fmt.Fprintf(b, "no route: the proxy answers 404%s\n", share)
		return
	}
	fmt.Fprintf(b, "route %s%s\n", o.Route.Id, share)
	line := func(name, text string) {
		if text != "" {
			fmt.Fprintf(b, "  %-10s  %s\n", name, text)
		}
	}
	line("owner", v.owner(o.Route))
	place := o.Place
	if place == "" {
		place = "no path predicate"
	}
	line("place", fmt.Sprintf("%s, weight %d", place, o.Weight))
	predicates, filters, backend := shadowdiff.Expression(o.Route)
	line("predicates", predicates)
	line("filters", filters)
	line("backend", backend)
	switch o.Route.BackendType {
	case eskip.LoopBackend:
		line("note", "the filters run, and the request they make is looked up again")
	case eskip.ForwardBackend:
		line("note", "a proxy removes the filters and sends the request to its -forward-backend-url")
	}
	for _, name := range slices.Sorted(maps.Keys(o.Params)) {
		line("parameter", name+" = "+o.Params[name])
	}
	for _, u := range o.Open {
		line("if", u.Predicate+": "+u.Why)
	}
	for _, id := range o.Ties {
		line("tie", "with "+id+": same place, same weight; which one wins is arbitrary and changes with every table")
	}
	for _, n := range o.Notes {
		line("note", n)
	}
}

func (v *View) writeCandidates(b *bytes.Buffer, candidates []match.Candidate) {
	if len(candidates) > 0 {
		b.WriteString("\nnext best\n")
	}
	for _, c := range candidates {
		fmt.Fprintf(b, "  %s (%s, weight %d)\n", c.Route.Id, v.owner(c.Route), c.Weight)
		if c.Behind != "" {
			fmt.Fprintf(b, "    matches, but has a lower rank: %s\n", c.Behind)
		}
		for i, l := range c.Lost {
			if i == 0 {
				fmt.Fprintf(b, "    lost: %s\n", l)
			} else {
				fmt.Fprintf(b, "    also: %s\n", l)
			}
		}
		for _, u := range c.Open {
			fmt.Fprintf(b, "    undecided: %s: %s\n", u.Predicate, u.Why)
		}
	}
}
