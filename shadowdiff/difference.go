package shadowdiff

import (
	"cmp"
	"strings"

	"github.com/routesrv/routesrv/eskip"
)

// Kind is a kind of difference.
type Kind uint8

// The kinds, as seen from A.
const (
	Missing Kind = iota // only A has the route
	Extra               // only B has the route
	Changed             // both have a route with the id, and they differ
	Renamed             // both have the route, under different ids

	kindCount
)

var kindNames = [kindCount]string{"missing", "extra", "changed", "renamed"}

// String returns the name in text, JSON and metrics.
func (k Kind) String() string { return kindNames[k] }

// MarshalText implements [encoding.TextMarshaler].
func (k Kind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// Key identifies a difference in several reports about the same tables.
type Key struct {
	Kind  Kind
	ID    string // in A; in B for Extra
	NewID string // in B for Renamed, else empty
}

func (k Key) compare(l Key) int {
	return cmp.Or(strings.Compare(k.ID, l.ID), cmp.Compare(k.Kind, l.Kind), strings.Compare(k.NewID, l.NewID))
}

// Difference is one entry of a report, of any kind.
type Difference struct {
	Key
	A, B  *eskip.Route // nil if the side does not have the route
	Parts []Part       // for Changed, else nil
}

// Aligned returns all parts of both routes side by side, including identical ones, in the order in which routes are written. For a route
// that is only on one side, all parts are Removed or Added.
func (d Difference) Aligned() []Part {
	switch d.Kind {
	case Missing:
		return oneSided(d.A, Removed)
	case Extra:
		return oneSided(d.B, Added)
	default:
		return align(d.A, d.B)
	}
}

// oneSided returns the parts of a route without a partner.
func oneSided(r *eskip.Route, op Op) []Part {
	out := align(r, r)
	for i := range out {
		out[i].Op = op
		if op == Removed {
			out[i].New, out[i].NewPosition = "", 0
		} else {
			out[i].Old, out[i].OldPosition = "", 0
		}
	}
	return out
}

// Element is a kind of route part, as named in text and JSON.
type Element string

// The elements.
const (
	Predicate Element = "predicate"
	Filter    Element = "filter"
	Backend   Element = "backend"   // the type of the backend; the texts are the whole backend
	Address   Element = "address"   // of a network backend
	Algorithm Element = "algorithm" // of load balancing; empty if the proxy chooses
	Endpoint  Element = "endpoint"  // of a load balanced backend
	Zone      Element = "zone"      // of an endpoint with the same address
)

// Op says how a part changed from A to B, as named in text and JSON.
type Op string

// The ops.
const (
	Same     Op = "same" // only in [Difference.Aligned]
	Removed  Op = "removed"
	Added    Op = "added"
	Replaced Op = "replaced"
	Moved    Op = "moved" // the same filter in another position
)

// Part is a part of a route on both sides.
type Part struct {
	Element Element `json:"element"`
	Op      Op      `json:"op"`
	// Old and New are the texts in A and B; empty if the part does not exist there.
	Old string `json:"old,omitempty"`
	New string `json:"new,omitempty"`
	// OldPosition and NewPosition are the positions of a filter, from 1. They are 0 for all other parts, and where the part does
	// not exist.
	OldPosition int `json:"old_position,omitempty"`
	NewPosition int `json:"new_position,omitempty"`
}

// parts returns the differences between two routes; none if they print the same in canonical form.
func parts(a, b *eskip.Route) []Part {
	all := align(a, b)
	n := 0
	for _, p := range all {
		if p.Op != Same {
			all[n] = p
			n++
		}
	}
	return all[:n:n]
}

// align pairs the parts of the canonical forms of two routes.
func align(a, b *eskip.Route) []Part {
	a, b = eskip.Canonical(a), eskip.Canonical(b)
	out := alignSets(nil, Predicate, Predicate, predicateTexts(a), predicateTexts(b))
	out = alignFilters(out, filterTexts(a), filterTexts(b))
	return alignBackends(out, a, b)
}

// call is a predicate or filter, or an endpoint with its address as the name.
type call struct{ name, text string }

// predicateTexts returns the predicates in canonical order, without those that are not printed because they match everything.
func predicateTexts(r *eskip.Route) []call {
	out := make([]call, 0, len(r.Predicates))
	for _, p := range r.Predicates {
		if p.Name != "Any" && p.Name != "*" {
			out = append(out, call{p.Name, p.String()})
		}
	}
	return out
}

func filterTexts(r *eskip.Route) []call {
	out := make([]call, 0, len(r.Filters))
	for _, f := range r.Filters {
		out = append(out, call{f.Name, f.String()})
	}
	return out
}

func endpointTexts(r *eskip.Route) []call {
	out := make([]call, 0, len(r.LBEndpoints))
	for _, ep := range r.LBEndpoints {
		out = append(out, call{ep.Address, ep.StringWithZone()})
	}
	return out
}

// between returns the part for two texts, of which one may be empty because it does not exist.
func between(e Element, old, new string) Part {
	p := Part{Element: e, Old: old, New: new}
	switch {
	case old == new:
		p.Op = Same
	case new == "":
		p.Op = Removed
	case old == "":
		p.Op = Added
	default:
		p.Op = Replaced
	}
	return p
}

// alignBackends aligns the backends of canonical routes.
func alignBackends(out []Part, a, b *eskip.Route) []Part {
	if a.BackendType != b.BackendType {
		return append(out, between(Backend, backendText(a), backendText(b)))
	}
	switch a.BackendType {
	case eskip.NetworkBackend:
		return append(out, between(Address, backendText(a), backendText(b)))
	case eskip.LBBackend:
		if a.LBAlgorithm != "" || b.LBAlgorithm != "" {
			p := between(Algorithm, a.LBAlgorithm, b.LBAlgorithm)
			out = append(out, p)
		}
		return alignSets(out, Endpoint, Zone, endpointTexts(a), endpointTexts(b))
	default:
		return append(out, between(Backend, backendText(a), backendText(b)))
	}
}

// Expression returns the parts of a route as written in eskip, without arrows between predicates and backend; the backend includes all its
// endpoints.
func Expression(r *eskip.Route) (predicates, filters, backend string) {
	c := *r
	c.Filters = nil
	text, at := eskip.AppendExpr(nil, &c)
	predicates, backend = strings.TrimSuffix(string(text[:at]), " -> "), string(text[at:])
	texts := make([]string, len(r.Filters))
	for i, f := range r.Filters {
		texts[i] = f.String()
	}
	return predicates, strings.Join(texts, " -> "), backend
}

// backendText prints only the backend.
func backendText(r *eskip.Route) string {
	_, _, backend := Expression(r)
	return backend
}
