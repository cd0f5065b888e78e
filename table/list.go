package table

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"sort"
	"strings"
)

// List is an immutable list of routes with distinct ids, sorted by them. Lists that come from each other by [List.With]
// share all they have in common, down to the [Block]: a list of 124,000 routes with one changed costs one block, and what
// differs between the two is found at the same price ([Changes]).
//
// The zero value is an empty list. A List is safe for concurrent use.
type List struct {
	blocks []*Block
	len    int
	bytes  int  // of the canonical text
	packed bool // so are all blocks, and those of lists that come from this one
}

// NewList makes a list of routes in any order. The routes are kept and must not be changed any more. The error wraps
// ErrDuplicateID, ErrInvalidID or ErrInvalidText and names the id.
func NewList(routes []*Route) (List, error) {
	if !slices.IsSortedFunc(routes, byID) {
		routes = slices.Clone(routes)
		slices.SortFunc(routes, byID)
	}
	if err := checkAll(routes); err != nil {
		return List{}, err
	}
	return newList(cut(nil, routes), false), nil
}

func byID(a, b *Route) int { return cmp.Compare(a.ID, b.ID) }

// checkAll checks routes that are to be sorted.
func checkAll(routes []*Route) error {
	for i, r := range routes {
		if err := check(r); err != nil {
			return err
		}
		if i > 0 && r.ID == routes[i-1].ID {
			return fmt.Errorf("%w: %q", ErrDuplicateID, r.ID)
		}
	}
	return nil
}

func newList(blocks []*Block, packed bool) List {
	l := List{blocks: blocks, bytes: max(0, len(blocks)-1), packed: packed}
	for _, b := range blocks {
		l.len += b.Len()
		l.bytes += b.bytes
	}
	return l
}

// Len returns the number of routes.
func (l List) Len() int { return l.len }

// Blocks returns the blocks in order. The slice is shared: it must not be changed.
func (l List) Blocks() []*Block { return l.blocks }

// All yields the routes in order. They must not be changed.
func (l List) All() iter.Seq[*Route] {
	return func(yield func(*Route) bool) {
		for _, b := range l.blocks {
			for _, r := range b.Routes() {
				if !yield(r) {
					return
				}
			}
		}
	}
}

// Get returns the route with the id, or nil.
func (l List) Get(id string) *Route {
	i, found := slices.BinarySearchFunc(l.blocks, id, func(b *Block, id string) int { return strings.Compare(b.first(), id) })
	if !found {
		if i--; i < 0 {
			return nil
		}
	}
	routes := l.blocks[i].Routes()
	j, found := slices.BinarySearchFunc(routes, id, func(r *Route, id string) int { return strings.Compare(r.ID, id) })
	if !found {
		return nil
	}
	return routes[j]
}

// With returns the list with the routes of upserts, in the place of those with the same id where there are any, and without
// those of deletes. Both are sorted here; the routes are kept. An id that is to be deleted and is not there is no error; one
// that is in both lists is there afterwards. The error is that of NewList, about upserts.
//
// The cost is that of the blocks that change.
func (l List) With(upserts []*Route, deletes []string) (List, error) {
	if len(upserts) == 0 && len(deletes) == 0 {
		return l, nil
	}
	upserts = slices.SortedFunc(slices.Values(upserts), byID)
	if err := checkAll(upserts); err != nil {
		return List{}, err
	}
	e := editing{packed: l.packed, upserts: upserts, deletes: slices.Sorted(slices.Values(deletes))}
	for i := 0; i < len(l.blocks); {
		j := i + 1
		for j < len(l.blocks) && !l.blocks[j].starts {
			j++ // a block that begins because the one before it is full depends on that one
		}
		end := ""
		if j < len(l.blocks) {
			end = l.blocks[j].first()
		}
		e.segment(l.blocks[i:j], end)
		i = j
	}
	e.pending = append(e.pending, e.upserts...) // of an empty list
	e.flush()
	return newList(e.blocks, l.packed), nil
}

// Sharing returns the list with the blocks of another one in the place of its own, where both have the same routes: what was
// changed in both of them in the same way is there once again.
func (l List) Sharing(other List) List {
	blocks, theirs := l.blocks, other.blocks
	for i, b := range l.blocks {
		for len(theirs) > 0 && theirs[0].first() < b.first() {
			theirs = theirs[1:]
		}
		if len(theirs) == 0 {
			break
		}
		if theirs[0] == b || !b.equal(theirs[0]) {
			continue
		}
		if &blocks[0] == &l.blocks[0] {
			blocks = slices.Clone(blocks)
		}
		blocks[i] = theirs[0]
	}
	return List{blocks: blocks, len: l.len, bytes: l.bytes, packed: l.packed}
}

