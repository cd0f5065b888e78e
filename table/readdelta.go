package table

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
)

const (
	// leastString is the minimum number of bytes that an upsert or an id counts against a limit.
	leastString = 64
	// freeStrings is how many of them count only as their length.
	freeStrings = 10_000
	// maxDeltaDepth limits the nesting in unknown fields.
	maxDeltaDepth = 64
)

// ParseDelta is [ReadDelta] for data in memory, without a limit.
func ParseDelta(data []byte) (*Delta, error) { return ReadDelta(bytes.NewReader(data), math.MaxInt64) }

// ReadDelta reads the wire form to its end, piece by piece: apart from the strings of the delta it keeps little in memory. It
// ignores unknown fields. Both the input and the ids and upserts together may have at most limit bytes, where each string after
// the first ten thousand counts as at least 64 bytes; beyond that the error is ErrTooLarge. ReadDelta does not check whether the
// delta leads to its target: see [Table.Apply].
func ReadDelta(r io.Reader, limit int64) (*Delta, error) {
	in := &deltaReader{r: r, left: limit, most: min(max(limit/definitionShare, leastDefinition), mostDefinition)}
	d, err := in.delta(json.NewDecoder(in), limit)
	switch {
	case in.err != nil:
		return nil, fmt.Errorf("delta: %w", in.err)
	case err != nil:
		return nil, fmt.Errorf("delta: %w", err)
	case d.Base.IsZero() || d.Target.IsZero():
		return nil, errors.New("delta: no base or target")
	case d.Count < 0:
		return nil, fmt.Errorf("delta: count %d", d.Count)
	}
	return d, nil
}

// deltaReader limits what a JSON decoder buffers: it returns a limited number of bytes between two calls of ready.
type deltaReader struct {
	r    io.Reader
	left int64 // in total
	most int64 // between two calls
	now  int64 // since the last call
	err  error // why it returns no more
}

func (r *deltaReader) ready() { r.now = 0 }

func (r *deltaReader) Read(p []byte) (int, error) {
	if r.err == nil && r.now >= r.most {
		r.err = fmt.Errorf("%w: one value has more than %d bytes", ErrTooLarge, r.most)
	}
	if r.err != nil {
		return 0, r.err
	}
	n, err := r.r.Read(p[:min(len(p), decodePiece)])
	r.now += int64(n)
	if r.left -= int64(n); r.left < 0 {
		n, err = 0, fmt.Errorf("%w: a delta beyond the limit", ErrTooLarge)
	}
	if err != nil && err != io.EOF {
		r.err = err
	}
	return n, err
}

// delta reads one object and requires that nothing follows it.
func (r *deltaReader) delta(dec *json.Decoder, limit int64) (*Delta, error) {
	if err := r.delimiter(dec, '{'); err != nil {
		return nil, err
	}
	d := &Delta{}
	budget := &stringBudget{left: limit}
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return nil, err
		}
		r.ready()
		switch name {
		case "base":
			err = dec.Decode(&d.Base)
		case "target":
			err = dec.Decode(&d.Target)
		case "revision":
			err = dec.Decode(&d.Revision)
		case "count":
			err = dec.Decode(&d.Count)
		case "deletes":
			d.Deletes, err = r.strings(dec, budget)
		case "upserts":
			d.Upserts, err = r.strings(dec, budget)
		default:
			err = r.skip(dec)
		}
		if err != nil {
			return nil, fmt.Errorf("%q: %w", name, err)
		}
		r.ready()
	}
	if err := r.delimiter(dec, '}'); err != nil {
		return nil, err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("more than one value")
	}
	return d, nil
}

func (r *deltaReader) delimiter(dec *json.Decoder, want json.Delim) error {
	t, err := dec.Token()
	if err != nil {
		return err
	}
	if t != want {
		return fmt.Errorf("%v, want %v", t, want)
	}
	return nil
}

// stringBudget is the remaining budget for strings.
type stringBudget struct {
	left int64
	n    int
}

func (b *stringBudget) spend(s string) error {
	b.n++
	charge := int64(len(s))
	if b.n > freeStrings {
		charge = max(charge, leastString)
	}
	if b.left -= charge; b.left < 0 {
		return fmt.Errorf("%w: %d ids and routes, which count as %d bytes each at least", ErrTooLarge, b.n, leastString)
	}
	return nil
}

// strings reads a list of strings, or null.
func (r *deltaReader) strings(dec *json.Decoder, budget *stringBudget) ([]string, error) {
	t, err := dec.Token()
	if err != nil || t == nil {
		return nil, err
	}
	if t != json.Delim('[') {
		return nil, fmt.Errorf("%v, want a list", t)
	}
	list := []string{}
	for dec.More() {
		t, err := dec.Token()
		if err != nil {
			return nil, err
		}
		s, ok := t.(string)
		if !ok {
			return nil, fmt.Errorf("%v, want a string", t)
		}
		if err := budget.spend(s); err != nil {
			return nil, err
		}
		list = append(list, s)
		r.ready()
	}
	return list, r.delimiter(dec, ']')
}

// skip reads and discards a value.
func (r *deltaReader) skip(dec *json.Decoder) error {
	for depth := 0; ; {
		t, err := dec.Token()
		if err != nil {
			return err
		}
		r.ready()
		switch t {
		case json.Delim('{'), json.Delim('['):
			depth++
		case json.Delim('}'), json.Delim(']'):
			depth--
		}
		if depth == 0 {
			return nil
		}
		if depth > maxDeltaDepth {
			return fmt.Errorf("more than %d values in each other", maxDeltaDepth)
		}
	}
}
