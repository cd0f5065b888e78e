package shadowdiff

import (
	"cmp"
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
	Renamed               // both have the route, under different ids

	kindCount
)

var kindNames = [kindCount]string{"missing", "extra", "changed", "renamed"}

// String returns the name in text, JSON and metrics.
func (k Change) String() string { return kindNames[k] }

// MarshalText implements [encoding.TextMarshaler].
func (k Change) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// Key identifies a difference in several reports about the same tables.
type Key struct {
	Kind  Change
	ID    string // in A; in B for Extra
	NewID string // in B, only for Renamed
}

func (k Key) compare(l Key) int {
	return cmp.Or(strings.Compare(k.ID, l.ID), cmp.Compare(k.Kind, l.Kind), strings.Compare(k.NewID, l.NewID))
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
	unchanged Op = "same" // only while parts are aligned
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
	// OldPosition and NewPosition are the positions of a filter, from 1. They are 0 for all other parts, and where the part does
	// not exist.
	OldPosition int `json:"old_position,omitempty"`
	NewPosition int `json:"new_position,omitempty"`
}

// parts returns the differences between two routes; none if they print the same in canonical form.
func parts(a, b *eskip.Route) []Part {
	return slices.Clip(slices.DeleteFunc(align(a, b), func(p Part) bool { return p.Op == unchanged }))
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

// between returns the part for two texts. One of them may be empty because it does not exist.
func between(e Element, old, new string) Part {
	p := Part{Element: e, Old: old, New: new}
	switch {
	case old == new:
		p.Op = unchanged
	case new == "":
		p.Op = Removed
	case old == "":
		p.Op = Added
	default:
		p.Op = Replaced
	}
	return p
}

func alignBackends(out []Part, a, b *eskip.Route) []Part {
	element := Backend
	switch {
	case a.BackendType != b.BackendType:
	case a.BackendType == eskip.NetworkBackend:
		element = Address
	case a.BackendType == eskip.LBBackend:
		if a.LBAlgorithm != "" || b.LBAlgorithm != "" {
			out = append(out, between(Algorithm, a.LBAlgorithm, b.LBAlgorithm))
		}
		return alignSets(out, Endpoint, Zone, endpointTexts(a), endpointTexts(b))
	}
	return append(out, between(element, backendText(a), backendText(b)))
}

// Expression returns the parts of a route as written in eskip, without arrows between predicates and backend; the backend
// includes all its endpoints.
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

// maxAlign limits the table of the alignment. Chains of up to about a thousand filters are aligned optimally; of longer ones,
// which are unrealistic, only the common beginning is.
const maxAlign = 1 << 20

// chains are two lists of filters, predicates or endpoints being aligned.
type chains struct {
	a, b []call
	// partnerA and partnerB are the positions of the filters' partners on the other side, or -1.
	partnerA, partnerB []int
	ops                []Op // for the filters of a with a partner
}

func newChains(a, b []call) *chains {
	none := []int{-1}
	return &chains{a: a, b: b, partnerA: slices.Repeat(none, len(a)), partnerB: slices.Repeat(none, len(b)), ops: make([]Op, len(a))}
}

// alignSets aligns two lists whose order does not matter. Elements with the same text are the same. Of the others, those with the
// same name replace each other, in order; such a part has its own element. The parts are sorted by name.
func alignSets(out []Part, element, replaced Element, a, b []call) []Part {
	c := newChains(a, b)
	c.join(unchanged, func(f call) string { return f.text })
	c.join(Replaced, func(f call) string { return f.name })
	type named struct {
		name string
		Part
	}
	var all []named
	for i, f := range a {
		all = append(all, named{f.name, c.part(element, i, c.partnerA[i])})
	}
	for j, f := range b {
		if c.partnerB[j] < 0 {
			all = append(all, named{f.name, c.part(element, -1, j)})
		}
	}
	rank := map[Op]int{unchanged: -1}
	slices.SortStableFunc(all, func(x, y named) int { return cmp.Or(strings.Compare(x.name, y.name), rank[x.Op]-rank[y.Op]) })
	for _, p := range all {
		if p.Op == Replaced {
			p.Element = replaced
		}
		out = append(out, p.Part)
	}
	return out
}

// alignFilters pairs the filters of two chains. Filters in the same order are the same. Of the others, filters with the same text
// have moved, and filters with the same name replace each other.
func alignFilters(out []Part, a, b []call) []Part {
	c := newChains(a, b)
	c.common()
	c.join(Moved, func(f call) string { return f.text })
	c.join(Replaced, func(f call) string { return f.name })

	next := 0 // in b, after the last filter that is the same
	added := func(end int) {
		for ; next < end; next++ {
			if c.partnerB[next] < 0 {
				out = append(out, c.filter(-1, next))
			}
		}
	}
	for i, j := range c.partnerA {
		if j >= 0 && c.ops[i] == unchanged {
			added(j)
			next = j + 1
		}
		out = append(out, c.filter(i, j))
	}
	added(len(b))
	return out
}

// part returns the part for an element of a, of b, or of both.
func (c *chains) part(element Element, i, j int) Part {
	p := Part{Element: element, Op: Added}
	if i >= 0 {
		p.Op, p.Old = Removed, c.a[i].text
	}
	if j >= 0 {
		p.New = c.b[j].text
	}
	if i >= 0 && j >= 0 {
		p.Op = c.ops[i]
	}
	return p
}

func (c *chains) filter(i, j int) Part {
	p := c.part(Filter, i, j)
	p.OldPosition, p.NewPosition = i+1, j+1
	return p
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

// common pairs the filters of a longest common subsequence. If there are several such sequences, the choice does not depend on
// the order of the chains.
func (c *chains) common() {
	a, b, pair := c.a, c.b, func(i, j int) { c.pair(unchanged, i, j) }
	if slices.CompareFunc(a, b, func(x, y call) int { return strings.Compare(x.text, y.text) }) > 0 {
		a, b, pair = b, a, func(i, j int) { c.pair(unchanged, j, i) }
	}
	if len(a)*len(b) > maxAlign {
		for i := 0; i < min(len(a), len(b)) && a[i].text == b[i].text; i++ {
			pair(i, i)
		}
		return
	}
	width := len(b) + 1
	best := make([]int32, (len(a)+1)*width) // of a[i:] and b[j:]
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			at := i*width + j
			best[at] = max(best[at+width+1]+worth(a, b, i, j), best[at+width], best[at+1])
		}
	}
	for i, j := 0, 0; i < len(a) && j < len(b); {
		at := i*width + j
		switch {
		case best[at] == best[at+width+1]+worth(a, b, i, j):
			if a[i].text == b[j].text {
				pair(i, j)
			}
			i, j = i+1, j+1
		case best[at] == best[at+width]:
			i++
		default:
			j++
		}
	}
}

// worth returns the value of aligning two filters. Among the alignments that keep the most filters, the best one keeps filters in
// their positions, and keeps filters of one name, which probably replaced each other, side by side. These pairs are fewer than
// exact, because the shorter chain has at most the square root of maxAlign filters.
func worth(a, b []call, i, j int) int32 {
	const exact = 4096
	switch {
	case a[i].text == b[j].text && i == j:
		return exact + 1
	case a[i].text == b[j].text:
		return exact
	case a[i].name == b[j].name:
		return 1
	}
	return 0
}
