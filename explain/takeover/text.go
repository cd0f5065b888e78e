package takeover

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	"github.com/routesrv/routesrv/shadowdiff"
)

// maxShown limits the routes of one takeover that are printed for people.
const maxShown = 5

// Found reports whether the change takes requests of others, or may do so.
func (r *Report) Found() bool { return len(r.Takeovers)+len(r.Unknown)+r.Skipped > 0 }

// String returns the takeover of one route in one line: "GET https://shop.example.org/cart: RouteGroup shop/cart -> Ingress evil/all".
func (t *Takeover) String() string { return t.line(t.Taken[0]) }

func (t *Takeover) line(one Taken) string {
	text := fmt.Sprintf("%s %s: %s -> %s", one.Request.Method, one.Request.URL, t.From, t.To)
	if one.Shared {
		text = fmt.Sprintf("%s %s: %s -> %s as well, at random", one.Request.Method, one.Request.URL, t.From, t.To)
	}
	for name, lines := range one.Request.Header {
		for _, l := range lines {
			text += fmt.Sprintf(" (with %s: %s)", name, l)
		}
	}
	return text
}

// WriteText prints the report for people, without control characters. It returns the writer's error.
func (r *Report) WriteText(w io.Writer) error {
	var b bytes.Buffer
	switch {
	case !r.Found():
		b.WriteString("no request of another owner changes its route\n")
	case len(r.Takeovers) > 0:
		fmt.Fprintf(&b, "%s from others\n", plural(len(r.Takeovers), "object takes requests", "objects take requests"))
	}
	for i := range r.Takeovers {
		t := &r.Takeovers[i]
		fmt.Fprintf(&b, "\n%s -> %s: %s\n", t.From, t.To, plural(t.Lost, "route loses requests", "routes lose requests"))
		for _, one := range t.Taken[:min(len(t.Taken), maxShown)] {
			fmt.Fprintf(&b, "    %s\n        route %s -> %s\n", t.line(one), one.Route, one.By)
		}
		if more := t.Lost - maxShown; more > 0 {
			fmt.Fprintf(&b, "    and %d more\n", more)
		}
	}
	if len(r.Unknown) > 0 {
		b.WriteString("\nunknown, because an expression decides and no request was found:\n")
	}
	for _, u := range r.Unknown {
		fmt.Fprintf(&b, "    %s -> %s: route %s -> %s\n", u.From, u.To, u.Route, u.By)
	}
	if r.Skipped > 0 {
		fmt.Fprintf(&b, "\n%d changed routes were not looked at: there are too many\n", r.Skipped)
	}
	_, err := io.WriteString(w, shadowdiff.PrintableLines(b.String()))
	return err
}

// WriteMarkdown prints the report for the description of a pull request. It returns the writer's error.
func (r *Report) WriteMarkdown(w io.Writer) error {
	var b bytes.Buffer
	if !r.Found() {
		b.WriteString("No request of another owner changes its route.\n")
	}
	if len(r.Takeovers) > 0 {
		b.WriteString("| request | goes from | to | routes |\n| --- | --- | --- | --- |\n")
	}
	for i := range r.Takeovers {
		t := &r.Takeovers[i]
		one := t.Taken[0]
		to := t.To.String()
		if one.Shared {
			to += ", at random"
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %d |\n", code(one.Request.Method+" "+one.Request.URL), code(t.From.String()), code(to), t.Lost)
	}
	if n := len(r.Unknown) + r.Skipped; n > 0 {
		fmt.Fprintf(&b, "\nUnknown for %s of routes: expressions decide, or there are too many.\n", plural(n, "pair", "pairs"))
	}
	_, err := io.WriteString(w, shadowdiff.PrintableLines(b.String()))
	return err
}

// code quotes a text of a table in Markdown, whatever is in it.
func code(s string) string {
	s = strings.NewReplacer("`", "'", "|", `\|`, "\n", " ").Replace(s)
	return "`" + s + "`"
}

// WriteJSON prints the report for programs. It returns the writer's error.
func (r *Report) WriteJSON(w io.Writer) error { return shadowdiff.WriteJSONValue(w, r, "  ") }

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