// editing applies changes to one segment after the other: a segment begins with an id that begins a block wherever it is,
// apart from the first, and goes on to the next.
type editing struct {
	packed  bool
	upserts []*Route // what is left of them
	deletes []string
	blocks  []*Block // done
	pending []*Route // to be cut into blocks, following blocks
}

// segment adds a segment with its changes. end is the id at which the next one begins, "" if there is none.
func (e *editing) segment(blocks []*Block, end string) {
	n, m := len(e.upserts), len(e.deletes)
	if end != "" {
		n = sort.Search(n, func(i int) bool { return e.upserts[i].ID >= end })
		m = sort.Search(m, func(i int) bool { return e.deletes[i] >= end })
	}
	upserts, deletes := e.upserts[:n], e.deletes[:m]
	e.upserts, e.deletes = e.upserts[n:], e.deletes[m:]
	if n == 0 && m == 0 {
		e.flush()
		e.blocks = append(e.blocks, blocks...)
		return
	}
	merged := merge(blocks, upserts, deletes)
	switch {
	case len(merged) == 0: // what comes next belongs to the segment before, if it does not begin a block
	case startsBlock(merged[0].ID):
		e.flush()
	case len(e.pending) == 0:
		e.reopen() // what began the segment is gone: the rest belongs to the one before
	}
	e.pending = append(e.pending, merged...)
}

// flush cuts what is pending into blocks.
func (e *editing) flush() {
	n := len(e.blocks)
	e.blocks = cut(e.blocks, e.pending)
	if e.packed {
		for i, b := range e.blocks[n:] {
			e.blocks[n+i] = b.pack()
		}
	}
	e.pending = e.pending[:0]
}

// reopen takes the last segment that is done back into what is pending.
func (e *editing) reopen() {
	i := len(e.blocks)
	for i > 0 {
		i--
		if e.blocks[i].starts {
			break
		}
	}
	for _, b := range e.blocks[i:] {
		e.pending = append(e.pending, b.Routes()...)
	}
	e.blocks = e.blocks[:i]
}

// merge gives the routes of the blocks with the changes made. A route whose text does not change keeps its pointer.
func merge(blocks []*Block, upserts []*Route, deletes []string) []*Route {
	var out []*Route
	for _, b := range blocks {
		for _, r := range b.Routes() {
			for len(upserts) > 0 && upserts[0].ID < r.ID {
				out, upserts = append(out, upserts[0]), upserts[1:]
			}
			for len(deletes) > 0 && deletes[0] < r.ID {
				deletes = deletes[1:]
			}
			switch {
			case len(upserts) > 0 && upserts[0].ID == r.ID:
				out, upserts = append(out, upserts[0]), upserts[1:]
			case len(deletes) > 0 && deletes[0] == r.ID:
			default:
				out = append(out, r)
			}
		}
	}
	return append(out, upserts...)
}

// Changes yields what differs between two lists, in the order of ids: the route before and the route after, nil where there
// is none. Routes with the same text are no difference. The cost is that of the blocks that the lists do not share.
func Changes(before, after List) iter.Seq2[*Route, *Route] {
	return func(yield func(*Route, *Route) bool) {
		a, b := cursor{blocks: before.blocks}, cursor{blocks: after.blocks}
		for {
			for a.at == 0 && b.at == 0 && len(a.blocks) > 0 && len(b.blocks) > 0 && a.blocks[0] == b.blocks[0] {
				a.nextBlock()
				b.nextBlock()
			}
			old, now := a.route(), b.route()
			switch {
			case old == nil && now == nil:
				return
			case now == nil || old != nil && old.ID < now.ID:
				now = nil
				a.next()
			case old == nil || now.ID < old.ID:
				old = nil
				b.next()
			default:
				a.next()
				b.next()
				if old == now || old.Text == now.Text {
					continue
				}
			}
			if !yield(old, now) {
				return
			}
		}
	}
}

// cursor is a place in a list.
type cursor struct {
	blocks []*Block // the current one first
	routes []*Route // of the current one; nil if nobody has asked for them
	at     int      // in the current one
}

func (c *cursor) route() *Route {
	if len(c.blocks) == 0 {
		return nil
	}
	if c.routes == nil {
		c.routes = c.blocks[0].Routes()
	}
	return c.routes[c.at]
}

func (c *cursor) next() {
	if c.at++; c.at == len(c.routes) {
		c.nextBlock()
	}
}

func (c *cursor) nextBlock() { c.blocks, c.routes, c.at = c.blocks[1:], nil, 0 }
