package table

import (
	"crypto/sha256"
	"hash"
	"hash/crc32"
)

// The state of the hash after each block is kept: a table that begins with the same blocks continues from there.

// hashAfter adopts the hash states of the common blocks at the beginning, as far as they are known.
func (c *content) hashAfter(before *content) {
	var states []hash.Cloner
	if before != nil {
		states = *before.states.Load()
		n := 0
		for n < min(len(c.list.blocks), len(states)) && c.list.blocks[n] == before.list.blocks[n] {
			n++
		}
		states = states[:n:n]
	}
	c.states.Store(&states)
}

// hash computes the digest of the text.
func (c *content) hash() Digest {
	known := *c.states.Load()
	states := append(make([]hash.Cloner, 0, len(c.list.blocks)), known...)
	var sum hash.Hash = sha256.New()
	if n := len(states); n > 0 {
		sum = cloned(states[n-1])
	}
	var buffer []byte
	for i := len(states); i < len(c.list.blocks); i++ {
		if i > 0 {
			sum.Write([]byte{'\n'}) // a hash does not fail
		}
		for piece := range c.list.blocks[i].Pieces(&buffer) {
			sum.Write(piece)
		}
		states = append(states, cloned(sum))
	}
	var d Digest
	sum.Sum(d[:0])
	c.states.Store(&states)
	c.hashed.Store(&d)
	return d
}

func cloned(sum hash.Hash) hash.Cloner {
	state, ok := sum.(hash.Cloner)
	if !ok {
		panic("table: SHA-256 cannot be cloned") // cannot happen with any supported version of Go
	}
	c, err := state.Clone()
	if err != nil {
		panic(err) // a hash in software does not fail
	}
	return c
}

// Checksum is equal for tables with the same text. Tables with different checksums differ; for equal ones only the digests can
// tell. It costs as much as the blocks that no earlier table had.
func (t *Table) Checksum() uint64 {
	sum := uint64(14695981039346656037) // FNV-1a over the sums of the blocks, which depend only on the routes
	for _, b := range t.list.blocks {
		sum = (sum ^ (uint64(b.checksum())<<32 | uint64(uint32(b.bytes)))) * 1099511628211
	}
	return sum
}

// sum returns the CRC of the text and a newline.
func (b *Block) sum() uint32 {
	h := crc32.NewIEEE()
	var buffer []byte
	for piece := range b.Pieces(&buffer) {
		h.Write(piece)
	}
	h.Write([]byte{'\n'})
	return h.Sum32()
}
