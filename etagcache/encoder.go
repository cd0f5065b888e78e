package etagcache

import (
	"bytes"
	"hash/crc32"
	"sync"

	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/zstd"

	"github.com/routesrv/routesrv/table"
)

// lender lends encoders, which take megabytes; tests share them. It is safe for concurrent use.
type lender interface {
	get() *encoder
	put(*encoder)
}

// collected is the lender of a single cache: the garbage collector takes encoders that nobody needs.
type collected struct{ pool sync.Pool }

func (c *collected) get() *encoder {
	if e, ok := c.pool.Get().(*encoder); ok {
		return e
	}
	return &encoder{}
}

func (c *collected) put(e *encoder) { c.pool.Put(e) }

// encoder holds two compressors, whose memory is reused from block to block. Each is created on first use.
type encoder struct {
	text  []byte
	out   bytes.Buffer
	flate *flate.Writer
	zstd  *zstd.Encoder
}

// zstdWindow is the largest distance of a match in bytes. Few blocks are longer; with the default the encoder would use 24 MB.
const zstdWindow = 1 << 20

// zstdOf compresses text into one frame. The encoder runs in the goroutine of its caller: with concurrency, block boundaries would
// depend on timing, and equal tables would not have equal bodies on every replica.
func (e *encoder) zstdOf(text []byte) []byte {
	if e.zstd == nil {
		var err error
		if e.zstd, err = zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstdLevel), zstd.WithZeroFrames(true),
			zstd.WithWindowSize(zstdWindow), zstd.WithLowerEncoderMem(true)); err != nil {
			panic(err) // the options are constants
		}
	}
	return e.zstd.EncodeAll(text, nil)
}

// deflate compresses text to deflate blocks that can appear anywhere in a stream. The caller owns the result.
func (e *encoder) deflate(text []byte) []byte {
	e.out.Reset()
	if e.flate == nil {
		var err error
		if e.flate, err = flate.NewWriter(&e.out, gzipLevel); err != nil {
			panic(err) // the level is a constant
		}
	} else {
		e.flate.Reset(&e.out)
	}
	_, _ = e.flate.Write(text) // a buffer does not fail
	_ = e.flate.Flush()
	return bytes.Clone(e.out.Bytes())
}

// encode encodes the piece of a block in those encodings that it lacks.
func (e *encoder) encode(b *table.Block, p *piece, encodings []encoding) {
	e.text = b.AppendText(e.text[:0])
	for _, encoding := range encodings {
		switch {
		case p.has(encoding):
		case encoding == gzipped:
			p.gzip.Store(&deflated{data: e.deflate(e.text), crc: crc32.ChecksumIEEE(e.text)})
		case encoding == zstandard:
			frame := e.zstdOf(e.text)
			p.zstd.Store(&frame)
		}
	}
}
