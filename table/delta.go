package table

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/routesrv/routesrv/eskip"
)

// Errors of deltas. Whoever gets one takes the full table instead.
var (
	// ErrNotText is of a delta that has a text which is not UTF-8, and so has no JSON form.
	ErrNotText = errors.New("a route is not UTF-8")
	// ErrOtherBase is of a delta that is for another table.
	ErrOtherBase = errors.New("delta is for another table")
	// ErrDelta is of a delta that does not lead to the table that it says.
	ErrDelta = errors.New("delta does not lead to its target")
)

// Delta leads from one table to another. Its wire form, which docs/protocol.md specifies, is JSON:
//
//	{"base":"<digest>","target":"<digest>","revision":7,"count":2,"deletes":["id"],"upserts":["id: * -> <shunt>;"]}
type Delta struct {
	Base     Digest `json:"base"`     // of the table that it is for
	Target   Digest `json:"target"`   // of the table that it leads to
	Revision uint64 `json:"revision"` // of the target; 0 if its source has none
	Count    int    `json:"count"`    // routes of the target
	// Deletes are ids that the target does not have. The base need not have them.
	Deletes []string `json:"deletes"`
	// Upserts are lines of the target, sorted by id: all that the base does not have. It may have some of them.
	Upserts []string `json:"upserts"`
}

// Between returns the delta that leads from one table to another, with nothing in it that is not needed.
func Between(base, target *Table) *Delta {
	d := &Delta{Base: base.Digest(), Target: target.Digest(), Revision: target.revision, Count: target.Len()}
	for was, is := range Changes(base.list, target.list) {
		if is == nil {
			d.Deletes = append(d.Deletes, was.ID)
		} else {
			d.Upserts = append(d.Upserts, is.Text)
		}
	}
	return d
}

// AppendJSON appends the wire form in one line without a newline. The error is ErrNotText.
func (d *Delta) AppendJSON(dst []byte) ([]byte, error) {
	for _, text := range d.Upserts {
		if !utf8.ValidString(text) {
			return nil, fmt.Errorf("%w: %.100q", ErrNotText, text)
		}
	}
	wire := *d
	if wire.Deletes == nil {
		wire.Deletes = []string{} // a list for clients in languages where null is none
	}
	if wire.Upserts == nil {
		wire.Upserts = []string{}
	}
	b := bytes.NewBuffer(dst)
	enc := json.NewEncoder(b)
	enc.SetEscapeHTML(false) // < and > are in every route
	if err := enc.Encode(wire); err != nil {
		return nil, fmt.Errorf("encode delta: %w", err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// Apply returns the table that the delta leads to, with the time given; its text has at most limit bytes. The routes of the
// delta are parsed, and the digest and the number of routes of the result are checked, so that a table which comes out is the
// one that the server has. t is not changed, and what did not change is shared with it. The error wraps ErrOtherBase, ErrDelta
// or that of the parser.
func (t *Table) Apply(d *Delta, at time.Time, limit int64) (*Table, error) {
	if have := t.Digest(); d.Base != have {
		return nil, fmt.Errorf("%w: for %s, have %s", ErrOtherBase, d.Base, have)
	}
	upserts := make([]*Route, 0, len(d.Upserts))
	var reader eskip.Reader
	for _, line := range d.Upserts {
		routes, err := parseDefinition(&reader, line)
		if err != nil {
			return nil, fmt.Errorf("delta: %w", err)
		}
		upserts = append(upserts, routes...)
	}
	list, err := t.list.With(upserts, d.Deletes)
	if err != nil {
		return nil, fmt.Errorf("delta: %w", err)
	}
	if int64(list.bytes) > limit {
		return nil, fmt.Errorf("%w: %w: %d bytes, limit %d", ErrDelta, ErrTooLarge, list.bytes, limit)
	}
	next := t.Next(list, d.Revision, at)
	if digest := next.Digest(); digest != d.Target || next.Len() != d.Count {
		return nil, fmt.Errorf("%w: %d routes with digest %s, want %d with %s", ErrDelta, next.Len(), digest, d.Count, d.Target)
	}
	return next, nil
}
