// Package takeover finds the requests that a change of objects takes from routes of others. A proxy gives a request to the most
// specific route that matches it, regardless of its owner, so an object can get requests that routes of another team got
// before, and neither team sees it. [Find] looks at each route that is new, or matches other requests than before, and
// constructs requests that match both this route and a route of another owner. Package match then tells which route gets them,
// before and after.
//
// A request that is reported is a proof. Where hosts, paths, methods and headers are literal, no report is a proof as well: see
// [match.Table.Contest]. Where an expression decides and no request is found, the pair is reported as unknown.
//
// The package does no I/O, reads no clock and does not log. Other modules should not import it: it may change with every
// release.
package takeover

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/routesrv/routesrv/match"
	"github.com/routesrv/routesrv/shadowdiff"
	"github.com/routesrv/routesrv/table"
)

// Schema names the JSON form of a [Report]. Within one version fields are only added.
const Schema = "routesrv.takeovers/v1"

// Side is a table before or after a change.
type Side struct {
	Routes table.List
	// Owner returns the objects of routes; nil means what their ids show.
	Owner shadowdiff.OwnerFunc
}

// Report lists the requests that a change takes.
type Report struct {
	Schema string `json:"schema"`
	// Takeovers are sorted: between namespaces first, then by the number of routes, largest first.
	Takeovers []Takeover `json:"takeovers"`
	// Unknown are pairs of owners with routes that may be takeovers: an expression decides, and no request proves it.
	Unknown []Unknown `json:"unknown"`
	// Skipped is how many changed routes were not compared with all others, because of the budget of the search.
	Skipped int `json:"skipped"`

	skipped map[shadowdiff.Owner]string // owners of skipped routes, with one of these
}

// Takeover describes the requests that one owner takes from another.
type Takeover struct {
	From shadowdiff.Owner `json:"from"`
	To   shadowdiff.Owner `json:"to"`
	// Lost is the number of routes of From that lose requests. Taken has the first of them.
	Lost  int     `json:"lost"`
	Taken []Taken `json:"taken"`
}

// BetweenNamespaces reports whether the owners are in different namespaces.
func (t *Takeover) BetweenNamespaces() bool { return t.From.Namespace != t.To.Namespace }

// Taken is one route that loses requests, with an example.
type Taken struct {
	Route string `json:"route"`
	By    string `json:"by"`
	// Brought is the route of To that caused By, the catch-all of a host that To adds.
	Brought string `json:"brought,omitempty"`
	// Shared means that the route may still get the request: which of the two gets it is arbitrary, random or unknown.
	Shared  bool    `json:"shared,omitempty"`
	Request Request `json:"request"`
}

// Request is a request that changes its route.
type Request struct {
	Method string              `json:"method"`
	URL    string              `json:"url"`
	Header map[string][]string `json:"header,omitempty"`
	From   string              `json:"from,omitempty"` // address of the client, if it matters
}

// Unknown is an undecided pair of owners: one may take requests of the other.
type Unknown struct {
	From shadowdiff.Owner `json:"from"`
	To   shadowdiff.Owner `json:"to"`
	// Pairs is the number of undecided pairs of routes. Route and By are the first one.
	Pairs int    `json:"pairs"`
	Route string `json:"route"`
	By    string `json:"by"`
}

// Options say how to compare.
type Options struct {
	// Proxy holds the settings of the proxies.
	Proxy match.Options
	// Steps limits what the changes of one namespace may cost: a step takes about a microsecond. All together may cost 25 times
	// as much. The rest is reported as unknown. Default DefaultSteps.
	Steps int
	// Stop ends the search; the report is then of no use. nil means that nothing does.
	Stop func() bool
}

// DefaultSteps is the default of Options.Steps.
const DefaultSteps = 4_000_000

// Find returns the takeovers between two tables. It costs one look at the hosts of all routes, and then as much as the routes
// that share a host with a changed one, a few hundred hosts at a time.
func Find(before, after Side, o Options) *Report {
	return newSearch(before, after, o).run()
}

func (s *search) run() *Report {
	s.find()
	s.compare()
	return s.sorted()
}

func (s *search) sorted() *Report {
	for _, t := range s.pairs {
		s.report.Takeovers = append(s.report.Takeovers, *t)
	}
	for _, u := range s.unknown {
		s.report.Unknown = append(s.report.Unknown, *u)
	}
	slices.SortFunc(s.report.Unknown, func(a, b Unknown) int {
		return cmp.Or(strings.Compare(a.To.String(), b.To.String()), strings.Compare(a.From.String(), b.From.String()))
	})
	worse := func(b bool) int {
		if b {
			return 0
		}
		return 1
	}
	slices.SortFunc(s.report.Takeovers, func(a, b Takeover) int {
		return cmp.Or(cmp.Compare(worse(a.BetweenNamespaces()), worse(b.BetweenNamespaces())), cmp.Compare(b.Lost, a.Lost),
			strings.Compare(a.From.String(), b.From.String()), strings.Compare(a.To.String(), b.To.String()))
	})
	return s.report
}

