package catalogue

import (
	"bytes"
	"slices"

	"github.com/routesrv/routesrv/eskip"
	"github.com/routesrv/routesrv/table"
)

// Killer is a route of a table that no proxy survives.
type Killer struct {
	ID  string
	Err error // names the filter and the mistake
}

// Killers returns the routes of t that no proxy survives, sorted by id. checked is a table that has none, or nil; routes that t
// shares with it are not checked again. A route is parsed only if its text contains a filter with a rule, so checking a whole
// table costs little more than a few text searches. A route that does not parse is none of them.
func Killers(checked, t *table.Table) (found []Killer) {
	if checked != nil {
		for _, r := range table.Changes(checked.Routes(), t.Routes()) {
			if r != nil {
				found = append(found, killersIn([]byte(r.Text))...)
			}
		}
		return found
	}
	var text []byte
	for _, b := range t.Routes().Blocks() { // their texts: unpacking routes costs more than the searches
		text = b.AppendText(text[:0])
		found = append(found, killersIn(text)...)
	}
	return found
}

// killersIn returns the killers among the routes of lines, in their order.
func killersIn(text []byte) (found []Killer) {
	for line := range bytes.SplitSeq(text, []byte{'\n'}) {
		if !slices.ContainsFunc(hints, func(hint []byte) bool { return bytes.Contains(line, hint) }) {
			continue
		}
		routes, err := eskip.Parse(string(line))
		if err != nil {
			continue // no proxy loads it
		}
		for _, r := range routes {
			if err := Survives(r.Filters); err != nil {
				found = append(found, Killer{r.Id, err})
			}
		}
	}
	return found
}

// WithoutKillers returns t without its [Killers], and these: one route does not cost the others.
func WithoutKillers(checked, t *table.Table) (*table.Table, []Killer) {
	killers := Killers(checked, t)
	if len(killers) == 0 {
		return t, nil
	}
	ids := make([]string, len(killers))
	for i, k := range killers {
		ids[i] = k.ID
	}
	rest, err := t.Routes().With(nil, ids)
	if err != nil {
		panic(err) // its errors are about new routes
	}
	return table.Of(rest, t.Revision(), t.Time()), killers
}

// hints are parts of canonical text, one of which is in each route that breaks a rule. They must not be changed.
var hints = [][]byte{
	[]byte("admissionControl("), []byte("compress(-"), []byte("atelimit("), []byte("hunks("), []byte("teeLoopback("),
}
