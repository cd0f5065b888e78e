package etagcache

import (
	"io"
	"iter"

	"github.com/routesrv/routesrv/table"
)

// body is the table in one encoding, as a sequence of parts. The parts belong to the blocks of the table, which versions share: a
// version that a slow reader keeps alive costs only what it does not share, not a full copy.
type body struct {
	size int // bytes
	// parts may be iterated any number of times, concurrently. A part is valid only until the next one.
	parts iter.Seq[[]byte]
	at    io.ReaderAt // faster random access to the same bytes; if nil, the parts are walked
}

// Separators between two blocks: a line feed as a stored deflate block, and as a zstd frame with a raw block.
const (
	newlineDeflate = "\x00\x01\x00\xfe\xff\n"
	newlineZstd    = "\x28\xb5\x2f\xfd\x20\x01\x09\x00\x00\n"
	// emptyZstd is a frame without content.
	emptyZstd = "\x28\xb5\x2f\xfd\x20\x00\x01\x00\x00"
)

// textBody returns the canonical text of a table.
func textBody(t *table.Table) body {
	return body{size: t.Bytes(), at: t, parts: t.Pieces()}
}

// gzipBody joins the pieces into a gzip member (RFC 1952). All pieces must have this encoding.
func gzipBody(all []*piece) body {
	var sum checksum
	b := body{size: len(gzipHeader) + gzipTrailer}
	for i, p := range all {
		if i > 0 {
			sum.add(newlineCRC, 1)
			b.size += len(newlineDeflate)
		}
		zipped := p.gzip.Load()
		sum.add(zipped.crc, p.size)
		b.size += len(zipped.data)
	}
	trailer := sum.appendTrailer(nil)
	b.parts = func(yield func([]byte) bool) {
		if !yield(gzipHeader) {
			return
		}
		for i, p := range all {
			if i > 0 && !yield([]byte(newlineDeflate)) || !yield(p.gzip.Load().data) {
				return
			}
		}
		yield(trailer)
	}
	return b
}

// zstdBody joins the pieces into zstd frames. All pieces must have this encoding.
func zstdBody(all []*piece) body {
	if len(all) == 0 {
		return body{size: len(emptyZstd), parts: func(yield func([]byte) bool) { yield([]byte(emptyZstd)) }}
	}
	b := body{size: (len(all) - 1) * len(newlineZstd)}
	for _, p := range all {
		b.size += len(*p.zstd.Load())
	}
	b.parts = func(yield func([]byte) bool) {
		for i, p := range all {
			if i > 0 && !yield([]byte(newlineZstd)) || !yield(*p.zstd.Load()) {
				return
			}
		}
	}
	return b
}

// reader returns a seekable reader of the body, for requests with ranges.
func (b body) reader() io.ReadSeeker {
	if b.at != nil {
		return io.NewSectionReader(b.at, 0, int64(b.size))
	}
	return io.NewSectionReader(b, 0, int64(b.size))
}

// ReadAt implements [io.ReaderAt]. It walks the parts from the beginning: there are a few hundred.
func (b body) ReadAt(p []byte, off int64) (n int, err error) {
	for part := range b.parts {
		if off >= int64(len(part)) {
			off -= int64(len(part))
			continue
		}
		n += copy(p[n:], part[off:])
		if off = 0; n == len(p) {
			return n, nil
		}
	}
	return n, io.EOF
}
