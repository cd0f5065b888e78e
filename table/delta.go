package table

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
	"unicode/utf8"

	"github.com/routesrv/routesrv/eskip"
)

// MaxDelta limits the wire form of a delta, which is in memory as a whole. Beyond it, the full table is the better choice.
const MaxDelta = 4 << 20

// Delta leads from one table to another. Its wire form, which docs/reference/protocol.md specifies, is JSON:
//
//	{"base":"<digest>","target":"<digest>","revision":7,"count":2,"deletes":["id"],"upserts":["id: * -> <shunt>;"]}
type Delta struct {
	Base     Digest `json:"base"`     // the table that it applies to
	Target   Digest `json:"target"`   // the table that it leads to
	Revision uint64 `json:"revision"` // of the target; 0 if its source has no revisions
	Count    int    `json:"count"`    // routes of the target
	// Deletes are ids that the target does not have. The base need not have them.
	Deletes []string `json:"deletes"`
	// Upserts are lines of the target, sorted by id: at least those that the base lacks.
	Upserts []string `json:"upserts"`
}

// AppendJSON appends the wire form on one line. It fails if a text is not UTF-8, and with ErrTooLarge beyond 4 MiB.
func (d *Delta) AppendJSON(dst []byte) ([]byte, error) {
	for _, text := range d.Upserts {
		if !utf8.ValidString(text) {
			return nil, fmt.Errorf("a route is not UTF-8: %.100q", text)
		}
	}
	wire := *d
	wire.Deletes = append([]string{}, d.Deletes...) // not null, for clients in languages that distinguish it from a list
	wire.Upserts = append([]string{}, d.Upserts...)
	b := bytes.NewBuffer(dst)
	enc := json.NewEncoder(b)
	enc.SetEscapeHTML(false) // < and > occur in every route
	if err := enc.Encode(wire); err != nil {
		return nil, fmt.Errorf("encode delta: %w", err)
	}
	if b.Len()-len(dst) > MaxDelta {
		return nil, fmt.Errorf("%w: a delta of %d bytes", ErrTooLarge, b.Len()-len(dst))
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// ReadDelta reads the wire form to its end, at most limit bytes and 4 MiB, and ignores unknown fields. [Table.Apply] checks it.
func ReadDelta(r io.Reader, limit int64) (*Delta, error) {
	limit = min(limit, MaxDelta)
	data, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err != nil {
		return nil, fmt.Errorf("delta: %w", err)
	}
	if int64(len(data)) > limit {
		return nil, fmt.Errorf("delta: %w: more than %d bytes", ErrTooLarge, limit)
	}
	var d Delta
	if err := json.Unmarshal(data, &d); err != nil {
		return nil, fmt.Errorf("delta: %w", err)
	}
	if d.Base.IsZero() || d.Target.IsZero() {
		return nil, errors.New("delta: no base or target")
	}
	return &d, nil
}

// Apply returns the table that the delta leads to; its text has at most limit bytes. It checks the digest and the number of
// routes, so the result is exactly the server's. It shares unchanged parts with t. After an error, fetch the full table.
func (t *Table) Apply(d *Delta, at time.Time, limit int64) (*Table, error) {
	if have := t.Digest(); d.Base != have {
		return nil, fmt.Errorf("delta is for another table: for %s, have %s", d.Base, have)
	}
	upserts := make([]*Route, 0, len(d.Upserts))
	var reader eskip.Reader
	for _, line := range d.Upserts {
		routes, err := parsePart(&reader, line)
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
		return nil, fmt.Errorf("delta does not lead to its target: %w: %d bytes, limit %d", ErrTooLarge, list.bytes, limit)
	}
	next := t.Next(list, d.Revision, at)
	if digest := next.Digest(); digest != d.Target || next.Len() != d.Count {
		return nil, fmt.Errorf("delta does not lead to its target: %d routes with digest %s, must be %d with %s", next.Len(), digest, d.Count, d.Target)
	}
	return next, nil
}
