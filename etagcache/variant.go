package etagcache

import (
	"io"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/routesrv/routesrv/table"
)

// variant is the full table or the table of one zone, in all encodings.
type variant struct {
	cache    *Cache
	table    *table.Table
	revision atomic.Uint64 // in its ETags
	pieces   []*piece      // the encoded blocks of the table
	bodies   [encodings]func() *body
	deltas   sync.Map // digest of the base to func() *delta
	// sendable reports whether the table can be the data of an event.
	sendable func() bool
}

// newVariant returns a variant of a table that probably has blocks in common with others.
func (c *Cache) newVariant(t *table.Table, others ...*variant) *variant {
	va := &variant{cache: c, table: t, pieces: piecesOf(t, others...)}
	for e := range encodings {
		va.bodies[e] = sync.OnceValue(func() *body { return va.encode(e) })
	}
	va.sendable = sync.OnceValue(func() bool { return isEventText(t) })
	va.revision.Store(t.Revision())
	return va
}

// lower replaces the revision, if it is higher than the given one.
func (va *variant) lower(revision uint64) {
	for {
		if old := va.revision.Load(); old <= revision || va.revision.CompareAndSwap(old, revision) {
			return
		}
	}
}

// raise replaces the revision, if it is lower than the given one, and returns the resulting one.
func (va *variant) raise(revision uint64) uint64 {
	for {
		old := va.revision.Load()
		if old >= revision {
			return old
		}
		if va.revision.CompareAndSwap(old, revision) {
			return revision
		}
	}
}

// body returns the variant in an encoding. The first call for an encoding encodes the pieces that lack it.
func (va *variant) body(e encoding) *body { return va.bodies[e]() }

// mostSaved is the largest possible ratio of a text to its gzip body: deflate codes at most 258 bytes in two bits (RFC 1951 §3.2.5).
const mostSaved = 1032

// exceeds reports whether n bytes are more than the smallest body. It makes the compressed ones only if a gzip body could be smaller.
func (va *variant) exceeds(n int) bool {
	return n > va.table.Bytes()/mostSaved && n > min(va.body(gzipped).size, va.body(zstandard).size)
}

// delta leads from one table to the table of a variant. It is encoded on first demand, and shared by all clients.
type delta struct {
	json      []byte
	encodings [encodings]func() []byte
}

// deltaFrom returns the delta from the named base to this zone's table. It returns nil if there is none, or if it would be larger
// in the encoding than the compressed table. It is built once for all clients.
func (x *exchange) deltaFrom(base table.Digest, e encoding) *delta {
	ids, ok := x.cache.history.since(base, x.zone, x.state.version.readings.order)
	if !ok {
		return nil
	}
	get, _ := x.variant.deltas.LoadOrStore(base, sync.OnceValue(func() *delta { return x.variant.deltaOf(base, ids) }))
	d := get.(func() *delta)()
	if d == nil || x.variant.exceeds(len(d.encodings[e]())) {
		return nil
	}
	return d
}

// deltaOf makes the delta that leads from the base to the variant, if only the routes with the ids may differ.
func (va *variant) deltaOf(base table.Digest, ids []string) *delta {
	wire := table.Delta{Base: base, Target: va.table.Digest(), Revision: va.table.Revision(), Count: va.table.Len()}
	routes := va.table.Routes().Lookup()
	for _, id := range ids {
		if r := routes.Get(id); r != nil {
			wire.Upserts = append(wire.Upserts, r.Text)
		} else {
			wire.Deletes = append(wire.Deletes, id)
		}
	}
	json, err := wire.AppendJSON(nil)
	if err != nil {
		return nil // it is too large, or a text is not UTF-8
	}
	va.cache.cfg.Metrics.DeltasMade.Inc()
	d := &delta{json: json}
	for e := range encodings {
		d.encodings[e] = sync.OnceValue(func() []byte { return va.cache.encodeOnce(json, e) })
	}
	return d
}

// body is the table in one encoding. Its parts belong to the blocks of the table, which versions share: a version that a slow reader
// keeps alive costs only what it does not share, not a full copy.
type body struct {
	parts []part
	size  int // bytes
}

// part is a part of a body: the text of a block, which is unpacked while it is sent, or bytes.
type part struct {
	block *table.Block
	bytes []byte // if there is no block
}

func (p part) size() int {
	if p.block != nil {
		return p.block.Bytes()
	}
	return len(p.bytes)
}

func (b *body) add(p part) {
	b.parts = append(b.parts, p)
	b.size += p.size()
}

// WriteTo implements [io.WriterTo].
func (b *body) WriteTo(w io.Writer) (n int64, err error) {
	var buffer []byte
	for _, p := range b.parts {
		pieces := slices.Values([][]byte{p.bytes})
		if p.block != nil {
			pieces = p.block.Pieces(&buffer)
		}
		for piece := range pieces {
			m, err := w.Write(piece)
			if n += int64(m); err != nil {
				return n, err
			}
		}
	}
	return n, nil
}

// ReadAt implements [io.ReaderAt], for requests with ranges. It walks the parts from the beginning: there are a few hundred.
func (b *body) ReadAt(dst []byte, off int64) (n int, err error) {
	for _, p := range b.parts {
		if size := int64(p.size()); off >= size {
			off -= size
			continue
		}
		data := p.bytes
		if p.block != nil {
			data = p.block.AppendText(nil)
		}
		n += copy(dst[n:], data[off:])
		if off = 0; n == len(dst) {
			return n, nil
		}
	}
	return n, io.EOF
}
