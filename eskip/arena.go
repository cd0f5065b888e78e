package eskip

import (
	"hash/maphash"
	"strings"
)

// A table has about 120,000 routes of a dozen small objects each. Separate allocations would cost more than parsing the text, so
// the parser takes objects from blocks. A block lives as long as anything in it does, so blocks are small: keeping one route of a
// large table keeps a few tens of kilobytes.
const (
	textBlock  = 4 << 10 // bytes of text in one block
	textAlone  = 512     // longer texts get their own allocation
	largeInput = 8 << 10 // input size in bytes from which a table of repeated texts is worthwhile
	internSize = 512     // entries of that table, a power of 2
	internText = 96      // bytes: longer texts are not interned
)

// slab returns slices of T from larger allocations, which double up to limit elements.
type slab[T any] struct {
	free  []T
	size  int // of the last allocation
	limit int
}

// lend gives the slab its first allocation.
func (s *slab[T]) lend(first []T) { s.free, s.size = first, len(first) }

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

// starter is the first allocation of all slabs. It suffices for most single routes, which would otherwise need a dozen
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

// lend makes the slabs of a parser begin with the arrays of the starter.
func (s *starter) lend(p *parser) {
	p.result = s.result[:0]
	p.routes.lend(s.routes[:])
	p.texts.lend(s.texts[:])
	p.arguments.lend(s.arguments[:])
	p.predicateItems.lend(s.predicateItems[:])
	p.predicateLists.lend(s.predicateLists[:])
	p.filterItems.lend(s.filterItems[:])
	p.filterLists.lend(s.filterLists[:])
	p.endpointItems.lend(s.endpointItems[:])
	p.endpointLists.lend(s.endpointLists[:])
}

// values provides the strings and argument values that the parser keeps.
type values struct {
	left  int // approximate bytes of unread input: no block needs to be larger
	block strings.Builder
	alias bool // strings may point into the input
	seed  maphash.Seed
	table *[internSize]interned // texts seen recently; nil for small inputs
}

// interned is a text that may be repeated. Names, hosts, zones and addresses repeat all over a table.
type interned struct {
	text  string
	boxed interface{} // the text as an argument, once it was used as one
}

// copied returns a copy of s in the current block, or s itself if strings may point into the input.
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

// room returns a block with space for n more bytes without moving its content.
func (v *values) room(n int) *strings.Builder {
	if v.block.Cap()-v.block.Len() < n {
		v.block.Reset() // Reset does not touch the memory, which the strings in it keep
		v.block.Grow(max(n, min(textBlock, v.left)))
	}
	return &v.block
}

// slot returns the table entry for s, or nil if s is not worth interning.
func (v *values) slot(s string) *interned {
	if v.table == nil || len(s) > internText {
		return nil
	}
	return &v.table[maphash.String(v.seed, s)%internSize]
}

// text returns a copy of s, possibly shared with earlier ones.
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

// boxed is text for an argument value: the interface value is shared.
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

// smallNumbers are the most frequent numeric argument values, such as status codes: 0, 1, 2 and so on. It is read-only after its
// initialisation.
var smallNumbers = makeSmallNumbers()

func makeSmallNumbers() (n [512]interface{}) {
	for i := range n {
		n[i] = float64(i)
	}
	return n
}
