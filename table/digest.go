package table

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"strings"
)

// Digest is the SHA-256 of a table's canonical text. Equal content has an equal digest on every replica and after every restart.
// The zero value names no table (the digest of an empty table is not zero).
type Digest [sha256.Size]byte

// String returns the digest as 64 lower-case hexadecimal characters, the form used in the ETag.
func (d Digest) String() string { return hex.EncodeToString(d[:]) }

// IsZero reports whether d is the zero value, which names no table.
func (d Digest) IsZero() bool { return d == Digest{} }

// MarshalText returns the result of String, so that a Digest appears as text in JSON.
func (d Digest) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText accepts the same texts as ParseDigest.
func (d *Digest) UnmarshalText(text []byte) error {
	parsed, err := ParseDigest(string(text))
	if err != nil {
		return err
	}
	*d = parsed
	return nil
}

// ParseDigest is the inverse of String. It rejects upper-case digits: two spellings of one digest would be two ETags.
func ParseDigest(s string) (Digest, error) {
	var d Digest
	if len(s) != hex.EncodedLen(len(d)) {
		return Digest{}, fmt.Errorf("digest has %d characters, want %d", len(s), hex.EncodedLen(len(d)))
	}
	if _, err := hex.Decode(d[:], []byte(s)); err != nil || strings.ContainsAny(s, "ABCDEF") {
		return Digest{}, fmt.Errorf("digest %q: want lower-case hexadecimal digits", s)
	}
	return d, nil
}

// adopt takes over the states of the hash of the blocks that begin both tables, as far as they are known.
func (c *content) adopt(before *content) {
	states := *before.states.Load()
	n := 0
	for n < min(len(c.list.blocks), len(states)) && c.list.blocks[n] == before.list.blocks[n] {
		n++
	}
	states = states[:n:n]
	c.states.Store(&states)
}

// hash computes the digest of the text. It continues from the last state that is known.
func (c *content) hash() (d Digest) {
	states := *c.states.Load()
	sum := sha256.New()
	if n := len(states); n > 0 {
		sum = cloned(states[n-1])
	}
	var text []byte
	for i := len(states); i < len(c.list.blocks); i++ {
		if i > 0 {
			text = append(text[:0], '\n')
		}
		text = c.list.blocks[i].AppendText(text)
		sum.Write(text) // a hash does not fail
		states = append(states, cloned(sum))
	}
	c.states.Store(&states)
	sum.Sum(d[:0])
	return d
}

func cloned(sum hash.Hash) hash.Cloner {
	state, err := sum.(hash.Cloner).Clone() // as every hash of the standard library
	if err != nil {
		panic(err) // a hash in software does not fail
	}
	return state
}
