package etagcache

import (
	"bytes"
	"hash/crc32"
	"runtime"
	"sync"
	"time"

	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/zstd"
	"golang.org/x/sync/errgroup"

	"github.com/routesrv/routesrv/table"
)

// Bodies are compressed block by block, each by itself, so that a change of one route costs one block. What comes out is one
// gzip member, whose deflate blocks begin at byte limits and look back to nothing, and a sequence of zstd frames, which is a
// valid zstd body (RFC 8878 §3.1). The blocks depend on the routes alone, so equal tables have equal bodies on every
// replica.
//
// The levels are a choice between bytes, sent to every data plane, and the time until a change is served; docs/performance.md
// has the figures.
const (
	gzipLevel = 6
	zstdLevel = zstd.SpeedDefault
)

// piece is a block of a table in all encodings.
type piece struct {
	size   int
	crc    uint32
	gzip   string // deflate blocks without the last one of a stream, flushed to a byte limit
	zstd   string // one frame
	used   uint64 // number of the last version that had it; guarded by pieces.mu
	ofZone bool   // made for the table of a zone
	events eventPiece
}

// pieces keeps what was encoded for as long as a version has it.
type pieces struct {
	mu    sync.Mutex
	known map[*table.Block]*piece
}

// encoder has the memory of two compressors: some megabytes, which are kept from block to block.
type encoder struct {
	text  []byte
	out   bytes.Buffer
	flate *flate.Writer
	zstd  *zstd.Encoder
}

// newEncoder returns a new encoder. That of zstd works in the goroutine of its caller: with more, the cut of blocks
// would depend on timing, and equal tables would not have equal bodies on every replica.
func newEncoder() *encoder {
	e := &encoder{}
	var err error
	if e.flate, err = flate.NewWriter(&e.out, gzipLevel); err != nil {
		panic(err) // the level is a constant
	}
	e.zstd, err = zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstdLevel), zstd.WithZeroFrames(true))
	if err != nil {
		panic(err) // the options are constants
	}
	return e
}

// encoder takes an encoder out of the pool; the caller puts it back.
func (c *Cache) encoder() *encoder {
	if e, ok := c.encoders.Get().(*encoder); ok {
		return e
	}
	return newEncoder()
}

// deflate compresses text to deflate blocks that can stand anywhere in a stream. The result is the caller's.
func (e *encoder) deflate(text []byte) []byte {
	e.out.Reset()
	e.flate.Reset(&e.out)
	_, _ = e.flate.Write(text) // a buffer does not fail
	_ = e.flate.Flush()
	return bytes.Clone(e.out.Bytes())
}

// encoded gives the pieces of a table, in order, for the version with the number. Blocks that are new are encoded, on all
// processors.
func (c *Cache) encoded(t *table.Table, order uint64, ofZone bool) []*piece {
	blocks := t.Routes().Blocks()
	all := make([]*piece, len(blocks))
	var missing []int
	c.pieces.mu.Lock()
	for i, b := range blocks {
		if p := c.pieces.known[b]; p != nil {
			p.used = max(p.used, order)
			all[i] = p
			continue
		}
		missing = append(missing, i)
	}
	c.pieces.mu.Unlock()

	start := c.cfg.Now()
	workers := min(runtime.GOMAXPROCS(0), len(missing))
	var group errgroup.Group
	for w := range workers {
		group.Go(func() error {
			enc := c.encoder()
			defer c.encoders.Put(enc)
			for n := w; n < len(missing); n += workers {
				i := missing[n]
				enc.text = blocks[i].AppendText(enc.text[:0])
				all[i] = &piece{
					size: len(enc.text), crc: crc32.ChecksumIEEE(enc.text),
					gzip: string(enc.deflate(enc.text)), zstd: string(enc.zstd.EncodeAll(enc.text, nil)), used: order, ofZone: ofZone,
				}
			}
			return nil
		})
	}
	_ = group.Wait() // nothing fails
	c.cfg.Metrics.EncodeDuration.Observe(float64(c.cfg.Now().Sub(start)) / float64(time.Second))
	c.cfg.Metrics.EncodedBlocks.Add(float64(len(missing)))

	c.pieces.mu.Lock()
	defer c.pieces.mu.Unlock()
	if c.pieces.known == nil {
		c.pieces.known = make(map[*table.Block]*piece, len(blocks))
	}
	for _, i := range missing {
		c.pieces.known[blocks[i]] = all[i]
	}
	return all
}

// forget lets go of the pieces that the version with the number, whose full table was made, does not have. Zones are made later,
// if somebody asks: what only they had is kept for one version more.
func (p *pieces) forget(order uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for b, piece := range p.known {
		if piece.used < order && (!piece.ofZone || piece.used+1 < order) {
			delete(p.known, b)
		}
	}
}
