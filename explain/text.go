package explain

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/routesrv/routesrv/shadowdiff"
)

// Limits of the text, which must fit on a screen.
const (
	textObjects  = 3
	textRoutes   = 8
	textRequests = 6
	textProblems = 8
	textHosts    = 6
	textServices = 6
	textWidth    = 160
)

// WriteText prints an explanation for people: the cause, what to do, then the evidence. It escapes control characters.
func (e *Explanation) WriteText(w io.Writer) error {
	var b bytes.Buffer
	b.WriteString(e.Cause + "\n")
	if e.Advice != "" {
		b.WriteString(e.Advice + "\n")
	}
	for _, o := range e.Objects[:min(len(e.Objects), textObjects)] {
		writeObject(&b, &o)
	}
	if n := e.Total - textObjects; n > 0 {
		fmt.Fprintf(&b, "\n%s more; -o json has the first %d\n", shadowdiff.Plural(n, "object"), maxObjects)
	}
	_, err := io.WriteString(w, shadowdiff.PrintableLines(b.String()))
	return err
}

var newestText = map[string]string{
	NewestDeleted:   "deleted; all lines here show the served state",
	NewestChanged:   "changed; all lines here show the served state",
	NewestEndpoints: "its services have no ready pods; the pods here are the served ones",
}

func writeObject(b *bytes.Buffer, o *Object) {
	line := func(name, text string) { fmt.Fprintf(b, "  %-9s  %s\n", name, text) }
	fmt.Fprintf(b, "\n%s\n", o.Owner)
	selected := "yes: "
	if !o.Selected {
		selected = "no: "
	}
	line("selected", selected+o.Selection)
	if text := newestText[o.Newest]; text != "" {
		line("newest", text)
	}
	if o.Changed != "" {
		at, by, _ := strings.Cut(o.Changed, " ")
		line("changed", at+" by "+by)
	}
	list := func(name string, n, most int, text func(i int) string) {
		for i := range min(n, most) {
			line(name, text(i))
		}
		if n > most {
			line(name, fmt.Sprintf("and %d more", n-most))
		}
	}
	list("host", len(o.Hosts), textHosts, func(i int) string { return o.Hosts[i].text() })
	list("service", len(o.Services), textServices, func(i int) string { return o.Services[i].text() })
	list("problem", len(o.Problems), textProblems, func(i int) string { return o.Problems[i].text() })
	writeRoutes(b, o, line)
	if f := o.Fleet; f != nil {
		line("fleet", fmt.Sprintf("%d of %s hold a table with these routes", f.Holders, shadowdiff.Plural(f.Clients, "client")))
	}
	list("request", len(o.Requests), textRequests, func(i int) string { return o.Requests[i].text() })
	for _, n := range o.Notes {
		line("note", n)
	}
}

func (h *Host) text() string {
	if len(h.Others) == 0 {
		return h.Host
	}
	var names []string
	for _, other := range h.Others {
		names = append(names, other.String())
	}
	have := "has"
	if len(names) > 1 {
		have = "have"
	}
	return fmt.Sprintf("%s, which %s %s as well", h.Host, short(names, 3), have)
}

func (p *Problem) text() string {
	text := fmt.Sprintf("%s %s (%s): %s", p.Severity, p.Reason, p.ID, p.What)
	if p.Since != nil {
		text += ", since " + p.Since.UTC().Format("2006-01-02T15:04:05Z")
	}
	return text
}

func (r *Request) text() string {
	answer := r.Method + " " + r.URL + ": "
	switch r.Result {
	case "own":
		return answer + "this object answers"
	case "none":
		return answer + "no route matches"
	case "loop":
		return answer + r.Why
	case "shared":
		return answer + fmt.Sprintf("%s (%s) may answer as well: %s", r.Owner, r.Winner, r.Why)
	}
	return answer + fmt.Sprintf("%s answers (%s): %s", r.Owner, r.Winner, r.Why)
}

func (s *Service) text() string {
	name := s.Namespace + "/" + s.Name
	if !s.Exists {
		return name + " does not exist"
	}
	text := fmt.Sprintf("%s, ports %s; %d ready, %d not ready", name, cmp.Or(strings.Join(s.Ports, ", "), "none"), s.Ready, s.NotReady)
	var zones []string
	for _, zone := range slices.Sorted(maps.Keys(s.Zones)) {
		if zone != "" {
			zones = append(zones, fmt.Sprintf("%s %d", zone, s.Zones[zone]))
		}
	}
	if len(zones) > 0 {
		text += " (" + strings.Join(zones, ", ") + ")"
	}
	return text
}

// writeRoutes prints the main routes, unserved ones first, and counts companions.
func writeRoutes(b *bytes.Buffer, o *Object, line func(name, text string)) {
	routes := slices.Clone(o.Routes)
	slices.SortStableFunc(routes, func(x, y Route) int { return order(x) - order(y) })
	shown, companions := 0, 0
	for _, r := range routes {
		if !r.Main {
			companions++
			continue
		}
		if shown++; shown > textRoutes {
			continue
		}
		state := strings.ReplaceAll(r.State, "_", " ")
		if r.Why != "" {
			state += ", " + r.Why
		}
		line("route", r.ID+": "+state)
		if r.Predicates != "" {
			text := r.Predicates
			if r.Filters != "" {
				text += " -> " + r.Filters
			}
			if len(text) > textWidth {
				text = strings.ToValidUTF8(text[:textWidth], "") + " …"
			}
			fmt.Fprintf(b, "             %s -> %s\n", text, r.Backend)
		}
	}
	if shown > textRoutes {
		line("route", fmt.Sprintf("and %d more", shown-textRoutes))
	}
	switch {
	case o.TotalRoutes > len(o.Routes):
		line("route", fmt.Sprintf("%d in all, with companions", o.TotalRoutes))
	case companions > 0:
		line("route", "and "+shadowdiff.Plural(companions, "companion")+", such as redirects")
	}
}

func order(r Route) int {
	return slices.Index([]string{StateLeftOut, StateRefused, StateWaiting, StateServed}, r.State)
}
