package rules

import (
	"iter"
	"strings"

	"github.com/routesrv/routesrv/table"
)

// Texts unpacks the routes of units. It remembers the last two units, because problems are mostly about the routes of two objects.
type Texts struct {
	units  [2]*Unit
	routes [2][]*table.Route
	next   int
}

// of returns the printed routes of a unit.
func (t *Texts) of(u *Unit) []*table.Route {
	for i, known := range t.units {
		if known == u {
			return t.routes[i]
		}
	}
	routes := u.Routes()
	t.units[t.next], t.routes[t.next] = u, routes
	t.next = 1 - t.next
	return routes
}

// Route returns the printed form of a route of a unit; nil for a route that was left out.
func (t *Texts) Route(u *Unit, r *Route) *table.Route {
	if r.LeftOut() {
		return nil
	}
	return t.of(u)[r.text]
}

// Rows yields what the table has of a route that was not left out: the route and its clones.
func (t *Texts) Rows(u *Unit, r *Route) iter.Seq[*table.Route] {
	return func(yield func(*table.Route) bool) {
		texts := t.of(u)
		if !yield(texts[r.text]) || r.more == nil {
			return
		}
		for _, clone := range r.more.clones {
			if !yield(texts[clone]) {
				return
			}
		}
	}
}

// ID returns the id that a route wants.
func (t *Texts) ID(u *Unit, r *Route) string {
	if r.more != nil {
		return r.more.id
	}
	return t.of(u)[r.text].ID
}

// Expression returns the text that is compared with other routes of the id.
func (t *Texts) Expression(u *Unit, r *Route) string {
	if r.more != nil {
		return r.more.before
	}
	text := t.of(u)[r.text]
	return strings.TrimSuffix(strings.TrimPrefix(text.Text, text.ID+": "), ";")
}

// Same reports whether two routes of one id are the same. Only the text counts.
func (t *Texts) Same(u *Unit, r *Route, v *Unit, s *Route) bool {
	return (r.more == nil) == (s.more == nil) && t.Expression(u, r) == t.Expression(v, s)
}

// Routes returns all printed routes of the unit, with those that are in no table because another object has their id.
func (u *Unit) Routes() []*table.Route {
	if u.texts == nil {
		return nil
	}
	return u.texts.Routes()
}
