package etagcache

import (
	"bytes"
	"hash/crc32"
	"runtime"
	"sync"
	"time"

	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/zstd"

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

// piecesOf gives the pieces of a table, in order, for the version with the number. Blocks that are new are encoded.
func (c *Cache) piecesOf(t *table.Table, order uint64, ofZone bool) []*piece {
	blocks := t.Routes().Blocks()
	all, missing := c.pieces.find(blocks, order)
	start := c.cfg.Now()
	c.encode(missing, func(enc *encoder, i int) { all[i] = enc.encode(blocks[i], order, ofZone) })
	c.cfg.Metrics.EncodeDuration.Observe(float64(c.cfg.Now().Sub(start)) / float64(time.Second))
	c.cfg.Metrics.EncodedBlocks.Add(float64(len(missing)))
	c.pieces.keep(blocks, all, missing)
	return all
}

// encode does the work for each of the numbers, on all processors.
func (c *Cache) encode(numbers []int, work func(enc *encoder, n int)) {
	workers := min(runtime.GOMAXPROCS(0), len(numbers))
	var group sync.WaitGroup
	for w := range workers {
		group.Go(func() {
			enc := c.encoder()
			defer c.encoders.Put(enc)
			for i := w; i < len(numbers); i += workers {
				work(enc, numbers[i])
			}
		})
	}
	group.Wait()
}

// encode makes the piece of a block, for the version with the number.
func (e *encoder) encode(b *table.Block, order uint64, ofZone bool) *piece {
	e.text = b.AppendText(e.text[:0])
	return &piece{
		size: len(e.text), crc: crc32.ChecksumIEEE(e.text),
		gzip: string(e.deflate(e.text)), zstd: string(e.zstd.EncodeAll(e.text, nil)), used: order, ofZone: ofZone,
	}
}

// find gives the pieces that are known of the blocks, which the version with the number uses now, and which are missing.
func (p *pieces) find(blocks []*table.Block, order uint64) (all []*piece, missing []int) {
	all = make([]*piece, len(blocks))
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, b := range blocks {
		if all[i] = p.known[b]; all[i] == nil {
			missing = append(missing, i)
			continue
		}
		all[i].used = max(all[i].used, order)
	}
	return all, missing
}

// keep remembers the pieces that were missing.
func (p *pieces) keep(blocks []*table.Block, all []*piece, missing []int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.known == nil {
		p.known = make(map[*table.Block]*piece, len(blocks))
	}
	for _, i := range missing {
		p.known[blocks[i]] = all[i]
	}
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
