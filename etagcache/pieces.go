package etagcache

import (
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/routesrv/routesrv/table"
)

// Bodies are compressed block by block, each independently, so that a change of one route costs one block. The results are a gzip
// member, whose deflate blocks begin at byte boundaries without back-references, and a sequence of zstd frames, which is a valid
// zstd body (RFC 8878 §3.1). The blocks depend only on the routes, so equal tables have equal bodies on every replica.
//
// The levels trade bytes, which are sent to every data plane, against the time until a change is served; docs/performance.md has
// the figures.
const (
	gzipLevel = 6
	zstdLevel = zstd.SpeedDefault
)

// piece is a block of a table in the encodings made so far.
type piece struct {
	size int // of the text
	// nil means not made yet. Two goroutines that make the same encoding concurrently make the same bytes.
	gzip   atomic.Pointer[deflated]
	zstd   atomic.Pointer[[]byte] // one frame
	used   uint64                 // number of the last version with it; guarded by pieces.mu
	ofZone bool                   // made for the table of a zone
	events eventPiece
}

// deflated is a text as deflate blocks, none of them marked as the last, flushed to a byte boundary.
type deflated struct {
	data []byte
	crc  uint32 // of the text
}

// has reports whether the piece has the encoding.
func (p *piece) has(e encoding) bool {
	switch e {
	case gzipped:
		return p.gzip.Load() != nil
	case zstandard:
		return p.zstd.Load() != nil
	}
	return true // the block itself has the text
}

// pieces caches encoded blocks as long as a version has them.
type pieces struct {
	mu    sync.Mutex
	known map[*table.Block]*piece
}

// askedVersions limits how many versions are encoded in advance after the last request for an encoding.
const askedVersions = 100

// ask notes that somebody asks for the version with the number in the encoding.
func (c *Cache) ask(e encoding, order uint64) {
	if c.asked[e].Load() < order {
		c.asked[e].Store(order) // of two at the same time either may win: they are close to each other
	}
}

// askedFor returns the encodings that the clients of the version with the number will probably ask for.
func (c *Cache) askedFor(order uint64) (likely []encoding) {
	for e := range encodings {
		if asked := c.asked[e].Load(); asked > 0 && order-asked <= askedVersions {
			likely = append(likely, e)
		}
	}
	return likely
}

// fill encodes the pieces of a variant in those encodings that they lack.
func (c *Cache) fill(va *variant, encodings ...encoding) {
	blocks := va.table.Routes().Blocks()
	var missing []int
	for i, p := range va.pieces {
		if slices.ContainsFunc(encodings, func(e encoding) bool { return !p.has(e) }) {
			missing = append(missing, i)
		}
	}
	if len(missing) == 0 {
		return
	}
	start := c.cfg.Now()
	c.encode(missing, func(enc *encoder, i int) { enc.encode(blocks[i], va.pieces[i], encodings) })
	c.cfg.Metrics.EncodeDuration.Observe(float64(c.cfg.Now().Sub(start)) / float64(time.Second))
	c.cfg.Metrics.EncodedBlocks.Add(float64(len(missing)))
}

// encode calls work for each of the numbers, on all CPUs.
func (c *Cache) encode(numbers []int, work func(enc *encoder, n int)) {
	workers := min(runtime.GOMAXPROCS(0), len(numbers))
	var group sync.WaitGroup
	for w := range workers {
		group.Go(func() {
			enc := c.encoders.get()
			defer c.encoders.put(enc)
			for i := w; i < len(numbers); i += workers {
				work(enc, numbers[i])
			}
		})
	}
	group.Wait()
}

// of returns the pieces of a table, in order, and marks them as used by the version with the number. New pieces have no encoding
// yet.
func (p *pieces) of(t *table.Table, order uint64, ofZone bool) []*piece {
	blocks := t.Routes().Blocks()
	all := make([]*piece, len(blocks))
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.known == nil {
		p.known = make(map[*table.Block]*piece, len(blocks))
	}
	for i, b := range blocks {
		known := p.known[b]
		if known == nil {
			known = &piece{size: b.Bytes(), ofZone: ofZone}
			p.known[b] = known
		}
		known.used = max(known.used, order)
		all[i] = known
	}
	return all
}

// forget drops the pieces that the version with the number, whose full table is complete, does not have. Zone tables come later,
// on demand: pieces that only they use are kept for one more version.
func (p *pieces) forget(order uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for b, piece := range p.known {
		if piece.used < order && (!piece.ofZone || piece.used+1 < order) {
			delete(p.known, b)
		}
	}
}
