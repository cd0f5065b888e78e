package table

import (
	"iter"
	"maps"
	"slices"
	"sync"
)

// Block boundaries depend on hashes of ids, not on counting from the start: adding or removing a route moves no boundary except
// its own. So two lists with the same routes have the same blocks, whatever changes led to them, and the encoded form of a block
// stays valid as long as the block exists.
const (
	// meanBlock is the average number of routes in a block. With fewer, compression suffers; with more, a change of one route
	// costs more.
	meanBlock = 512
	// maxBlock limits blocks whose ids happen to have no boundary, or were chosen that way.
	maxBlock = 4 * meanBlock
)

// Block is a run of adjacent routes of a [List]. It is immutable and shared by all lists that have the same routes there: an equal
// pointer means an equal text. It may be packed ([List.Packed]). All methods are safe for concurrent use.
type Block struct {
	routes []*Route // sorted by id, never empty; nil if packed
	packed *packed  // replaces routes
	bytes  int      // length of the text
	starts bool     // its first route always begins a block

	hosts func() []string // computed on first demand
	zones func() []string // computed on first demand
	zoned sync.Map        // zone to *Block, built on first demand

	checksum func() uint32 // of the text, computed on first demand
}

// newBlock takes ownership of routes, which must be sorted, checked and not empty.
func newBlock(routes []*Route) *Block {
	b := &Block{routes: routes, bytes: len(routes) - 1, starts: startsBlock(routes[0].ID)}
	for _, r := range routes {
		b.bytes += len(r.Text)
	}
	return wrap(b)
}

// wrap sets the functions that compute facts about the routes of a block on first demand.
func wrap(b *Block) *Block {
	b.hosts = sync.OnceValue(func() []string {
		hosts := hostAlternatives(b.Routes())
		if b.packed != nil {
			return owned(hosts)
		}
		return hosts
	})
	b.zones = sync.OnceValue(func() []string { return zonesOf(b.Routes()) })
	b.checksum = sync.OnceValue(b.sum)
	return b
}

// Routes returns the routes, sorted by id. The slice may be shared: it must not be changed. A packed block unpacks them on
// each call.
func (b *Block) Routes() []*Route {
	if b.packed != nil {
		return b.packed.unpack(b.bytes, nil)
	}
	return b.routes
}

// Packed reports whether the block is packed.
func (b *Block) Packed() bool { return b.packed != nil }

// Len returns the number of routes.
func (b *Block) Len() int {
	if b.packed != nil {
		return b.packed.count
	}
	return len(b.routes)
}

// first returns the id of the first route.
func (b *Block) first() string {
	if b.packed != nil {
		return b.packed.first
	}
	return b.routes[0].ID
}

// Bytes returns the length of the text that AppendText appends.
func (b *Block) Bytes() int { return b.bytes }

// AppendText appends the lines of the block, joined by "\n", without a trailing one. The canonical text of a table consists of
// the texts of its blocks, joined in the same way.
func (b *Block) AppendText(dst []byte) []byte {
	if b.packed != nil {
		return b.packed.appendText(dst, b.bytes)
	}
	for i, r := range b.routes {
		if i > 0 {
			dst = append(dst, '\n')
		}
		dst = append(dst, r.Text...)
	}
	return dst
}

// Pieces yields the text that AppendText appends, in order, in pieces of at most 32 KiB or one route. A piece is valid only until
// the next one: all are in the buffer, which grows if necessary. So many slow readers do not each hold a copy of a block.
func (b *Block) Pieces(buffer *[]byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		if b.packed != nil {
			for _, piece := range b.packed.pieces {
				if *buffer = unpacked(*buffer, piece); !yield(*buffer) {
					return
				}
			}
			return
		}
		piece := (*buffer)[:0]
		defer func() { *buffer = piece }()
		for i, r := range b.routes {
			if len(piece)+1+len(r.Text) > pieceSize && len(piece) > 0 {
				if !yield(piece) {
					return
				}
				piece = piece[:0]
			}
			if i > 0 {
				piece = append(piece, '\n')
			}
			piece = append(piece, r.Text...)
		}
		yield(piece)
	}
}

// zone returns the block with the texts for a zone: b itself if nothing differs.
func (b *Block) zone(zone string) *Block {
	if _, in := slices.BinarySearch(b.zones(), zone); !in {
		return b
	}
	if z, ok := b.zoned.Load(zone); ok {
		return z.(*Block)
	}
	z, _ := b.zoned.LoadOrStore(zone, b.makeZone(zone))
	return z.(*Block)
}

func (b *Block) makeZone(zone string) *Block {
	var routes []*Route // nil until a route differs
	var scratch []endpoint
	all := b.Routes()
	for i, r := range all {
		if r.Backend == 0 {
			continue
		}
		var text string
		if text, scratch = zoneText(r, zone, scratch[:0]); text == r.Text {
			continue
		}
		if routes == nil {
			routes = slices.Clone(all)
		}
		own := *r
		own.Text, own.ID = text, text[:len(r.ID)]
		routes[i] = &own
	}
	if routes == nil {
		return b
	}
	z := newBlock(routes)
	if b.packed != nil {
		return new(packer).pack(z)
	}
	return z
}

// cut splits routes into blocks. The first route must begin a block.
func cut(dst []*Block, routes []*Route) []*Block {
	start := 0
	for i := range routes {
		if endsBlock(routes[start:i], routes[i]) {
			dst = append(dst, newBlock(slices.Clone(routes[start:i])))
			start = i
		}
	}
	if start < len(routes) {
		dst = append(dst, newBlock(slices.Clone(routes[start:])))
	}
	return dst
}

// endsBlock reports whether a block has no more routes than these, if the next one is r.
func endsBlock(routes []*Route, r *Route) bool {
	return len(routes) > 0 && (len(routes) == maxBlock || startsBlock(r.ID))
}

// startsBlock reports whether a route with the id always begins a block.
func startsBlock(id string) bool {
	h := uint32(2166136261) // FNV-1a, without the allocation of hash/fnv
	for i := range len(id) {
		h = (h ^ uint32(id[i])) * 16777619
	}
	return h%meanBlock == 0
}

// different returns the blocks that are in only one of two lists.
func different(before, after []*Block) (was, is []*Block) {
	for len(before) > 0 && len(after) > 0 {
		a, b := before[0], after[0]
		if a == b {
			before, after = before[1:], after[1:]
			continue
		}
		first, second := a.first(), b.first()
		if first <= second {
			was, before = append(was, a), before[1:]
		}
		if second <= first {
			is, after = append(is, b), after[1:]
		}
	}
	return append(was, before...), append(is, after...)
}

// union returns the distinct strings of all blocks, sorted, in a new slice.
func union(blocks []*Block, of func(*Block) []string) []string {
	if len(blocks) <= fewBlocks {
		var all []string
		for _, b := range blocks {
			all = append(all, of(b)...)
		}
		slices.Sort(all) // cheaper than a map for so few strings
		return slices.Compact(all)
	}
	distinct := make(map[string]struct{})
	for _, b := range blocks {
		for _, s := range of(b) {
			distinct[s] = struct{}{}
		}
	}
	return slices.Sorted(maps.Keys(distinct))
}

// equal reports whether both blocks have the same routes.
func (b *Block) equal(o *Block) bool {
	if b == o {
		return true
	}
	if b.Len() != o.Len() || b.bytes != o.bytes || b.first() != o.first() {
		return false
	}
	if b.packed != nil && o.packed != nil {
		return b.packed.equal(o.packed)
	}
	return slices.EqualFunc(b.Routes(), o.Routes(), func(a, b *Route) bool { return a == b || *a == *b })
}
