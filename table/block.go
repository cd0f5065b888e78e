package table

import (
	"bytes"
	"io"
	"slices"
	"strings"
	"sync"

	"github.com/klauspost/compress/s2"
)

// Boundaries depend on hashes of ids: a route moves none but its own, and lists with the same routes have the same blocks.
const (
	meanBlock = 512           // routes: fewer compress worse, more make a change of one route more expensive
	maxBlock  = 4 * meanBlock // even if ids were chosen to have no boundary
	pieceSize = 32 << 10      // of text unpacked at once, so that slow readers do not each hold a copy of a block
)

// Block is a run of adjacent routes of a [List]. It is immutable, shared by lists, and safe for concurrent use. The text is
// compressed with S2, which unpacks faster than SHA-256 reads.
type Block struct {
	pieces [][]byte // unpack to the text: each to pieceSize bytes, and the last one to the rest
	lines  []line   // one for each route, never empty
	hosts  []string // the distinct Hosts of the routes
	first  string   // id of the first route
	bytes  int      // length of the text

	memos sync.Map // key to func() any
}

type line struct {
	end   uint32 // in the text
	hosts uint32 // index in hosts
}

// newBlock returns a block of routes, which must be sorted, checked and not empty. It keeps none of them.
func newBlock(routes []*Route) *Block {
	b := &Block{lines: make([]line, len(routes)), first: strings.Clone(routes[0].ID)}
	b.bytes = len(routes) - 1
	for _, r := range routes {
		b.bytes += len(r.Text)
	}
	text := make([]byte, 0, b.bytes)
	hosts := make(map[string]uint32)
	for i, r := range routes {
		if i > 0 {
			text = append(text, '\n')
		}
		text = append(text, r.Text...)
		at, known := hosts[r.Hosts]
		if !known {
			at = uint32(len(b.hosts))
			hosts[r.Hosts] = at
			b.hosts = append(b.hosts, strings.Clone(r.Hosts))
		}
		b.lines[i] = line{uint32(len(text)), at}
	}
	packed := make([]byte, s2.MaxEncodedLen(min(len(text), pieceSize)))
	for piece := range slices.Chunk(text, pieceSize) {
		b.pieces = append(b.pieces, bytes.Clone(s2.Encode(packed, piece)))
	}
	return b
}

// Routes returns new routes, sorted by id. Each call unpacks them.
func (b *Block) Routes() []*Route { return b.OfHosts(everyHost) }

// Hosts returns the distinct Hosts of the routes. The slice must not be changed.
func (b *Block) Hosts() []string { return b.hosts }

// OfHosts returns new routes, those whose Hosts keep accepts. If no route is accepted, the text stays packed.
func (b *Block) OfHosts(keep func(hosts string) bool) []*Route {
	return b.ofHosts(keep, &unpacker{})
}

func everyHost(string) bool { return true }

// ofHosts is OfHosts with an unpacker that later blocks can use.
func (b *Block) ofHosts(keep func(hosts string) bool, u *unpacker) []*Route {
	kept := make([]bool, len(b.hosts))
	for i, hosts := range b.hosts {
		kept[i] = keep(hosts)
	}
	if !slices.Contains(kept, true) {
		return nil
	}
	routes := make([]*Route, 0, len(b.lines))
	begin := uint32(0)
	for _, l := range b.lines {
		if kept[l.hosts] {
			routes = append(routes, newRoute(string(u.view(b, begin, l.end)), b.hosts[l.hosts])) // a copy, so that it keeps no piece
		}
		begin = l.end + 1 // without the newline
	}
	return routes
}

func newRoute(line, hosts string) *Route {
	return &Route{ID: line[:strings.IndexByte(line, ':')], Text: line, Hosts: hosts}
}

func (b *Block) unpack(buffer []byte, piece int) []byte {
	text, err := s2.Decode(buffer, b.pieces[piece])
	if err != nil {
		panic("table: a block does not unpack: " + err.Error()) // memory is damaged
	}
	return text
}

// unpacker reads parts of the texts of blocks. It unpacks one piece at a time. The zero value is ready.
type unpacker struct {
	block  *Block
	piece  int
	text   []byte // of the piece
	joined []byte // a buffer for parts of several pieces
}

