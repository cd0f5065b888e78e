// Package table holds one version of the routing table.
//
// A [Table] is an immutable list of routes sorted by id ([List]), each kept as its printed text ([Route]). Its canonical text is
// what a data plane downloads: one route per line, joined by "\n", no newline at the end. Its [Digest] is the SHA-256 of that
// text, so two replicas that read the same objects have the same digest, and a restart does not change it. The revision is the
// highest list revision of the read that produced the table ([Read]): the table has nothing of the source that was written later.
//
// Guarantees: a table never changes after New, and all methods are safe for concurrent use. Ids are unique and sorted bytewise,
// whatever the order of the input. Expensive values that are not always needed (the digest, the zones) are computed on first
// demand and then kept.
//
// [Parse] parses a canonical text and preserves its bytes, and so its digest.
//
// The package does not parse routes on publication (compile has already parsed every route back), does not handle HTTP, encodings
// or clocks, and does not decide whether a table is good: package guard does.
//
// Zone tables ([Table.Zone]) and the form of last-known-good files ([Table.WriteFile], [ReadFile]) work on the printed texts.
// Tables derived from each other share unchanged blocks, so keeping several versions, and finding their differences ([Changes]),
// costs little more than the differences.
//
// A list keeps its routes compressed, in blocks: it needs a tenth of the memory of its text, and unpacks a block each time its
// routes are needed.
//
// Other modules may import it: what it exports keeps its form and its meaning within a major version.
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

// content is the part that two tables with different revisions can share. Its values are computed on first demand.
type content struct {
	list   List
	digest func() Digest
	zones  func() []string
	// states are the states of the hash after each block, so that a table that begins with the same blocks continues from there.
	// Until the digest is computed they are the states of the previous table.
	states atomic.Pointer[[]hash.Cloner]
}

func newContent(list List) *content {
	c := &content{list: list}
	c.states.Store(&[]hash.Cloner{})
	c.digest = sync.OnceValue(c.hash)
	c.zones = sync.OnceValue(func() []string { return mostZones(list.blocks) })
	return c
}

// New returns a table of routes, which it copies and sorts by id. The revision is the Newest of the read that the routes come
// from, 0 for a source without revisions; at is the time of that read. The error is the one of [List.With]. A table without routes
// is valid here; package guard decides whether it may be served.
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
	return &Table{content: newContent(list), revision: revision, at: at}
}

// Next returns a table of a list derived from t's list with [List.With]. If the digest of t is known, the common part before the
// first difference is not hashed again; otherwise it is the same as Of. t may be nil.
func (t *Table) Next(list List, revision uint64, at time.Time) *Table {
	next := Of(list, revision, at)
	if t != nil {
		next.adopt(t.content)
	}
	return next
}

// Routes returns the routes.
func (t *Table) Routes() List { return t.list }

// Len returns the number of routes.
func (t *Table) Len() int { return t.list.len }

// Bytes returns the length of the canonical text in bytes.
func (t *Table) Bytes() int { return t.list.bytes }

// Digest returns the SHA-256 of the canonical text. The first call computes it, which costs at most one hash over the text. Equal
// is a cheaper way to compare two tables.
func (t *Table) Digest() Digest { return t.digest() }

// Equal reports whether both have the same text, or both are nil. Its cost is proportional to the blocks that they do not share;
// it computes no digest.
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
//
// A read does not happen at one instant: each of its lists has another revision, and a list from a cache may be older than the
// others, or have an old revision only because no object of its kind was written since. So a read lies between two revisions.
type Read struct {
	// Oldest is the revision up to which the read is complete: it includes everything written until then. It is the lowest
	// revision of the lists, 0 if unknown.
	Oldest uint64
	// Newest is the highest revision of the lists: the read includes nothing that was written later. 0 if the source has no
	// revisions.
	Newest uint64
	// Consistent means that the read bypassed all caches: it is not older than any write before it began.
	Consistent bool
	// Held means that the read showed another table than the served one, and that a guard holds that table back.
	Held bool
	// Live, for a Held read, means that the served table was nevertheless derived from it, except for the held part. Backends
	// means that only backends are held.
	Live, Backends bool
	// Candidate is a table of the read that another replica may serve already, because it does not hold it any more; nil if unknown.
	Candidate *Table
	// Waiting means that the read showed another table than the served one, which will be served soon: publish.Budget delays
	// changes that only add endpoints.
	Waiting bool
	// Stale means that the source, another route server, has the table from a last-known-good file and has not read its own
	// source since.
	Stale bool
	// At is when the read was complete.
	At time.Time
}

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
		return Digest{}, fmt.Errorf("digest has %d characters, must have %d", len(s), hex.EncodedLen(len(d)))
	}
	if _, err := hex.Decode(d[:], []byte(s)); err != nil || strings.ContainsAny(s, "ABCDEF") {
		return Digest{}, fmt.Errorf("digest %q: must be lower-case hexadecimal digits", s)
	}
	return d, nil
}

// adopt copies the known hash states of the common leading blocks of both tables.
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
