package table

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
)

const (
	// maxLeftOut is how many parts of a document may be left out: looking for the next line after each of them costs time.
	maxLeftOut = 1_000
	// namedLeftOut is how many of them [Decoder.LeftOut] describes.
	namedLeftOut = 10
	// syntaxError begins the errors after which it is not certain where a definition ends.
	syntaxError = "parse failed after token "
)

// LeftOut is a part of a document that is no route of its table.
type LeftOut struct {
	ID  string // empty if the part does not begin with an id
	Err error  // why
}

// leaving is the state of a decoder that leaves out what it cannot use. It is nil for a decoder that refuses such a document.
type leaving struct {
	count int
	first []LeftOut
	skip  bool // everything up to the next line feed
}

// LeaveOut makes the decoder leave out definitions that no table of this package can have, instead of refusing the document: those
// that do not parse, have no id, or exceed the limit for one route. Of several routes with one id the last one counts, as in a
// proxy. A document from which more is left out than is kept is still refused, with the first error. Call it before the first Write.
//
// After a syntax error the decoder goes on with the next line that begins with an id, because a line of Skipper's route server with an
// unescaped quote seems to extend over the lines behind it.
func (d *Decoder) LeaveOut() { d.leaving = &leaving{} }

// LeftOut returns how many parts of the document were left out, and describes the first ones. It is complete after [Decoder.Table].
func (d *Decoder) LeftOut() (count int, first []LeftOut) {
	if d.leaving == nil {
		return 0, nil
	}
	return d.leaving.count, d.leaving.first
}

// note records a part. The error means that there are too many.
func (l *leaving) note(id string, err error) error {
	if l.count++; l.count > maxLeftOut {
		return fmt.Errorf("more than %d parts of the document are no routes: %w", maxLeftOut, l.first[0].Err)
	}
	if len(l.first) < namedLeftOut {
		l.first = append(l.first, LeftOut{id, err})
	}
	return nil
}

// leaveOut passes over the definition in rest[:end], which has an error. It returns the length of what it passed.
func (d *Decoder) leaveOut(rest []byte, end int, cause error) (int, error) {
	if d.leaving == nil {
		return 0, cause
	}
	if err := d.leaving.note(leadingID(rest[:end]), cause); err != nil {
		return 0, err
	}
	if !errors.Is(cause, ErrTooLarge) && !strings.HasPrefix(cause.Error(), syntaxError) {
		return end, nil // where it ends is certain
	}
	for at := 0; ; {
		feed := bytes.IndexByte(rest[at:end], '\n')
		if feed < 0 {
			d.leaving.skip = rest[end-1] != ';' // the rest of its line has not arrived
			return end, nil
		}
		if at += feed + 1; leadingID(rest[at:end]) != "" {
			return at, nil
		}
	}
}

// leadingID returns the id of the definition that b begins with, or "".
func leadingID(b []byte) string {
	colon := bytes.IndexByte(b[:min(len(b), maxKnownID)], ':')
	if colon < 0 || !isSymbol(string(b[:colon])) {
		return ""
	}
	return string(b[:colon])
}

// skipped drops the rest of a line that is left out.
func (d *Decoder) skipped(rest []byte) []byte {
	if d.leaving == nil || !d.leaving.skip {
		return rest
	}
	feed := bytes.IndexByte(rest, '\n')
	if feed < 0 {
		return nil
	}
	d.leaving.skip = false
	return rest[feed+1:]
}

// lastOfEach returns the last route of each id, in the order of the document, and records the others as left out.
func (l *leaving) lastOfEach(routes []*Route) ([]*Route, error) {
	if l == nil {
		return routes, nil
	}
	last := make(map[string]*Route, len(routes))
	for _, r := range routes {
		last[r.ID] = r
	}
	kept := make([]*Route, 0, len(last))
	for _, r := range routes {
		if last[r.ID] == r {
			kept = append(kept, r)
		} else if err := l.note(r.ID, fmt.Errorf("%w: %q, a later route has it", ErrDuplicateID, r.ID)); err != nil {
			return nil, err
		}
	}
	return kept, l.enough(len(kept))
}

// enough returns an error if more was left out than kept: then the document is something else.
func (l *leaving) enough(kept int) error {
	if l == nil || kept >= l.count {
		return nil
	}
	return l.first[0].Err
}
