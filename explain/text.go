package explain

import (
	"bytes"
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

// WriteText prints an explanation for people: the cause in the first line, what to do in the second, then the evidence. It
// escapes control characters from the cluster. It returns the writer's error.
func (e *Explanation) WriteText(w io.Writer) error {
	var b bytes.Buffer
	b.WriteString(e.Cause + "\n")
	if e.Advice != "" {
		b.WriteString(e.Advice + "\n")
	}
	for i, o := range e.Objects {
		if i == textObjects {
			break
		}
		writeObject(&b, &o)
	}
	if n := e.Total - textObjects; n > 0 {
		fmt.Fprintf(&b, "\n%s more; -o json has the first %d\n", shadowdiff.Plural(n, "object"), maxObjects)
	}
	_, err := io.WriteString(w, shadowdiff.PrintableLines(b.String()))
	return err
}

// newestText says what the newest read shows of an object that the guard keeps.
var newestText = map[string]string{
	NewestDeleted:   "deleted; everything here is what is served",
	NewestChanged:   "changed; everything here is what is served",
	NewestEndpoints: "its services have no ready pods; the pods here are those that are served",
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
	for i, h := range o.Hosts {
		if i == textHosts {
			line("host", fmt.Sprintf("and %d more", len(o.Hosts)-i))
			break
		}
		text := h.Host
		if len(h.Others) > 0 {
			var names []string
			for _, other := range h.Others {
				names = append(names, other.String())
			}
			text += ", which " + short(names, 3) + " has as well"
			if len(names) > 1 {
				text = strings.Replace(text, " has as well", " have as well", 1)
			}
		}
		line("host", text)
	}
	writeServices(b, o)
	for i, p := range o.Problems {
		if i == textProblems {
			line("problem", fmt.Sprintf("and %d more", len(o.Problems)-i))
			break
		}
		text := fmt.Sprintf("%s %s (%s): %s", p.Severity, p.Reason, p.ID, p.What)
		if p.Since != nil {
			text += ", since " + p.Since.UTC().Format("2006-01-02T15:04:05Z")
		}
		line("problem", text)
	}
	writeRoutes(b, o)
	if f := o.Fleet; f != nil {
		line("fleet", fmt.Sprintf("%d of %s hold a table with these routes", f.Holders, shadowdiff.Plural(f.Clients, "client")))
	}
	for i, r := range o.Requests {
		if i == textRequests {
			line("request", fmt.Sprintf("and %d more", len(o.Requests)-i))
			break
		}
		line("request", r.Method+" "+r.URL+": "+r.text())
	}
	for _, n := range o.Notes {
		line("note", n)
	}
}

func (r *Request) text() string {
	switch r.Result {
	case "own":
		return "this object answers"
	case "none":
		return "no route matches"
	case "loop":
		return r.Why
	case "shared":
		return fmt.Sprintf("%s (%s) may answer as well: %s", r.Owner, r.Winner, r.Why)
	}
	return fmt.Sprintf("%s answers (%s): %s", r.Owner, r.Winner, r.Why)
}

func writeServices(b *bytes.Buffer, o *Object) {
	for i, s := range o.Services {
		if i == textServices {
			fmt.Fprintf(b, "  %-9s  and %d more\n", "service", len(o.Services)-i)
			break
		}
		text := s.Namespace + "/" + s.Name
		switch {
		case !s.Exists:
			text += " does not exist"
		default:
			text += ", ports " + strings.Join(s.Ports, ", ")
			if len(s.Ports) == 0 {
				text += "none"
			}
			text += fmt.Sprintf("; %d ready, %d not ready", s.Ready, s.NotReady)
			var zones []string
			for _, zone := range slices.Sorted(maps.Keys(s.Zones)) {
				if zone != "" {
					zones = append(zones, fmt.Sprintf("%s %d", zone, s.Zones[zone]))
				}
			}
			if len(zones) > 0 {
				text += " (" + strings.Join(zones, ", ") + ")"
			}
		}
		fmt.Fprintf(b, "  %-9s  %s\n", "service", text)
	}
}

// writeRoutes prints the main routes, unserved ones first. It only counts companions.
func writeRoutes(b *bytes.Buffer, o *Object) {
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
		fmt.Fprintf(b, "  %-9s  %s: %s", "route", r.ID, strings.ReplaceAll(r.State, "_", " "))
		if r.Why != "" {
			fmt.Fprintf(b, ", %s", r.Why)
		}
		b.WriteByte('\n')
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
		fmt.Fprintf(b, "  %-9s  and %d more\n", "route", shown-textRoutes)
	}
	if o.TotalRoutes > len(o.Routes) {
		fmt.Fprintf(b, "  %-9s  %d in all, with companions\n", "route", o.TotalRoutes)
	}
	if companions > 0 && o.TotalRoutes == len(o.Routes) {
		fmt.Fprintf(b, "  %-9s  and %s, such as redirects\n", "route", shadowdiff.Plural(companions, "companion"))
	}
}

func order(r Route) int {
	return slices.Index([]string{StateLeftOut, StateRefused, StateWaiting, StateServed}, r.State)
}
