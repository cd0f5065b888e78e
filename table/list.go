package table

import (
	"bytes"
	"cmp"
	"fmt"
	"iter"
	"slices"
	"sort"
	"strings"
)

// List is an immutable list of routes with distinct ids, sorted by id. Lists derived from each other with [List.With] share
// each common [Block], so a change of one of 124,000 routes costs one block. Routes are compressed, and returned again with
// every call. The zero value is an empty list. It is safe for concurrent use.
type List struct {
	blocks []*Block
	len    int
	bytes  int // of the canonical text
}

func byID(a, b *Route) int { return cmp.Compare(a.ID, b.ID) }

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
func (l List) All() iter.Seq[*Route] { return l.OfHosts(everyHost) }

// OfHosts yields the routes whose Hosts keep accepts, in order. It unpacks only blocks with such routes.
func (l List) OfHosts(keep func(hosts string) bool) iter.Seq[*Route] {
	return func(yield func(*Route) bool) {
		var u unpacker
		for _, b := range l.blocks {
			for _, r := range b.ofHosts(keep, &u) {
				if !yield(r) {
					return
				}
			}
		}
	}
}

// Get returns the route with the id, or nil. It unpacks a block: see [List.Lookup] for many ids.
func (l List) Get(id string) *Route { return l.Lookup().Get(id) }

func (l List) blockOf(id string) *Block {
	i, found := slices.BinarySearchFunc(l.blocks, id, func(b *Block, id string) int { return strings.Compare(b.first, id) })
	if !found {
		if i--; i < 0 {
			return nil
		}
	}
	return l.blocks[i]
}

// Lookup finds routes of a list by id. It keeps the block that it has read last.
type Lookup struct {
	list     List
	block    *Block
	routes   []*Route // of the block
	unpacker unpacker
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
		l.block, l.routes = b, b.ofHosts(everyHost, &l.unpacker)
	}
	i, found := slices.BinarySearchFunc(l.routes, id, func(r *Route, id string) int { return strings.Compare(r.ID, id) })
	if !found {
		return nil
	}
	return l.routes[i]
}

// With returns the list with the routes of upserts, which replace routes with the same id, and without the ids of deletes,
// unless they are in upserts, too. It copies what it needs. The error names a duplicate id in upserts, or is the one of
// [Route.Check]. The cost is proportional to the changed blocks.
func (l List) With(upserts []*Route, deletes []string) (List, error) {
	if len(upserts) == 0 && len(deletes) == 0 {
		return l, nil
	}
	upserts = slices.SortedFunc(slices.Values(upserts), byID)
	for i, r := range upserts {
		if err := r.Check(); err != nil {
			return List{}, err
		}
		if i > 0 && r.ID == upserts[i-1].ID {
			return List{}, fmt.Errorf("duplicate route id: %q", r.ID)
		}
	}
	ids := slices.Clone(deletes)
	for _, r := range upserts {
		ids = append(ids, r.ID)
	}
	slices.Sort(ids)

	var next builder
	for i, block := range l.blocks {
		changes, added := len(ids), len(upserts) // in this block
		if i+1 < len(l.blocks) {
			end := l.blocks[i+1].first
			changes = sort.SearchStrings(ids, end)
			added = sort.Search(added, func(i int) bool { return upserts[i].ID >= end })
		}
		if changes == 0 {
			next.take(block)
			continue
		}
		kept := slices.DeleteFunc(block.Routes(), func(r *Route) bool {
			_, replaced := slices.BinarySearch(ids, r.ID)
			return replaced
		})
		for _, r := range slices.SortedFunc(slices.Values(append(kept, upserts[:added]...)), byID) {
			next.add(r)
		}
		ids, upserts = ids[changes:], upserts[added:]
	}
	for _, r := range upserts { // of a list that was empty
		next.add(r)
	}
	return next.list(), nil
}

// Sharing returns the list with blocks of other lists in place of equal ones: they are stored, and encoded, once.
func (l List) Sharing(others ...List) List {
	blocks := slices.Clone(l.blocks)
	for i, b := range blocks {
		for _, other := range others {
			if theirs := other.blockOf(b.first); theirs != nil && theirs.equal(b) {
				blocks[i] = theirs
				break
			}
		}
	}
	return List{blocks: blocks, len: l.len, bytes: l.bytes}
}

// Changes yields the differences between two lists, in the order of ids: the route before and after, nil if it does not exist.
// Its cost is proportional to the blocks that the lists do not share.
func Changes(before, after List) iter.Seq2[*Route, *Route] {
	return func(yield func(*Route, *Route) bool) {
		old, now := cursor{blocks: before.without(after).blocks}, cursor{blocks: after.without(before).blocks}
		old.next()
		now.next()
		for old.line != nil || now.line != nil {
			var was, is *Route
			order := old.compare(&now)
			same := order == 0 && bytes.Equal(old.line, now.line)
			if order <= 0 {
				if !same {
					was = old.route()
				}
				old.next()
			}
			if order >= 0 {
				if !same {
					is = now.route()
				}
				now.next()
			}
			if !same && !yield(was, is) {
				return
			}
		}
	}
}

// cursor reads the routes of blocks one by one, and copies only those that are asked for.
type cursor struct {
	blocks   []*Block
	at       int    // the next line of the first block
	begin    uint32 // of it
	line     []byte // the text of the last one, until the next call; nil at the end
	hosts    string
	unpacker unpacker
}

func (c *cursor) next() {
	if c.line = nil; len(c.blocks) == 0 {
		return
	}
	b := c.blocks[0]
	l := b.lines[c.at]
	c.line, c.hosts = c.unpacker.view(b, c.begin, l.end), b.hosts[l.hosts]
	if c.at, c.begin = c.at+1, l.end+1; c.at == len(b.lines) { // without the newline
		c.blocks, c.at, c.begin = c.blocks[1:], 0, 0
	}
}

func (c *cursor) compare(other *cursor) int {
	switch {
	case other.line == nil:
		return -1
	case c.line == nil:
		return 1
	}
	return bytes.Compare(c.line[:bytes.IndexByte(c.line, ':')], other.line[:bytes.IndexByte(other.line, ':')])
}

func (c *cursor) route() *Route { return newRoute(string(c.line), c.hosts) }

func (l List) without(other List) List {
	theirs := make(map[*Block]bool, len(other.blocks))
	for _, b := range other.blocks {
		theirs[b] = true
	}
	return List{blocks: slices.DeleteFunc(slices.Clone(l.blocks), func(b *Block) bool { return theirs[b] })}
}
