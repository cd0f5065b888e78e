package table

import (
	"bytes"
	"encoding/binary"
	"slices"
	"strings"
	"sync"

	"github.com/klauspost/compress/s2"
)

// A packed block holds its text and facts compressed with S2. It needs a tenth of the memory and unpacks at several gigabytes a
// second, faster than SHA-256 can read the text. Data planes keep their tables packed, and so does the compiler. The caller owns
// what is unpacked; the block does not keep it.

// packed is the compressed form of the routes of a block. It is immutable.
type packed struct {
	// pieces unpack to the text of the block: each to pieceSize bytes, and the last one to the rest. So a reader of the text needs
	// memory for a piece, not for a block.
	pieces [][]byte
	// facts unpack to the number of distinct Hosts, for each its length and bytes, and for each route the length of its text,
	// Backend, and the index of its Hosts. All numbers are varints.
	facts []byte
	count int // of routes
	first string
}

// pieceSize is how much text of a block is in memory at once for a reader of its pieces.
const pieceSize = 32 << 10

// packer packs blocks, one after the other, in memory that it uses again.
type packer struct {
	text, out []byte
}

// pack returns the block in packed form, or b itself if it is already packed.
func (p *packer) pack(b *Block) *Block {
	if b.packed != nil {
		return b
	}
	packed := &packed{count: len(b.routes), first: strings.Clone(b.routes[0].ID)}
	p.text = b.AppendText(slices.Grow(p.text[:0], b.bytes))
	packed.pieces = p.pieces(p.text)
	p.text = b.appendFacts(p.text[:0])
	packed.facts = p.compress(p.text)
	return wrap(&Block{packed: packed, bytes: b.bytes, starts: b.starts})
}

func (p *packer) pieces(text []byte) [][]byte {
	all := make([][]byte, 0, len(text)/pieceSize+1)
	for piece := range slices.Chunk(text, pieceSize) {
		all = append(all, p.compress(piece))
	}
	return all
}

func (p *packer) compress(data []byte) []byte {
	p.out = slices.Grow(p.out[:0], s2.MaxEncodedLen(len(data)))
	return slices.Clip(slices.Clone(s2.Encode(p.out[:cap(p.out)], data)))
}

// appendFacts appends packed.facts of an unpacked block.
func (b *Block) appendFacts(dst []byte) []byte {
	var hosts []string
	index := make(map[string]int)
	for _, r := range b.routes {
		if _, known := index[r.Hosts]; !known {
			index[r.Hosts] = len(hosts)
			hosts = append(hosts, r.Hosts)
		}
	}
	dst = binary.AppendUvarint(dst, uint64(len(hosts)))
	for _, h := range hosts {
		dst = append(binary.AppendUvarint(dst, uint64(len(h))), h...)
	}
	for _, r := range b.routes {
		dst = binary.AppendUvarint(dst, uint64(len(r.Text)))
		dst = binary.AppendUvarint(dst, uint64(r.Backend))
		dst = binary.AppendUvarint(dst, uint64(index[r.Hosts]))
	}
	return dst
}

// unpacked decompresses data into dst, which grows if necessary. It panics if that fails, which only damaged memory can cause.
func unpacked(dst, data []byte) []byte {
	raw, err := s2.Decode(dst[:cap(dst)], data)
	if err != nil {
		panic("table: a packed block does not unpack: " + err.Error()) // memory is damaged
	}
	return raw
}

// appendText appends the text of a block with that many bytes.
func (p *packed) appendText(dst []byte, bytes int) []byte {
	dst = slices.Grow(dst, bytes)
	for _, piece := range p.pieces {
		n := len(dst)
		dst = dst[:n+len(unpacked(dst[n:n:cap(dst)], piece))]
	}
	return dst
}

// opened is a packed block whose texts can be read in place. It uses its memory again for the next block.
type opened struct {
	text, facts []byte
	id          []byte   // that is looked for
	hosts       [][]byte // the distinct Hosts, in facts
	lines       []line
}

// line is a route in the text of an opened block.
type line struct {
	begin, end int
	backend    int32
	hosts      int
}

// openFacts reads everything except the text.
func (o *opened) openFacts(p *packed) {
	o.facts = unpacked(o.facts[:0], p.facts)
	rest := o.facts
	number := func() int {
		v, n := binary.Uvarint(rest)
		rest = rest[n:]
		return int(v)
	}
	o.hosts, o.lines = o.hosts[:0], o.lines[:0]
	for range number() {
		n := number()
		o.hosts, rest = append(o.hosts, rest[:n]), rest[n:]
	}
	begin := 0
	for range p.count {
		end := begin + number()
		o.lines = append(o.lines, line{begin: begin, end: end, backend: int32(number()), hosts: number()})
		begin = end + 1 // without the newline
	}
}

// openText reads the text.
func (o *opened) openText(p *packed, bytes int) { o.text = p.appendText(o.text[:0], bytes) }

// route fills r from a line. It copies the strings, so that a kept route does not keep the block in memory.
func (o *opened) route(r *Route, l line, hosts string) {
	text := string(o.text[l.begin:l.end])
	*r = Route{ID: text[:strings.IndexByte(text, ':')], Text: text, Hosts: hosts, Backend: l.backend}
}

// find returns a new route with the id, or nil.
func (o *opened) find(id string) *Route {
	o.id = append(o.id[:0], id...)
	i, found := slices.BinarySearchFunc(o.lines, o.id, func(l line, id []byte) int {
		text := o.text[l.begin:l.end]
		return bytes.Compare(text[:bytes.IndexByte(text, ':')], id)
	})
	if !found {
		return nil
	}
	r := &Route{}
	o.route(r, o.lines[i], string(o.hosts[o.lines[i].hosts]))
	return r
}

// spare has the memory of blocks that are opened for a moment: of *opened.
var spare = sync.Pool{New: func() any { return &opened{} }}

// unpack returns new routes, those whose Hosts keep accepts; nil accepts all. If no route is accepted, the text stays packed.
func (p *packed) unpack(bytes int, keep func(hosts string) bool) []*Route {
	o := spare.Get().(*opened)
	defer spare.Put(o)
	o.openFacts(p)
	hosts := make([]string, len(o.hosts))
	kept, some := make([]bool, len(hosts)), false
	for i, h := range o.hosts {
		hosts[i] = string(h)
		kept[i] = keep == nil || keep(hosts[i])
		some = some || kept[i]
	}
	if !some {
		return nil
	}
	o.openText(p, bytes)
	routes := make([]*Route, 0, p.count)
	var values []Route // for all routes at once; for few of them each has its own memory
	if keep == nil {
		values = make([]Route, p.count)
	}
	for i, l := range o.lines {
		if kept[l.hosts] {
			r := &Route{}
			if values != nil {
				r = &values[i]
			}
			o.route(r, l, hosts[l.hosts])
			routes = append(routes, r)
		}
	}
	return routes
}

// equal reports whether two packed blocks have the same routes: the same input has the same output.
func (p *packed) equal(o *packed) bool {
	return bytes.Equal(p.facts, o.facts) && slices.EqualFunc(p.pieces, o.pieces, bytes.Equal)
}

// Packed returns the list with all its blocks packed. Lists made from it by [List.With] are packed as well. A packed list returns new
// routes with every call.
func (l List) Packed() List {
	blocks := make([]*Block, len(l.blocks))
	var p packer
	for i, b := range l.blocks {
		blocks[i] = p.pack(b)
	}
	return List{blocks: blocks, len: l.len, bytes: l.bytes, packed: true}
}