// view returns a part of the text of a block, until the next call.
func (u *unpacker) view(b *Block, begin, end uint32) []byte {
	u.joined = u.joined[:0]
	for {
		if piece := int(begin / pieceSize); u.block != b || u.piece != piece {
			u.block, u.piece, u.text = b, piece, b.unpack(u.text[:cap(u.text)], piece)
		}
		part := u.text[begin%pieceSize:]
		if part = part[:min(len(part), int(end-begin))]; len(u.joined) == 0 && uint32(len(part)) == end-begin {
			return part
		}
		u.joined = append(u.joined, part...)
		if begin += uint32(len(part)); begin == end {
			return u.joined
		}
	}
}

// Len returns the number of routes.
func (b *Block) Len() int { return len(b.lines) }

// Bytes returns the length of the text that AppendText appends.
func (b *Block) Bytes() int { return b.bytes }

// ReadAt implements [io.ReaderAt] for the lines of the block, joined by "\n", as blocks are in a table.
func (b *Block) ReadAt(dst []byte, off int64) (n int, err error) {
	for n < len(dst) {
		if off >= int64(b.bytes) {
			return n, io.EOF
		}
		text := b.unpack(slices.Clip(dst[n:]), int(off/pieceSize))
		m := copy(dst[n:], text[off%pieceSize:])
		n, off = n+m, off+int64(m)
	}
	return n, nil
}

// AppendText appends the text that ReadAt reads.
func (b *Block) AppendText(dst []byte) []byte {
	dst = slices.Grow(dst, b.bytes)
	n, _ := b.ReadAt(dst[len(dst):len(dst)+b.bytes], 0)
	return dst[:len(dst)+n]
}

// Memo returns the value built by the first call with the key, whose type belongs to the caller, as with a context.
func (b *Block) Memo(key any, make func() any) any {
	get, ok := b.memos.Load(key)
	if !ok {
		get, _ = b.memos.LoadOrStore(key, sync.OnceValue(make))
	}
	return get.(func() any)()
}

// builder divides routes, in the order of their ids, into blocks. The zero value has no blocks.
type builder struct {
	blocks []*Block
	routes []*Route // after the blocks
}

// add adds the next route. It unpacks the last block if the route belongs to it.
func (b *builder) add(r *Route) {
	if last := len(b.blocks) - 1; len(b.routes) == 0 && last >= 0 && b.blocks[last].Len() < maxBlock && !startsBlock(r.ID) {
		b.routes, b.blocks = b.blocks[last].Routes(), b.blocks[:last]
	}
	b.cut(r.ID)
	b.routes = append(b.routes, r)
}

// take adds the routes of a block of another list: the block itself if they form one here, too.
func (b *builder) take(block *Block) {
	b.cut(block.first)
	if last := len(b.blocks) - 1; len(b.routes) == 0 && (last < 0 || startsBlock(block.first) || b.blocks[last].Len() == maxBlock) {
		b.blocks = append(b.blocks, block)
		return
	}
	for _, r := range block.Routes() {
		b.add(r)
	}
}

func (b *builder) cut(id string) {
	if len(b.routes) == maxBlock || startsBlock(id) {
		b.end()
	}
}

func (b *builder) end() {
	if len(b.routes) > 0 {
		b.blocks = append(b.blocks, newBlock(b.routes))
		clear(b.routes)
		b.routes = b.routes[:0]
	}
}

func (b *builder) list() List {
	b.end()
	return newList(b.blocks)
}

// startsBlock reports whether a route with the id always begins a block.
func startsBlock(id string) bool {
	h := uint32(2166136261) // FNV-1a, without the allocation of hash/fnv
	for i := range len(id) {
		h = (h ^ uint32(id[i])) * 16777619
	}
	return h%meanBlock == 0
}

func (b *Block) equal(o *Block) bool {
	return b == o || b.bytes == o.bytes && slices.Equal(b.lines, o.lines) && slices.Equal(b.hosts, o.hosts) &&
		slices.EqualFunc(b.pieces, o.pieces, bytes.Equal)
}
