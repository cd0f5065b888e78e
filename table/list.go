package table

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"sort"
	"strings"
)

// List is an immutable list of routes with distinct ids, sorted by them. Lists derived from each other with [List.With] share
// everything they have in common, in units of [Block]: changing one of 124,000 routes costs one block, and so does finding the
// difference ([Changes]).
//
// The zero value is an empty list. A List is safe for concurrent use.
type List struct {
	blocks []*Block
	len    int
	bytes  int  // of the canonical text
	packed bool // all blocks are packed, and those of derived lists, too
}

// NewList returns a list of routes given in any order. It keeps the routes, which must not be changed afterwards. The error wraps
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

// checkAll checks routes before sorting.
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

// OfHosts yields the routes whose Hosts keep accepts, in order. It calls keep at least once for each distinct Hosts of a block, and
// unpacks only blocks with such routes.
func (l List) OfHosts(keep func(hosts string) bool) iter.Seq[*Route] {
	return func(yield func(*Route) bool) {
		for _, b := range l.blocks {
			routes := b.routes
			if b.packed != nil {
				routes = b.packed.unpack(b.bytes, keep)
			}
			for _, r := range routes {
				if (b.packed != nil || keep(r.Hosts)) && !yield(r) {
					return
				}
			}
		}
	}
}

// Get returns the route with the id, or nil. A packed list unpacks a block for it: see [List.Lookup] for many ids.
func (l List) Get(id string) *Route {
	b := l.blockOf(id)
	if b == nil {
		return nil
	}
	return find(b.Routes(), id)
}

// blockOf returns the block that has the id if any has; nil if none can.
func (l List) blockOf(id string) *Block {
	i, found := slices.BinarySearchFunc(l.blocks, id, func(b *Block, id string) int { return strings.Compare(b.first(), id) })
	if !found {
		if i--; i < 0 {
			return nil
		}
	}
	return l.blocks[i]
}

func find(routes []*Route, id string) *Route {
	i, found := slices.BinarySearchFunc(routes, id, func(r *Route, id string) int { return strings.Compare(r.ID, id) })
	if !found {
		return nil
	}
	return routes[i]
}

// Lookup finds routes of a list by id. It keeps open the packed block that it has read last, so ids in order cost one unpacking for each
// block, and no memory for ids that no route has. It is not safe for concurrent use.
type Lookup struct {
	list  List
	block *Block
	open  opened // the block, if it is packed
}

// Lookup returns a lookup in the list.
func (l List) Lookup() *Lookup { return &Lookup{list: l} }

// Get returns the route with the id, or nil.
func (l *Lookup) Get(id string) *Route {
	b := l.list.blockOf(id)
	switch {
	case b == nil:
		return nil
	case b.packed == nil:
		return find(b.routes, id)
	}
	if b != l.block {
		l.block = b
		l.open.openFacts(b.packed)
		l.open.openText(b.packed, b.bytes)
	}
	return l.open.find(id)
}

// With returns the list with the routes of upserts, which replace routes with the same id, and without the ids of deletes. It
// sorts both arguments and keeps the routes. Deleting an id that does not exist is not an error; an id in both arguments exists
// afterwards. The errors are those of NewList, about upserts.
//
// It costs as much as the changed blocks.
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
			j++ // a block that begins because the previous one is full depends on that one
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

// Sharing returns the list with another list's blocks in place of its own where both have the same routes, so that equal changes
// made to both are stored once.
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

// editing applies changes to one segment after another. A segment begins with an id that always begins a block, except for the
// first segment, and ends before the next such id.
type editing struct {
	packed  bool
	packer  packer
	upserts []*Route // the remaining ones
	deletes []string
	blocks  []*Block // done
	pending []*Route // routes to be cut into blocks, after blocks
}

// segment adds a segment with its changes. end is the id at which the next one begins, or "" for the last segment.
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
	case len(merged) == 0: // what follows joins the previous segment, unless it begins a block
	case startsBlock(merged[0].ID):
		e.flush()
	case len(e.pending) == 0:
		e.reopen() // the first route of the segment was removed: the rest joins the previous segment
	}
	e.pending = append(e.pending, merged...)
}

// flush cuts the pending routes into blocks.
func (e *editing) flush() {
	n := len(e.blocks)
	e.blocks = cut(e.blocks, e.pending)
	if e.packed {
		for i, b := range e.blocks[n:] {
			e.blocks[n+i] = e.packer.pack(b)
		}
	}
	e.pending = e.pending[:0]
}

// reopen moves the last finished segment back to the pending routes.
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

// merge returns the routes of the blocks with the changes applied. A route whose text does not change keeps its pointer.
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

// Changes yields the differences between two lists, in the order of ids: the route before and the route after, nil if it does not
// exist. Routes with the same text do not differ. It costs as much as the blocks that the lists do not share.
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

// cursor is a position in a list.
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
