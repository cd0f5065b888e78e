package etagcache

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/zstd"

	"github.com/routesrv/routesrv/table"
)

// Bodies are compressed block by block, each independently, so that a change of one route costs one block. The results are a gzip
// member, whose deflate blocks begin at byte boundaries without back-references, and a sequence of zstd frames, which is a valid
// zstd body (RFC 8878 §3.1). The blocks depend only on the routes, so equal tables have equal bodies on every replica.
//
// The levels trade bytes, which are sent to every data plane, against the time until a change is served;
// docs/internals/performance.md has the figures.
const (
	gzipLevel = 6
	zstdLevel = zstd.SpeedDefault
	// zstdWindow is the largest distance of a match in bytes. Few blocks are longer; with the default the encoder would use 24 MB.
	zstdWindow = 1 << 20
)

// encodedBlock is a block as deflate blocks, none of them marked as the last, or as a zstd frame.
type encodedBlock struct {
	data []byte
	crc  uint32 // of the text
}

// encoded returns a block in an encoding, which the first call makes. It is kept as long as the block.
func (c *compressors) encoded(b *table.Block, e encoding) *encodedBlock {
	return b.Memo(e, func() any {
		text := b.AppendText(nil)
		return &encodedBlock{c.compress(text, e), crc32.ChecksumIEEE(text)}
	}).(*encodedBlock)
}

// compressors are the compressors of a cache. Blocks reuse their memory until the garbage collector frees it.
type compressors struct{ frames, deflaters sync.Pool }

func newCompressors() *compressors {
	c := &compressors{}
	c.frames.New = func() any {
		// Without concurrency: with it, the boundaries in a frame would depend on timing, and equal tables would not have equal
		// bodies on every replica.
		enc, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstdLevel), zstd.WithZeroFrames(true),
			zstd.WithWindowSize(zstdWindow), zstd.WithLowerEncoderMem(true))
		if err != nil {
			panic(err) // the options are constants
		}
		return enc
	}
	c.deflaters.New = func() any {
		w, err := flate.NewWriter(nil, gzipLevel)
		if err != nil {
			panic(err) // the level is a constant
		}
		return w
	}
	return c
}

// compress returns a text as one zstd frame, or as deflate blocks that end at a byte boundary.
func (c *compressors) compress(text []byte, as encoding) []byte {
	if as == zstandard {
		enc := c.frames.Get().(*zstd.Encoder)
		defer c.frames.Put(enc)
		return enc.EncodeAll(text, nil)
	}
	w := c.deflaters.Get().(*flate.Writer)
	defer c.deflaters.Put(w)
	var out bytes.Buffer
	w.Reset(&out)
	_, _ = w.Write(text) // a buffer does not fail
	_ = w.Flush()
	return bytes.Clone(out.Bytes())
}

func (c *compressors) encodeOnce(text []byte, e encoding) []byte {
	if e == identity {
		return text
	}
	data := c.compress(text, e)
	if e == zstandard {
		return data
	}
	sum := checksum{crc32.ChecksumIEEE(text), uint32(len(text))}
	return sum.appendTrailer(slices.Concat(gzipHeader, data))
}

// newlines are the separators between two blocks: plain, as a stored deflate block, and as a zstd frame with a raw block.
var newlines = [encodings][]byte{
	identity:  []byte("\n"),
	gzipped:   []byte("\x00\x01\x00\xfe\xff\n"),
	zstandard: []byte("\x28\xb5\x2f\xfd\x20\x01\x09\x00\x00\n"),
}

// encode joins the blocks to the canonical text, one gzip member (RFC 1952), or zstd frames.
func (va *variant) encode(e encoding) *body {
	metrics, start := va.cache.cfg.Metrics, time.Now()
	out := &body{}
	if e == gzipped {
		out.addBytes(gzipHeader)
	}
	var sum checksum
	for i, b := range va.table.Routes().Blocks() {
		if i > 0 {
			out.addBytes(newlines[e])
			sum.add(newlineCRC, 1)
		}
		if e == identity {
			out.add(io.NewSectionReader(b, 0, int64(b.Bytes())))
			continue
		}
		one := va.cache.encoded(b, e)
		if out.addBytes(one.data); e == gzipped {
			sum.add(one.crc, b.Bytes())
		}
	}
	switch {
	case e == gzipped:
		out.addBytes(sum.appendTrailer(nil))
	case e == zstandard && out.size == 0:
		out.addBytes(va.cache.encodeOnce(nil, zstandard)) // a frame without content
	}
	if e != identity {
		metrics.EncodeDuration.Observe(time.Since(start).Seconds())
	}
	if v := va.cache.state.Load().version; v != nil && v.full == va {
		metrics.TableBytes.WithLabelValues(e.String()).Set(float64(out.size))
	}
	return out
}

// gzipHeader is the header of a member without name and time (RFC 1952 §2.3), so that equal bodies have equal bytes.
var gzipHeader = []byte{0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255}

// gzipTrailer is the length of what appendTrailer appends.
const gzipTrailer = 5 + 4 + 4

// newlineCRC is the checksum of the line feed between two blocks.
var newlineCRC = crc32.ChecksumIEEE([]byte{'\n'})

// checksum computes the checksum of a gzip member from the checksums of its parts. The zero value is the checksum of no bytes.
type checksum struct {
	crc  uint32
	size uint32 // modulo 2^32, as the format requires
}

// add appends a part. Without the inversions that crc32.Update does before and after, a CRC is linear: the CRC of a||b is the CRC
// of a followed by len(b) zero bytes, plus the CRC of b.
func (c *checksum) add(crc uint32, size int) {
	c.crc = ^withZeros(^c.crc, size) ^ crc
	c.size += uint32(size)
}

// withZeros returns the checksum crc continued by n zero bytes.
func withZeros(crc uint32, n int) uint32 {
	for ; n > len(zeros); n -= len(zeros) {
		crc = crc32.Update(crc, crc32.IEEETable, zeros[:])
	}
	return crc32.Update(crc, crc32.IEEETable, zeros[:n])
}

var zeros [32 << 10]byte

// appendTrailer appends the end of a member: an empty last block, checksum, size.
func (c *checksum) appendTrailer(dst []byte) []byte {
	dst = append(dst, 0x01, 0x00, 0x00, 0xff, 0xff)
	dst = binary.LittleEndian.AppendUint32(dst, c.crc)
	return binary.LittleEndian.AppendUint32(dst, c.size)
}

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

// delta leads from one table to the table of a variant. It is encoded on first demand, and shared by all clients.
type delta struct {
	bodies [encodings]func() []byte
	size   int // bytes of the JSON
}

// smallDelta is the size up to which a delta is sent over a stream although the table is smaller: a fetch would take longer.
const smallDelta = 16 << 10

// deltaFrom returns the delta from the named base to this zone's table, or nil if there is none that is worth it.
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

// body is the table in one encoding. Its parts belong to the blocks of the table, which versions share: a version that a slow
// reader keeps alive costs only what it does not share, not a full copy.
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

// ReadAt implements [io.ReaderAt]. It searches the parts from the beginning: a body has a few hundred.
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

// content is the body of an answer, made when [http.ServeContent] first seeks in it: after it has decided that a body is sent.
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
