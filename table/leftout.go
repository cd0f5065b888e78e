package table

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"time"
)

// maxLeftOut is how many parts of a document may be left out: looking for the next line after each of them costs time.
const maxLeftOut = 1_000

// namedLeftOut is how many of them [Decoder.LeftOut] describes.
const namedLeftOut = 10

// LeftOut is a part of a document that is no route of its table.
type LeftOut struct {
	ID  string // empty if the part does not begin with an id
	Err error  // why
}

// leaving is the state of a decoder that leaves out what it cannot use.
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
	if d.leaving == nil || errors.Is(cause, errTotal) {
		return 0, cause
	}
	id := ""
	if colon := bytes.IndexByte(rest[:min(end, maxKnownID)], ':'); colon > 0 {
		if name := string(bytes.TrimSpace(rest[:colon])); isSymbol(name) {
			id = name
		}
	}
	if err := d.leaving.note(id, cause); err != nil {
		return 0, err
	}
	d.canonical, d.at, d.state, d.separate = false, 0, scanPlain, true
	if !errors.Is(cause, ErrTooLarge) && !strings.HasPrefix(cause.Error(), syntaxError) {
		return end, nil // where it ends is certain
	}
	if next := nextLine(rest[:end]); next > 0 {
		d.separate = false
		return next, nil
	}
	d.leaving.skip = rest[end-1] != ';' // the rest of its line has not arrived
	return end, nil
}

// syntaxError begins the errors after which it is not certain where a definition ends.
const syntaxError = "parse failed after token "

// nextLine returns the offset of the first line after a line feed that begins with an id and a colon, or 0.
func nextLine(b []byte) int {
	for at := 0; ; {
		feed := bytes.IndexByte(b[at:], '\n')
		if feed < 0 {
			return 0
		}
		at += feed + 1
		line := b[at:]
		if colon := bytes.IndexByte(line[:min(len(line), maxKnownID)], ':'); colon > 0 && isSymbol(string(line[:colon])) {
			return at
		}
	}
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
	d.leaving.skip, d.separate = false, false
	return rest[feed+1:]
}

// remainder parses what is behind the last semicolon, or behind the last part that was left out.
func (d *Decoder) remainder() error {
	for len(d.buf) > 0 {
		err := d.parse(string(d.buf))
		if err == nil {
			return nil
		}
		n, err := d.leaveOut(d.buf, len(d.buf), err)
		if err != nil {
			return err
		}
		d.buf = d.buf[:copy(d.buf, d.buf[n:])]
		if err := d.definitions(); err != nil {
			return err
		}
	}
	return nil
}

// usable returns the routes that a table can have, in the order of the document.
func (d *Decoder) usable(routes []*Route) ([]*Route, error) {
	if d.leaving == nil {
		return routes, nil
	}
	at := make(map[string]int, len(routes)) // where the last route of an id is
	var kept []*Route
	for i, r := range routes {
		at[r.ID] = i
	}
	for i, r := range routes {
		err := check(r)
		if at[r.ID] != i && err == nil {
			err = fmt.Errorf("%w: %q, a later route has it", ErrDuplicateID, r.ID)
		}
		if err == nil {
			kept = append(kept, r)
			continue
		}
		if err := d.leaving.note(r.ID, err); err != nil {
			return nil, err
		}
	}
	return kept, d.enough(len(kept))
}

// enough returns an error if more was left out than kept: then the document is something else.
func (d *Decoder) enough(kept int) error {
	if d.leaving == nil || d.leaving.count == 0 || kept >= d.leaving.count {
		return nil
	}
	return d.leaving.first[0].Err
}

// printedUsable is printedTable without the routes that no table can have.
func (d *Decoder) printedUsable(routes []*Route, revision uint64, at time.Time) (*Table, error) {
	routes, err := d.usable(routes)
	if err != nil {
		return nil, err
	}
	return printedTable(routes, d.printed, revision, at)
}
