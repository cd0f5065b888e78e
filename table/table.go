// Package table holds one version of the routing table.
//
// A [Table] is an immutable list of routes sorted by id ([List]), each kept as its printed text ([Route]). Its canonical text is
// what a data plane downloads: one route per line, joined by "\n", no newline at the end. Its [Digest] is the SHA-256 of that
// text, so two replicas that read the same objects have the same digest, and a restart does not change it. The revision is the
// highest list revision of the read that produced the table ([Read]): the table has nothing of the source that was written later.
//
// Guarantees: a table never changes after New, and all methods are safe for concurrent use. Ids are unique and sorted bytewise,
// whatever the order of the input. Expensive values that are not always needed (the digest, the joined text, the hosts, the
// zones) are computed on first demand and then kept.
//
// [Parse] parses a canonical text and preserves its bytes, and so its digest.
//
// The package does not parse routes on publication (compile has already parsed every route back), does not handle HTTP, encodings
// or clocks, and does not decide whether a table is good: package guard does.
//
// Zone tables ([Table.Zone]) and the file form of last-known-good files and last-known-good copies ([Table.WriteFile],
// [ParseFile]) work on the printed texts. Tables derived from each other share unchanged blocks, so keeping several versions,
// and finding their differences ([Changes]), costs little more than the differences.
//
// A list can keep its blocks packed ([List.Packed], [Decoder.Pack]): it then needs a tenth of the memory, and unpacks a block each time
// its routes are needed.
//
// Caveat: the canonical text of a table is a second copy of its bytes once Text has been called. Use WriteTo where a
// stream is enough.
package table

import (
	"errors"
	"fmt"
	"hash"
	"io"
	"iter"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Errors of New. They are wrapped with the id.
var (
	ErrDuplicateID = errors.New("duplicate route id")
	ErrInvalidID   = errors.New("invalid route id")
	ErrInvalidText = errors.New(`route text is not "id: expression;" in one line`)
)

// Table is one version of the routing table. It is immutable and safe for concurrent use.
type Table struct {
	*content
	revision uint64
	at       time.Time
}

// content is the part that two tables with different revisions can share.
type content struct {
	list   List
	hashed atomic.Pointer[Digest]        // nil until requested
	states atomic.Pointer[[]hash.Cloner] // of the hash, after each block; only of the first ones until the digest is requested
	sum    func() Digest                 // computed on first demand

	text  func() []byte            // computed on first demand
	zones func() []string          // computed on first demand
	hosts atomic.Pointer[[]string] // computed on first demand, or at once from the previous table
}

// New returns a table of routes, which it copies and sorts by id. The revision is the Newest of the read that the routes come
// from, 0 for a source without revisions; at is the time of that read. The error wraps ErrDuplicateID, ErrInvalidID or
// ErrInvalidText and names the id. A table without routes is valid here; package guard decides whether it may be served.
func New(routes []Route, revision uint64, at time.Time) (*Table, error) {
	pointers := make([]*Route, len(routes))
	for i := range routes {
		own := routes[i] // separate allocations: a later version that shares a few routes must not keep all of them in memory
		pointers[i] = &own
	}
	list, err := NewList(pointers)
	if err != nil {
		return nil, err
	}
	return Of(list, revision, at), nil
}

// Of returns a table of a list; see New for the arguments.
func Of(list List, revision uint64, at time.Time) *Table {
	return &Table{content: newContent(list, nil), revision: revision, at: at}
}

// Next returns a table of a list derived from t's list with [List.With]. If the digest of t is known, the common part before the
// first difference is not hashed again; otherwise it is the same as Of. t may be nil.
func (t *Table) Next(list List, revision uint64, at time.Time) *Table {
	if t == nil {
		return Of(list, revision, at)
	}
	return &Table{content: newContent(list, t.content), revision: revision, at: at}
}

// MaxRoute is the maximum length of a route's text in bytes. Every [Decoder] accepts a route of that length.
const MaxRoute = leastDefinition

// Check returns an error if no table can have the route: it wraps ErrInvalidID or ErrInvalidText and names the id, or it is
// ErrTooLarge. It is the rule of New and [List.With] for each route, except that these accept routes of any length.
func (r *Route) Check() error {
	if err := check(r); err != nil {
		return err
	}
	if len(r.Text) > MaxRoute {
		return fmt.Errorf("%w: route %q has %d bytes, and may have %d", ErrTooLarge, r.ID, len(r.Text), MaxRoute)
	}
	return nil
}

func check(r *Route) error {
	if !isSymbol(r.ID) {
		return fmt.Errorf("%w: %q", ErrInvalidID, r.ID)
	}
	rest, ok := strings.CutPrefix(r.Text, r.ID)
	if !ok || !strings.HasPrefix(rest, ": ") || !strings.HasSuffix(rest, ";") || int(r.Backend) >= len(r.Text) || r.Backend < 0 ||
		strings.IndexByte(r.Text, '\n') >= 0 {
		return fmt.Errorf("%w: %q", ErrInvalidText, r.ID)
	}
	return nil
}

// isSymbol reports whether s is a symbol of eskip, as every id must be so that the document parses.
func isSymbol(s string) bool {
	for i := range len(s) {
		c := s[i]
		letter := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c == '_'
		if !letter && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return s != ""
}

func newContent(list List, before *content) *content {
	c := &content{list: list}
	c.hashAfter(before)
	c.sum = sync.OnceValue(c.hash)
	c.text = sync.OnceValue(c.join)
	c.zones = sync.OnceValue(func() []string { return mostZones(c.list.blocks) })
	if before != nil {
		c.hostsAfter(before)
	}
	return c
}

func (c *content) join() []byte {
	text := make([]byte, 0, c.list.bytes)
	for i, b := range c.list.blocks {
		if i > 0 {
			text = append(text, '\n')
		}
		text = b.AppendText(text)
	}
	return text
}

// writeTo writes the canonical text in pieces large enough for a hash, a compressor or a file.
func (c *content) writeTo(w io.Writer) (int64, error) {
	var n int64
	for piece := range c.pieces() {
		m, err := w.Write(piece)
		n += int64(m)
		if err != nil {
			return n, err
		}
	}
	return n, nil
}

func (c *content) pieces() iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		var buffer []byte
		for i, b := range c.list.blocks {
			if i > 0 && !yield([]byte{'\n'}) {
				return
			}
			for piece := range b.Pieces(&buffer) {
				if !yield(piece) {
					return
				}
			}
		}
	}
}

