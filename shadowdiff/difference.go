package shadowdiff

import (
	"slices"
	"strings"

	"github.com/routesrv/routesrv/eskip"
)

// Change is a kind of difference.
type Change uint8

// The kinds, as seen from A.
const (
	Missing Change = iota // only A has the route
	Extra                 // only B has the route
	Changed               // both have a route with the id, and they differ

	kindCount
)

var kindNames = [kindCount]string{"missing", "extra", "changed"}

// String returns the name in text, JSON and metrics.
func (k Change) String() string { return kindNames[k] }

// MarshalText implements [encoding.TextMarshaler].
func (k Change) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// Key identifies a difference in several reports about the same tables.
type Key struct {
	Kind Change
	ID   string // in A; in B for Extra
}

// Difference is one entry of a report, of any kind.
type Difference struct {
	Key
	A, B  *eskip.Route // nil if the side does not have the route
	Parts []Part       // only for Changed
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

// Op is how a part changed from A to B, as named in text and JSON.
type Op string

// The ops.
const (
	unchanged Op = "" // only while filters are aligned
	Removed   Op = "removed"
	Added     Op = "added"
	Replaced  Op = "replaced"
	Moved     Op = "moved" // the same filter in another position
)

// Part is a part of a route on both sides.
type Part struct {
	Element Element `json:"element"`
	Op      Op      `json:"op"`
	// Old and New are the texts in A and B; empty if the part does not exist there.
	Old string `json:"old,omitempty"`
	New string `json:"new,omitempty"`
	// OldPosition and NewPosition are the positions of a filter, from 1; 0 for other parts, or where it does not exist.
	OldPosition int `json:"old_position,omitempty"`
	NewPosition int `json:"new_position,omitempty"`
}

// parts returns the differences between two routes; none if they print the same in canonical form.
func parts(a, b *eskip.Route) []Part {
	a, b = eskip.Canonical(a), eskip.Canonical(b)
	out := unordered(Predicate, Predicate, predicateTexts(a), predicateTexts(b))
	out = append(out, filterParts(filterTexts(a), filterTexts(b))...)
	return append(out, backendParts(a, b)...)
}

// call is a predicate or filter, or an endpoint with its address as the name.
type call struct{ name, text string }

func predicateTexts(r *eskip.Route) []call {
	all := calls(r.Predicates, func(p *eskip.Predicate) call { return call{p.Name, p.String()} })
	return slices.DeleteFunc(all, func(c call) bool { return c.name == "Any" || c.name == "*" })
}

func filterTexts(r *eskip.Route) []call {
	return calls(r.Filters, func(f *eskip.Filter) call { return call{f.Name, f.String()} })
}

func endpointTexts(r *eskip.Route) []call {
	return calls(r.LBEndpoints, func(ep *eskip.LBEndpoint) call { return call{ep.Address, ep.StringWithZone()} })
}

func calls[T any](list []T, of func(T) call) []call {
	all := make([]call, len(list))
	for i, x := range list {
		all[i] = of(x)
	}
	return all
}

// between returns the part for two texts, unless they are equal. One of them may be empty because it does not exist.
func between(e Element, old, new string) []Part {
	p := Part{Element: e, Op: Replaced, Old: old, New: new}
	switch {
	case old == new:
		return nil
	case new == "":
		p.Op = Removed
	case old == "":
		p.Op = Added
	}
	return []Part{p}
}

func backendParts(a, b *eskip.Route) []Part {
	element := Backend
	switch {
	case a.BackendType != b.BackendType:
	case a.BackendType == eskip.NetworkBackend:
		element = Address
	case a.BackendType == eskip.LBBackend:
		return append(between(Algorithm, a.LBAlgorithm, b.LBAlgorithm), unordered(Endpoint, Zone, endpointTexts(a), endpointTexts(b))...)
	}
	return between(element, backendText(a), backendText(b))
}

// Expression returns the parts of a route as written in eskip, without the arrows next to the backend.
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

func backendText(r *eskip.Route) string {
	_, _, backend := Expression(r)
	return backend
}

// unordered compares two lists that are sorted by name and whose order has no meaning. Of the elements that the other list lacks,
// those with the same name replace each other, in order; such a part is the element replaced.
func unordered(element, replaced Element, a, b []call) (out []Part) {
	a, b = without(a, b), without(b, a)
	for len(a)+len(b) > 0 {
		switch {
		case len(b) == 0 || len(a) > 0 && a[0].name < b[0].name:
			out = append(out, Part{Element: element, Op: Removed, Old: a[0].text})
			a = a[1:]
		case len(a) == 0 || b[0].name < a[0].name:
			out = append(out, Part{Element: element, Op: Added, New: b[0].text})
			b = b[1:]
		default:
			out = append(out, Part{Element: replaced, Op: Replaced, Old: a[0].text, New: b[0].text})
			a, b = a[1:], b[1:]
		}
	}
	return out
}

// without returns the elements of a list that another one lacks. An element may occur several times.
func without(list, other []call) []call {
	has := make(map[call]int)
	for _, c := range other {
		has[c]++
	}
	return slices.DeleteFunc(slices.Clone(list), func(c call) bool {
		has[c]--
		return has[c] >= 0
	})
}

// chains are the filters of two routes. Filters have partners on the other side: their positions there, or -1.
type chains struct {
	a, b               []call
	partnerA, partnerB []int
	ops                []Op // for the filters of a with a partner
}

// filterParts compares two chains of filters. Filters in the same order are the same. Of the others, filters with the same text have
// moved, and filters with the same name replace each other.
func filterParts(a, b []call) (out []Part) {
	none := []int{-1}
	c := &chains{a: a, b: b, partnerA: slices.Repeat(none, len(a)), partnerB: slices.Repeat(none, len(b)), ops: make([]Op, len(a))}
	c.common()
	c.join(Moved, func(f call) string { return f.text })
	c.join(Replaced, func(f call) string { return f.name })

	next := 0 // in b, after the last filter that is the same
	added := func(end int) {
		for ; next < end; next++ {
			if c.partnerB[next] < 0 {
				out = append(out, Part{Element: Filter, Op: Added, New: b[next].text, NewPosition: next + 1})
			}
		}
	}
	for i, j := range c.partnerA {
		p := Part{Element: Filter, Op: Removed, Old: a[i].text, OldPosition: i + 1, NewPosition: j + 1}
		switch {
		case j < 0:
		case c.ops[i] == unchanged:
			added(j)
			next = j + 1
			continue
		default:
			p.Op, p.New = c.ops[i], b[j].text
		}
		out = append(out, p)
	}
	added(len(b))
	return out
}

func (c *chains) pair(op Op, i, j int) { c.partnerA[i], c.partnerB[j], c.ops[i] = j, i, op }

// join makes filters without a partner partners if they have the same key, the k-th with the k-th.
func (c *chains) join(op Op, key func(call) string) {
	free := make(map[string][]int)
	for j, f := range c.b {
		if c.partnerB[j] < 0 {
			free[key(f)] = append(free[key(f)], j)
		}
	}
	for i, f := range c.a {
		if js := free[key(f)]; c.partnerA[i] < 0 && len(js) > 0 {
			c.pair(op, i, js[0])
			free[key(f)] = js[1:]
		}
	}
}

// common pairs equal filters at both ends, and between them those in the same position, or else those in the same order, as far as a
// search from the beginning finds them. The pairs do not depend on which chain comes first.
func (c *chains) common() {
	a, b, pair := c.a, c.b, func(i, j int) { c.pair(unchanged, i, j) }
	if slices.CompareFunc(a, b, func(x, y call) int { return strings.Compare(x.text, y.text) }) > 0 {
		a, b, pair = b, a, func(i, j int) { c.pair(unchanged, j, i) }
	}
	begin := 0
	for begin < min(len(a), len(b)) && a[begin] == b[begin] {
		pair(begin, begin)
		begin++
	}
	for begin < min(len(a), len(b)) && a[len(a)-1] == b[len(b)-1] {
		a, b = a[:len(a)-1], b[:len(b)-1]
		pair(len(a), len(b))
	}
	inOrder := true
	for i := begin; i < min(len(a), len(b)); i++ {
		if a[i] == b[i] {
			pair(i, i)
			inOrder = false
		}
	}
	for i, j := begin, begin; inOrder && i < len(a); i++ {
		if at := slices.Index(b[j:], a[i]); at >= 0 {
			pair(i, j+at)
			j += at + 1
		}
	}
}
