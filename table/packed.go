package table

import (
	"encoding/binary"
	"slices"
	"strings"

	"github.com/klauspost/compress/s2"
)

// A packed block holds its text and facts compressed with S2. It needs a twelfth of the memory and unpacks at several gigabytes a
// second, faster than SHA-256 can read the text. Data planes keep their tables packed. The caller owns what is unpacked; the block
// does not keep it.

// packed is the compressed form of the routes of a block. It is immutable.
type packed struct {
	// data unpacks to the text of the block, followed by the facts: for each distinct Hosts its length and bytes, and for each route
	// the length of its text, Backend, and the index of its Hosts. All numbers are varints; the facts begin with the number of Hosts.
	data  []byte
	size  int // of the unpacked data
	count int // of routes
	first string
}

// pack returns the block in packed form, or b itself if it is already packed.
func (b *Block) pack() *Block {
	if b.packed != nil {
		return b
	}
	raw := b.AppendText(make([]byte, 0, b.bytes+len(b.routes)*8))
	var hosts []string
	index := make(map[string]int)
	for _, r := range b.routes {
		if _, known := index[r.Hosts]; !known {
			index[r.Hosts] = len(hosts)
			hosts = append(hosts, r.Hosts)
		}
	}
	raw = binary.AppendUvarint(raw, uint64(len(hosts)))
	for _, h := range hosts {
		raw = append(binary.AppendUvarint(raw, uint64(len(h))), h...)
	}
	for _, r := range b.routes {
		raw = binary.AppendUvarint(raw, uint64(len(r.Text)))
		raw = binary.AppendUvarint(raw, uint64(r.Backend))
		raw = binary.AppendUvarint(raw, uint64(index[r.Hosts]))
	}
	p := &packed{
		data: slices.Clip(slices.Clone(s2.EncodeBetter(nil, raw))), size: len(raw), count: len(b.routes), first: strings.Clone(b.routes[0].ID),
	}
	return wrap(&Block{packed: p, bytes: b.bytes, starts: b.starts})
}

// appendRaw appends the unpacked data. It panics if that fails, which only damaged memory can cause.
func (p *packed) appendRaw(dst []byte) []byte {
	n := len(dst)
	dst = slices.Grow(dst, p.size)[:n+p.size]
	if _, err := s2.Decode(dst[n:], p.data); err != nil {
		panic("table: a packed block does not unpack: " + err.Error()) // memory is damaged
	}
	return dst
}

// unpack returns new routes. Each has its own strings, so keeping one of them does not keep the whole block in memory.
func (p *packed) unpack(textBytes int) []*Route {
	raw := p.appendRaw(nil)
	text, facts := raw[:textBytes], raw[textBytes:]
	number := func() int {
		v, n := binary.Uvarint(facts)
		facts = facts[n:]
		return int(v)
	}
	hosts := make([]string, number())
	for i := range hosts {
		n := number()
		hosts[i], facts = string(facts[:n]), facts[n:]
	}
	routes, values := make([]*Route, p.count), make([]Route, p.count)
	for i := range routes {
		n, backend, host := number(), number(), number()
		line := string(text[:n])
		text = text[min(n+1, len(text)):] // without the newline
		values[i] = Route{ID: line[:strings.IndexByte(line, ':')], Text: line, Hosts: hosts[host], Backend: int32(backend)}
		routes[i] = &values[i]
	}
	return routes
}

// Packed returns the list with all its blocks packed. Lists made from it by [List.With] are packed as well. A packed list returns new
// routes with every call.
func (l List) Packed() List {
	blocks := make([]*Block, len(l.blocks))
	for i, b := range l.blocks {
		blocks[i] = b.pack()
	}
	return List{blocks: blocks, len: l.len, bytes: l.bytes, packed: true}
}