// Pieces yields the canonical text, in order, in pieces of at most 32 KiB or one route, each valid only until the next one. It may be
// called concurrently, and needs memory for one piece.
func (t *Table) Pieces() iter.Seq[[]byte] { return t.pieces() }

// Routes returns the routes.
func (t *Table) Routes() List { return t.list }

// Len returns the number of routes.
func (t *Table) Len() int { return t.list.len }

// Bytes returns the length of the canonical text in bytes.
func (t *Table) Bytes() int { return t.list.bytes }

// Digest returns the SHA-256 of the canonical text. The first call computes it, which costs at most one hash over the text. Equal
// is a cheaper way to compare two tables.
func (t *Table) Digest() Digest { return t.sum() }

// Hashed reports whether the digest has been computed.
func (t *Table) Hashed() bool { return t.hashed.Load() != nil }

// Equal reports whether both have the same text, or both are nil. It costs as much as the blocks that they do not share, and
// computes no digest.
func (t *Table) Equal(o *Table) bool {
	if t == nil || o == nil {
		return t == o
	}
	if t.content == o.content {
		return true
	}
	if t.list.len != o.list.len || t.list.bytes != o.list.bytes {
		return false
	}
	if a, b := t.hashed.Load(), o.hashed.Load(); a != nil && b != nil {
		return *a == *b
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

// Text returns the canonical text. The first call builds it. It is kept and shared: it must not be changed.
func (t *Table) Text() []byte { return t.text() }

// WriteTo writes the canonical text to w, piece by piece, without building it in memory first.
func (t *Table) WriteTo(w io.Writer) (int64, error) { return t.writeTo(w) }

// ReadAt reads the canonical text at an offset, as defined by [io.ReaderAt].
func (t *Table) ReadAt(p []byte, off int64) (n int, err error) {
	if off < 0 {
		return 0, fmt.Errorf("table: read at %d", off)
	}
	var piece []byte
	for i, b := range t.list.blocks {
		size := int64(b.bytes)
		if i > 0 {
			size++
		}
		if off >= size {
			off -= size
			continue
		}
		piece = piece[:0]
		if i > 0 {
			piece = append(piece, '\n')
		}
		piece = b.AppendText(piece)
		n += copy(p[n:], piece[off:])
		if off = 0; n == len(p) {
			return n, nil
		}
	}
	return n, io.EOF
}

// Hosts returns the distinct hosts in the table's host expressions, sorted: each expression is split at the alternatives of its
// outermost group, so that ^(a[.]org|b[.]org)$ counts as two hosts. They are for counting and comparing, not for matching. The
// slice is shared: it must not be changed.
func (t *Table) Hosts() []string {
	if known := t.hosts.Load(); known != nil {
		return *known
	}
	// Two concurrent callers may both compute it, with the same result.
	hosts := owned(hostsOf(t.list.blocks))
	t.hosts.Store(&hosts)
	return hosts
}

// WithRevision returns a table with the same content and time and another revision. Everything else is shared.
func (t *Table) WithRevision(revision uint64) *Table {
	return &Table{content: t.content, revision: revision, at: t.at}
}
