package etagcache

import (
	"bytes"
	"io"
	"sync"
	"sync/atomic"

	"github.com/routesrv/routesrv/table"
)

// variant is the full table or the table of one zone, in all encodings.
type variant struct {
	cache    *Cache
	table    *table.Table
	revision atomic.Uint64 // in its ETags
	bodies   [encodings]func() *body
	deltas   sync.Map // digest of the base to func() *delta
}

func (c *Cache) newVariant(t *table.Table) *variant {
	va := &variant{cache: c, table: t}
	for e := range encodings {
		va.bodies[e] = sync.OnceValue(func() *body { return va.encode(e) })
	}
	va.revision.Store(t.Revision())
	return va
}

// raise replaces the revision, if it is lower than the given one, and returns the resulting one.
func (va *variant) raise(revision uint64) uint64 {
	for {
		old := va.revision.Load()
		if next := max(old, revision); va.revision.CompareAndSwap(old, next) {
			return next
		}
	}
}

// body returns the variant in an encoding. The first call for an encoding encodes the blocks that lack it.
func (va *variant) body(e encoding) *body { return va.bodies[e]() }

// delta leads from one table to the table of a variant, in all encodings. It is encoded on first demand, and shared by all clients.
type delta struct {
	bodies [encodings]func() []byte
	size   int // bytes of the JSON
}

// smallDelta is the size up to which a delta is sent over a stream although the table is smaller: a fetch would take longer.
const smallDelta = 16 << 10

// deltaFrom returns the delta from the named base to this zone's table. It returns nil if there is none, or if it would be larger
// than the table and smallDelta. It is built once for all clients.
func (x *exchange) deltaFrom(base table.Digest) *delta {
	ids, ok := x.cache.history.since(base, x.zone, x.state.version.readings.order)
	if !ok {
		return nil
	}
	get, _ := x.variant.deltas.LoadOrStore(base, sync.OnceValue(func() *delta { return x.variant.deltaOf(base, ids) }))
	return get.(func() *delta)()
}

// deltaOf makes the delta that leads from the base to the variant, if only the routes with the ids may differ.
func (va *variant) deltaOf(base table.Digest, ids []string) *delta {
	wire := table.Delta{Base: base, Target: va.table.Digest(), Revision: va.table.Revision(), Count: va.table.Len()}
	routes, size := va.table.Routes().Lookup(), 0
	for _, id := range ids {
		if r := routes.Get(id); r == nil {
			wire.Deletes = append(wire.Deletes, id)
		} else if size += len(r.Text); size <= table.MaxDelta {
			wire.Upserts = append(wire.Upserts, r.Text)
		} else {
			return nil
		}
	}
	json, err := wire.AppendJSON(nil)
	if err != nil || len(json) > max(va.table.Bytes(), smallDelta) {
		return nil // it is too large, or a text is not UTF-8
	}
	d := &delta{size: len(json)}
	for e := range encodings {
		d.bodies[e] = sync.OnceValue(func() []byte { return va.cache.encodeOnce(json, e) })
	}
	return d
}

// body is the table in one encoding. Its parts belong to the blocks of the table, which versions share: a version that a slow reader
// keeps alive costs only what it does not share, not a full copy.
type body struct {
	parts []part
	size  int64 // bytes
}

// part is a part of a body: the text of a block, which is unpacked while it is sent, or bytes.
type part interface {
	io.ReaderAt
	Size() int64
}

func (b *body) add(p part) {
	b.parts = append(b.parts, p)
	b.size += p.Size()
}

func (b *body) addBytes(data []byte) { b.add(bytes.NewReader(data)) }

// ReadAt implements [io.ReaderAt]. It walks the parts from the beginning: there are a few hundred.
func (b *body) ReadAt(dst []byte, off int64) (n int, err error) {
	for _, p := range b.parts {
		if off >= p.Size() {
			off -= p.Size()
			continue
		}
		m, _ := p.ReadAt(dst[n:], off)
		if n += m; n == len(dst) {
			return n, nil
		}
		off = 0
	}
	return n, io.EOF
}

// content is the body of an answer. It is made when [http.ServeContent] first seeks in it: after it has decided that a body is sent.
type content struct {
	body func() *body
	*io.SectionReader
}

// Seek implements [io.Seeker].
func (c *content) Seek(offset int64, whence int) (int64, error) {
	if c.SectionReader == nil {
		b := c.body()
		c.SectionReader = io.NewSectionReader(b, 0, b.size)
	}
	return c.SectionReader.Seek(offset, whence)
}
