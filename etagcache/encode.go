package etagcache

import (
	"bytes"
	"io"
	"sync"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/routesrv/routesrv/table"
)

// The levels are a choice between bytes, sent to every data plane, and the time until a change is served. For 58 MB
// in the manner of BenchmarkPublish, on one core of a small virtual machine:
//
//	gzip 1  5.8 MB  104 ms    gzip 5  4.8 MB  187 ms    zstd fastest  3.4 MB  120 ms
//	gzip 3  5.5 MB  121 ms    gzip 6  4.5 MB  193 ms    zstd default  2.9 MB   99 ms
//	gzip 4  5.7 MB  154 ms    gzip 7  4.4 MB  261 ms    zstd better   2.7 MB  173 ms
const (
	gzipLevel = 6
	zstdLevel = zstd.SpeedDefault
)

// encoder is what gzip and zstd have in common.
type encoder interface {
	io.WriteCloser
	Reset(io.Writer)
}

// encoders keeps encoders from one table to the next if that follows soon, as zone tables do. Their buffers are some
// megabytes; the garbage collector takes those that nobody uses.
type encoders struct {
	pools [encodings]sync.Pool
}

func (p *encoders) get(e encoding, w io.Writer) encoder {
	enc, ok := p.pools[e].Get().(encoder)
	if !ok {
		return newEncoder(e, w)
	}
	enc.Reset(w)
	return enc
}

func (p *encoders) put(e encoding, enc encoder) {
	enc.Reset(nil) // or the body could not be freed before the encoder
	p.pools[e].Put(enc)
}

// newEncoder returns a new encoder. Those of zstd work in the goroutine of their caller: with more, the cut of blocks
// would depend on timing, and equal tables would not have equal bodies on every replica.
func newEncoder(e encoding, w io.Writer) encoder {
	var enc encoder
	var err error
	switch e {
	case gzipped:
		enc, err = gzip.NewWriterLevel(w, gzipLevel)
	case zstandard:
		enc, err = zstd.NewWriter(w, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstdLevel))
	}
	if err != nil {
		panic(err) // the options are constants
	}
	return enc
}

// encode makes the gzip and zstd bodies of t, side by side.
func (c *Cache) encode(t *table.Table) (gz, zs []byte) {
	done := make(chan []byte)
	go func() { done <- c.compress(t, gzipped) }()
	zs = c.compress(t, zstandard)
	return <-done, zs
}

// compress runs the text of t through an encoder. Encoders fail only if their writer does, and a buffer does not.
func (c *Cache) compress(t *table.Table, e encoding) []byte {
	start := c.cfg.Now()
	var buf bytes.Buffer
	buf.Grow(t.Bytes()/12 + 512) // real tables compress better than this
	enc := c.encoders.get(e, &buf)
	_, _ = t.WriteTo(enc)
	_ = enc.Close()
	c.encoders.put(e, enc)
	c.cfg.Metrics.encodeDuration[e].Observe(float64(c.cfg.Now().Sub(start)) / float64(time.Second))
	return bytes.Clone(buf.Bytes()) // without the slack of the buffer, which may be as large as the body
}
