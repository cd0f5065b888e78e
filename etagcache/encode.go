package etagcache

import (
	"bytes"
	"io"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/routesrv/routesrv/table"
)

// gzipLevel and zstdLevel are chosen by BenchmarkEncode: see the figures there.
const (
	gzipLevel = 5
	zstdLevel = zstd.SpeedDefault
)

// encode makes the gzip and zstd bodies of t, side by side. The encoders are not kept: between two tables their buffers
// would be memory that nobody uses.
func (c *Cache) encode(t *table.Table) (gz, zs []byte) {
	done := make(chan []byte)
	go func() { done <- c.compress(t, gzipped, newGzip) }()
	zs = c.compress(t, zstandard, newZstd)
	return <-done, zs
}

// compress runs the text of t through an encoder. Encoders fail only if their writer does, and a buffer does not.
func (c *Cache) compress(t *table.Table, e encoding, newEncoder func(io.Writer) io.WriteCloser) []byte {
	start := c.cfg.Now()
	var buf bytes.Buffer
	buf.Grow(t.Bytes()/12 + 512) // real tables compress better than this
	enc := newEncoder(&buf)
	_, _ = t.WriteTo(enc)
	_ = enc.Close()
	c.cfg.Metrics.encodeDuration[e].Observe(float64(c.cfg.Now().Sub(start)) / float64(time.Second))
	return bytes.Clone(buf.Bytes()) // without the slack of the buffer, which may be as large as the body
}

func newGzip(w io.Writer) io.WriteCloser {
	enc, err := gzip.NewWriterLevel(w, gzipLevel)
	if err != nil {
		panic(err) // the level is a constant
	}
	return enc
}

// newZstd returns an encoder that works in the goroutine of its caller: with more, the cut of blocks would depend on
// timing, and equal tables would not have equal bodies on every replica.
func newZstd(w io.Writer) io.WriteCloser {
	enc, err := zstd.NewWriter(w, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstdLevel))
	if err != nil {
		panic(err) // the options are constants
	}
	return enc
}
