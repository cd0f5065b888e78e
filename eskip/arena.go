package eskip

import (
	"hash/maphash"
	"strings"
)

// A table has some 120,000 routes of a dozen small objects each. Allocated one by one they would cost more than the
// reading of the text, so the parser takes them from blocks. A block lives as long as anything in it does, which is why
// blocks are small: who keeps one route of a large table keeps a few tens of kilobytes.
const (
	textBlock  = 4 << 10 // bytes of text in one block
	textAlone  = 512     // longer texts get an allocation of their own
	largeInput = 8 << 10 // bytes from which on looking for repeated texts is worth its table
	internSize = 512     // entries of that table, a power of 2
	internText = 96      // bytes: longer texts are not looked for
)

// slab hands out slices of T from larger allocations, which double up to limit elements.
type slab[T any] struct {
	free  []T
	size  int // of the last allocation
	limit int
}

func newSlab[T any](first []T, limit int) slab[T] {
	return slab[T]{free: first, size: len(first), limit: limit}
}

// next returns n zero elements. Appending to the result reallocates it.
func (s *slab[T]) next(n int) []T {
	if n > len(s.free) {
		s.size = max(n, min(2*s.size, s.limit))
		s.free = make([]T, s.size)
	}
	out := s.free[:n:n]
	s.free = s.free[n:]
	return out
}

// one returns a slice of one element.
func (s *slab[T]) one(v T) []T {
	out := s.next(1)
	out[0] = v
	return out
}

// starter is the first allocation of all slabs. It suffices for most single routes, which would otherwise need a dozen of
// allocations; the compiler parses each route that it makes.
type starter struct {
	routes         [1]Route
	result         [1]*Route
	texts          [2]string
	arguments      [6]interface{}
	predicateItems [2]Predicate
	predicateLists [2]*Predicate
	filterItems    [4]Filter
	filterLists    [4]*Filter
	endpointItems  [4]LBEndpoint
	endpointLists  [4]*LBEndpoint
}

// starterSlices are the arrays of a starter; empty without one.
type starterSlices struct {
	routes         []Route
	result         []*Route
	texts          []string
	arguments      []interface{}
	predicateItems []Predicate
	predicateLists []*Predicate
	filterItems    []Filter
	filterLists    []*Filter
	endpointItems  []LBEndpoint
	endpointLists  []*LBEndpoint
}

func (s *starter) slices() starterSlices {
	return starterSlices{
		routes: s.routes[:], result: s.result[:0], texts: s.texts[:], arguments: s.arguments[:],
		predicateItems: s.predicateItems[:], predicateLists: s.predicateLists[:],
		filterItems: s.filterItems[:], filterLists: s.filterLists[:],
		endpointItems: s.endpointItems[:], endpointLists: s.endpointLists[:],
	}
}

// values is where the parser gets the strings and argument values from, which it keeps.
type values struct {
	left  int // bytes of input that are not read yet, more or less: no block has to be larger
	block strings.Builder
	alias bool // strings may be parts of the input
	seed  maphash.Seed
	table *[internSize]interned // texts seen lately; nil for small inputs
}

// interned is a text that may come again. Names, hosts, zones and addresses repeat all over a table.
type interned struct {
	text  string
	boxed interface{} // text as an argument, once it was used as one
}

// copied returns a copy of s in the current block, or s itself if strings may be parts of the input.
func (v *values) copied(s string) string {
	if v.alias {
		return s
	}
	if len(s) > textAlone {
		return strings.Clone(s)
	}
	b := v.room(len(s))
	n := b.Len()
	b.WriteString(s)
	return b.String()[n:]
}

// room returns a block that takes n more bytes without moving what it has.
func (v *values) room(n int) *strings.Builder {
	if v.block.Cap()-v.block.Len() < n {
		v.block.Reset() // it does not touch the memory, which is left to the strings in it
		v.block.Grow(max(n, min(textBlock, v.left)))
	}
	return &v.block
}

// slot returns the entry of the table where s is, or is to be, and nil if s is not worth one.
func (v *values) slot(s string) *interned {
	if v.table == nil || len(s) > internText {
		return nil
	}
	return &v.table[maphash.String(v.seed, s)%internSize]
}

// text returns a copy of s, which may be shared with earlier ones.
func (v *values) text(s string) string {
	e := v.slot(s)
	if e == nil {
		return v.copied(s)
	}
	if e.text != s {
		*e = interned{text: v.copied(s)}
	}
	return e.text
}

// boxed is text for an argument value: what is shared is the interface value.
func (v *values) boxed(s string) interface{} {
	e := v.slot(s)
	if e == nil {
		return v.copied(s)
	}
	if e.text != s {
		*e = interned{text: v.copied(s)}
	}
	if e.boxed == nil {
		e.boxed = e.text
	}
	return e.boxed
}

// smallNumbers are the argument values that most numbers have, such as status codes: 0, 1, 2 and so on. It is never
// written to after its initialisation.
var smallNumbers = makeSmallNumbers()

func makeSmallNumbers() (n [512]interface{}) {
	for i := range n {
		n[i] = float64(i)
	}
	return n
}
