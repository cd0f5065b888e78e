package table

import (
	"crypto/sha256"
	"hash"
	"hash/crc32"
)

// The state of the hash at the end of each block is kept: a table that begins with the same blocks goes on from there.

// hashAfter takes over the states of the blocks with which both begin, as far as they are known.
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

// hash takes the digest of the text.
func (c *content) hash() Digest {
	known := *c.states.Load()
	states := append(make([]hash.Cloner, 0, len(c.list.blocks)), known...)
	var sum hash.Hash = sha256.New()
	if n := len(states); n > 0 {
		sum = cloned(states[n-1])
	}
	piece := make([]byte, 0, 16<<10) // which stays in the cache of the processor
	longest := 0                     // of the packed blocks that are hashed
	for _, b := range c.list.blocks[len(states):] {
		if b.packed != nil {
			longest = max(longest, b.size()+1)
		}
	}
	text := make([]byte, 0, longest)
	for i := len(states); i < len(c.list.blocks); i++ {
		if b := c.list.blocks[i]; b.packed != nil {
			text = text[:0]
			if i > 0 {
				text = append(text, '\n')
			}
			text = b.AppendText(text)
			sum.Write(text)
		}
		for j, r := range c.list.blocks[i].routes {
			if len(piece)+1+len(r.Text) > cap(piece) {
				sum.Write(piece) // a hash does not fail
				piece = piece[:0]
			}
			if i+j > 0 {
				piece = append(piece, '\n')
			}
			piece = append(piece, r.Text...)
		}
		sum.Write(piece)
		piece = piece[:0]
		state, ok := sum.(hash.Cloner)
		if !ok {
			panic("table: SHA-256 cannot be cloned") // it can in every version of Go that this is built with
		}
		states = append(states, cloned(state))
	}
	var d Digest
	sum.Sum(d[:0])
	c.states.Store(&states)
	c.hashed.Store(&d)
	return d
}

func cloned(state hash.Cloner) hash.Cloner {
	c, err := state.Clone()
	if err != nil {
		panic(err) // a hash in software does not fail
	}
	return c
}

// Checksum is the same for tables with the same text. Tables of which it is not are different ones; of others nobody knows
// without their digests. It costs what the blocks do that no table had before.
func (t *Table) Checksum() uint64 {
	sum := uint64(14695981039346656037) // FNV-1a over the sums of the blocks, which the routes alone decide
	for _, b := range t.list.blocks {
		sum = (sum ^ (uint64(b.checksum())<<32 | uint64(uint32(b.bytes)))) * 1099511628211
	}
	return sum
}

// sum is the CRC of the text and a newline.
func (b *Block) sum() uint32 {
	h := crc32.NewIEEE()
	if b.packed != nil {
		h.Write(append(b.AppendText(nil), '\n'))
		return h.Sum32()
	}
	var text []byte
	for _, r := range b.routes {
		text = append(append(text[:0], r.Text...), '\n')
		h.Write(text)
	}
	return h.Sum32()
}
