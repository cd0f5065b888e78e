package table

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"slices"
	"sort"
	"strings"
)

// List is an immutable list of routes with distinct ids, sorted by them. Lists derived from each other with [List.With] share
// everything they have in common, in units of [Block]: changing one of 124,000 routes costs one block, and so does finding the
// difference ([Changes]).
//
// A list keeps its routes compressed and returns new ones with every call.
//
// The zero value is an empty list. A List is safe for concurrent use.
type List struct {
	blocks []*Block
	len    int
	bytes  int // of the canonical text
}

// NewList returns a list of routes given in any order. It copies what it needs of them. The error wraps
// ErrDuplicateID, ErrInvalidID or ErrInvalidText and names the id.
func NewList(routes []*Route) (List, error) {
	if !slices.IsSortedFunc(routes, byID) {
		routes = slices.Clone(routes)
		slices.SortFunc(routes, byID)
	}
	if err := checkAll(routes); err != nil {
		return List{}, err
	}
	return newList(cut(nil, routes)), nil
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

func newList(blocks []*Block) List {
	l := List{blocks: blocks, bytes: max(0, len(blocks)-1)}
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

// All yields the routes in order.
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
			for _, r := range b.ofHosts(keep) {
				if !yield(r) {
					return
				}
			}
		}
	}
}

// Get returns the route with the id, or nil. It unpacks a block: see [List.Lookup] for many ids.
func (l List) Get(id string) *Route { return l.Lookup().Get(id) }

// blockOf returns the block that has the id if any has; nil if none can.
func (l List) blockOf(id string) *Block {
	i, found := slices.BinarySearchFunc(l.blocks, id, func(b *Block, id string) int { return strings.Compare(b.first, id) })
	if !found {
		if i--; i < 0 {
			return nil
		}
	}
	return l.blocks[i]
}

// Lookup finds routes of a list by id. It keeps open the block that it has read last, so ids in order cost one unpacking for each
// block. It is not safe for concurrent use.
type Lookup struct {
	list   List
	block  *Block
	routes []*Route // of the block
}

// Lookup returns a lookup in the list.
func (l List) Lookup() *Lookup { return &Lookup{list: l} }

// Get returns the route with the id, or nil.
func (l *Lookup) Get(id string) *Route {
	b := l.list.blockOf(id)
	if b == nil {
		return nil
	}
	if b != l.block {
		l.block, l.routes = b, b.Routes()
	}
	i, found := slices.BinarySearchFunc(l.routes, id, func(r *Route, id string) int { return strings.Compare(r.ID, id) })
	if !found {
		return nil
	}
	return l.routes[i]
}

// With returns the list with the routes of upserts, which replace routes with the same id, and without the ids of deletes. It
// copies what it needs of both arguments. Deleting an id that does not exist is not an error; an id in both arguments exists
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
	replaced := make(map[string]bool, len(upserts)+len(deletes))
	for _, r := range upserts {
		replaced[r.ID] = true
	}
	for _, id := range deletes {
		replaced[id] = true
	}
	ids := slices.Sorted(maps.Keys(replaced))

	var all []segment
	for rest := l.blocks; len(rest) > 0 || len(ids) > 0; {
		n := min(1, len(rest))
		for n < len(rest) && !rest[n].starts {
			n++ // a block that begins because the previous one is full depends on that one
		}
		s := segment{blocks: rest[:n]}
		changes, added := len(ids), len(upserts)
		if rest = rest[n:]; len(rest) > 0 {
			changes = sort.SearchStrings(ids, rest[0].first)
			added = sort.Search(added, func(i int) bool { return upserts[i].ID >= rest[0].first })
		}
		if changes > 0 {
			kept := slices.DeleteFunc(s.unpack(), func(r *Route) bool { return replaced[r.ID] })
			s.routes = slices.SortedFunc(slices.Values(append(kept, upserts[:added]...)), byID)
			s.blocks = nil
		}
		ids, upserts = ids[changes:], upserts[added:]
		switch last := len(all) - 1; {
		case len(s.blocks) == 0 && len(s.routes) == 0: // all its routes were removed
		case last >= 0 && len(s.blocks) == 0 && !startsBlock(s.routes[0].ID): // its first route was removed
			all[last] = segment{routes: append(all[last].unpack(), s.routes...)}
		default:
			all = append(all, s)
		}
	}
	var blocks []*Block
	for _, s := range all {
		blocks = cut(append(blocks, s.blocks...), s.routes)
	}
	return newList(blocks), nil
}

// segment is a part of a list that is being changed: its blocks, or the routes that are to be cut into blocks. It begins with an id that
// always begins a block, except for the first segment, and ends before the next such id.
type segment struct {
	blocks []*Block
	routes []*Route
}

// unpack returns the routes of the segment.
func (s segment) unpack() []*Route {
	routes := s.routes
	for _, b := range s.blocks {
		routes = append(routes, b.Routes()...)
	}
	return routes
}

// share replaces blocks of the list, which nobody else has yet, by those of another list with the same routes, so that both are
// stored once.
func (l List) share(other List) {
	for i, b := range l.blocks {
		if theirs := other.blockOf(b.first); theirs != nil && theirs.equal(b) {
			l.blocks[i] = theirs
		}
	}
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
				if old.Text == now.Text {
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
