// Package table holds one version of the routing table: a [Table] is an immutable list of routes sorted by id ([List]), each
// kept as its printed text ([Route]). Its canonical text is what a data plane downloads: one route per line, joined by "\n".
// Its [Digest] is the SHA-256 of that text, so replicas that read the same objects have the same digest. The revision is the
// highest list revision of the read that produced the table: it contains nothing that was written later.
//
// Routes are kept in compressed blocks, which need a tenth of the memory of the text, and tables derived from each other share
// unchanged blocks: several versions and their differences ([Changes]) cost little more than the differences. All methods are
// safe for concurrent use.
//
// Other modules may import it: the exported API is stable within a major version.
package table

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Table is one version of the routing table. It is immutable and safe for concurrent use.
type Table struct {
	*content
	revision uint64
	at       time.Time
}

type content struct {
	list   List
	digest func() Digest
	zones  func() []string
	// states are the states of the hash after each block, so that a table that begins with the same blocks continues from
	// there. Until the digest is computed they belong to the previous table.
	states atomic.Pointer[[]hash.Cloner]
	beside *content // may have hashed a longer beginning when the digest is computed, which drops it; nil for none
}

// New returns a table of routes of a read, which it copies and sorts by id. The error is the one of [List.With].
func New(routes []Route, revision uint64, at time.Time) (*Table, error) {
	pointers := make([]*Route, len(routes))
	for i := range routes {
		pointers[i] = &routes[i]
	}
	list, err := List{}.With(pointers, nil)
	if err != nil {
		return nil, err
	}
	return Of(list, revision, at), nil
}

// Of returns a table of a list; see New for the arguments.
func Of(list List, revision uint64, at time.Time) *Table {
	c := &content{list: list}
	c.states.Store(&[]hash.Cloner{})
	c.digest = sync.OnceValue(c.hash)
	c.zones = sync.OnceValue(func() []string { return mostZones(list.blocks) })
	return &Table{content: c, revision: revision, at: at}
}

// Next is [Of] that does not hash a common beginning of t, which may be nil, again.
func (t *Table) Next(list List, revision uint64, at time.Time) *Table {
	next := Of(list, revision, at)
	if t != nil {
		next.adopt(t.content)
	}
	return next
}

// NextBeside is [Table.Next] for a table served beside another one: a common beginning is hashed only once.
func (t *Table) NextBeside(list List, revision uint64, at time.Time, other *Table) *Table {
	next := t.Next(list, revision, at)
	next.beside = other.content
	return next
}

// Routes returns the routes.
func (t *Table) Routes() List { return t.list }

// Len returns the number of routes.
func (t *Table) Len() int { return t.list.len }

// Bytes returns the length of the canonical text in bytes.
func (t *Table) Bytes() int { return t.list.bytes }

// Digest returns the SHA-256 of the canonical text. The first call computes it; Equal is a cheaper way to compare two tables.
func (t *Table) Digest() Digest { return t.digest() }

// Equal reports whether both have the same text, or both are nil. Its cost is proportional to the blocks that they do not share.
func (t *Table) Equal(o *Table) bool {
	if t == nil || o == nil {
		return t == o
	}
	if t.list.len != o.list.len || t.list.bytes != o.list.bytes {
		return false
	}
	for range Changes(t.list, o.list) {
		return false
	}
	return true
}

// Revision returns the highest revision of the read that the table comes from, 0 if the source has no revisions.
func (t *Table) Revision() uint64 { return t.revision }

// Time returns the time of the read that the table comes from.
func (t *Table) Time() time.Time { return t.at }

// Text returns the canonical text. Each call builds it: use WriteTo where a stream is enough.
func (t *Table) Text() []byte {
	text := bytes.NewBuffer(make([]byte, 0, t.list.bytes))
	_, _ = t.WriteTo(text) // a buffer does not fail
	return text.Bytes()
}

// WriteTo writes the canonical text to w block by block, and needs memory for one of them. It may be called concurrently.
func (t *Table) WriteTo(w io.Writer) (n int64, err error) {
	var text []byte
	for _, b := range t.list.blocks {
		if n > 0 {
			text = append(text[:0], '\n')
		}
		text = b.AppendText(text)
		m, err := w.Write(text)
		if n += int64(m); err != nil {
			return n, err
		}
	}
	return n, nil
}

// WithRevision returns a table with the same content and time and another revision. Everything else is shared.
func (t *Table) WithRevision(revision uint64) *Table {
	return &Table{content: t.content, revision: revision, at: t.at}
}

// Read describes one complete read of a source, for ordering the tables of several readers.
type Read struct {
	// Oldest is the lowest revision of the lists, 0 if unknown: the read includes everything written until then. Newest is the
	// highest one, 0 without revisions: it includes nothing written later.
	Oldest, Newest uint64
	// Consistent means that the read bypassed all caches: it is not older than any write before it began.
	Consistent bool
	// Held means that a guard holds back what the read showed. Then Live means that the served table was derived from the read
	// except for the held part, and Backends that only backends are held.
	Held, Live, Backends bool
	// Candidate is a table that another replica may serve already, because it no longer holds it; nil if unknown.
	Candidate *Table
	// Stale means that the source is a route server that has not read its source since it loaded a last-known-good file.
	Stale bool
	At    time.Time // when the read was complete
}

// Digest is the SHA-256 of a table's canonical text. The zero value names no table.
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
		return Digest{}, fmt.Errorf("digest has %d characters, must have %d", len(s), hex.EncodedLen(len(d)))
	}
	if _, err := hex.Decode(d[:], []byte(s)); err != nil || strings.ContainsAny(s, "ABCDEF") {
		return Digest{}, fmt.Errorf("digest %q: must be lower-case hexadecimal digits", s)
	}
	return d, nil
}

// adopt continues from the hash states of the common leading blocks of both tables, if they are more than the known ones.
func (c *content) adopt(o *content) {
	states := *o.states.Load()
	n := 0
	for n < min(len(c.list.blocks), len(states)) && c.list.blocks[n] == o.list.blocks[n] {
		n++
	}
	if n > len(*c.states.Load()) {
		states = states[:n:n]
		c.states.Store(&states)
	}
}

// hash computes the digest of the text. It continues from the last state that is known.
func (c *content) hash() (d Digest) {
	if c.beside != nil {
		c.adopt(c.beside)
		c.beside = nil
	}
	states := *c.states.Load()
	sum := sha256.New()
	if n := len(states); n > 0 {
		sum = cloned(states[n-1])
	}
	var text []byte
	for i := len(states); i < len(c.list.blocks); i++ {
		if text = text[:0]; i > 0 {
			text = append(text, '\n')
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