// Policy selects the objects that are kept because of the requests they take. The zero value keeps none.
type Policy struct {
	// Routes is how many routes of other namespaces an object may not take requests from; 0 means any number is fine.
	Routes int
}

// ParsePolicy reads "none", "namespace" or "namespace:N".
func ParsePolicy(s string) (Policy, error) {
	bad := fmt.Errorf("%q: must be none, namespace or namespace:N, where N is how many routes of other namespaces must lose requests", s)
	what, number, counted := strings.Cut(s, ":")
	switch {
	case s == "none" || s == "":
		return Policy{}, nil
	case what != "namespace":
		return Policy{}, bad
	case !counted:
		return Policy{Routes: 1}, nil
	}
	n, err := strconv.Atoi(number)
	if err != nil || n < 1 {
		return Policy{}, bad
	}
	return Policy{Routes: n}, nil
}

// String returns what ParsePolicy reads.
func (p Policy) String() string {
	switch p.Routes {
	case 0:
		return "none"
	case 1:
		return "namespace"
	}
	return fmt.Sprintf("namespace:%d", p.Routes)
}

// Refused returns the new routes whose owner takes too much, or may, unless it is allowed to, by id, with what it takes.
func (p Policy) Refused(r *Report, allowed func(from, to shadowdiff.Owner) bool) map[string]string {
	if p.Routes == 0 {
		return nil
	}
	type sum struct {
		lost   int
		detail string
		by     []string
	}
	sums := make(map[shadowdiff.Owner]*sum)
	add := func(to shadowdiff.Owner, lost int, detail string, by ...string) {
		s := sums[to]
		if s == nil {
			s = &sum{detail: detail}
			sums[to] = s
		}
		s.lost += lost
		s.by = append(s.by, by...)
	}
	counts := func(from, to shadowdiff.Owner) bool { return from.Namespace != to.Namespace && !allowed(from, to) }
	for i := range r.Takeovers {
		t := &r.Takeovers[i]
		if counts(t.From, t.To) {
			add(t.To, t.Lost, "takes "+t.String())
			for _, one := range t.Taken {
				add(t.To, 0, "", cmp.Or(one.Brought, one.By))
			}
		}
	}
	for _, u := range r.Unknown {
		if counts(u.From, u.To) {
			add(u.To, u.Pairs, u.String(), u.By)
		}
	}
	for to, by := range r.skipped {
		add(to, p.Routes, "may take requests of others: the search exceeded its budget", by)
	}
	refused := make(map[string]string)
	for _, s := range sums {
		if s.lost < p.Routes {
			continue
		}
		if more := s.lost - 1; more > 0 && strings.HasPrefix(s.detail, "takes ") {
			s.detail += fmt.Sprintf(", and requests of %d more routes of other namespaces", more)
		}
		for _, id := range s.by {
			refused[id] = s.detail
		}
	}
	return refused
}

// String describes an undecided pair of owners in one line.
func (u *Unknown) String() string {
	return fmt.Sprintf("may take requests of %s (route %s -> %s): undecided, because of an expression or the budget of the search", u.From, u.Route, u.By)
}

// maxShown limits the routes of one takeover that are printed for people.
const maxShown = 5

// Found reports whether the change takes requests of others, or may do so.
func (r *Report) Found() bool { return len(r.Takeovers)+len(r.Unknown)+r.Skipped > 0 }

// String returns one request in one line: "GET https://shop.example.org/cart: RouteGroup shop/cart -> Ingress evil/all".
func (t *Takeover) String() string { return t.line(t.Taken[0]) }

func (t *Takeover) line(one Taken) string {
	text := fmt.Sprintf("%s %s: %s -> %s", one.Request.Method, one.Request.URL, t.From, t.To)
	if one.Shared {
		text += " as well, at random"
	}
	for name, lines := range one.Request.Header {
		for _, l := range lines {
			text += fmt.Sprintf(" (with %s: %s)", name, l)
		}
	}
	return text
}

// WriteText prints the report for people, without control characters.
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
		b.WriteString("\nunknown, because an expression decides and no request was found, or because the search exceeded its budget:\n")
	}
	for _, u := range r.Unknown {
		fmt.Fprintf(&b, "    %s -> %s: route %s -> %s (%s)\n", u.From, u.To, u.Route, u.By, plural(u.Pairs, "pair", "pairs"))
	}
	if r.Skipped > 0 {
		fmt.Fprintf(&b, "\n%d changed routes were not compared with all others: the search exceeded its budget\n", r.Skipped)
	}
	_, err := io.WriteString(w, shadowdiff.PrintableLines(b.String()))
	return err
}

// WriteJSON prints the report for programs.
func (r *Report) WriteJSON(w io.Writer) error { return shadowdiff.WriteJSONValue(w, r) }

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
