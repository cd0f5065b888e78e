package table

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/routesrv/routesrv/eskip"
)

// ErrTooLarge means that a document, a delta or a file exceeds the reader's limit.
var ErrTooLarge = errors.New("table is too large")

const (
	batchSize    = 4096 // routes that a decoder collects before it packs them
	namedLeftOut = 10   // parts that [Decoder.LeftOut] describes
)

// Decoder builds a table from an eskip document while it arrives, so that the whole text is never in memory. A route begins
// with its id at the beginning of a line, extends to the next such line, and is parsed separately. It is not safe for
// concurrent use.
//
// A line of a canonical text ("id: expression;") keeps its text; every other route is printed again. So a canonical document
// keeps its digest: for a RouteGroup the compiler writes Host("^(a)$"), which the printer would write as Host(/^(a)$/).
type Decoder struct {
	limit int64
	base  *Table // may be nil

	read   int64  // bytes of text
	part   []byte // the lines of the current route that have arrived, and the beginning of a line
	line   int    // where that line begins in part
	reader eskip.Reader
	batch  []*Route // after list
	size   int      // of a batch
	list   List

	lenient   bool // leave out parts with errors
	leftOut   int
	firstLeft []LeftOut
	err       error // why there will be no table; the remaining input is only counted
}

// LeftOut is a part of a document that is not a route of its table.
type LeftOut struct {
	ID  string // empty if the part does not begin with an id
	Err error  // why
}

// NewDecoder returns a decoder for a document of at most limit bytes. base is a table that it resembles; it may be nil.
func NewDecoder(base *Table, limit int64) *Decoder {
	return &Decoder{limit: limit, base: base, size: batchSize}
}

// LeaveOut makes the decoder leave out parts that are no routes. Of several routes with one id the last one counts, as in a
// proxy. A document that loses more parts than it keeps is still refused. Call it before the first Write.
func (d *Decoder) LeaveOut() { d.lenient = true }

// LeftOut returns how many parts were left out, and describes the first ones. It is complete after [Decoder.Table].
func (d *Decoder) LeftOut() (count int, first []LeftOut) { return d.leftOut, d.firstLeft }

// Parse returns the routes of a document in its order, as a [Decoder] reads them. New detects duplicate ids.
func Parse(text string) ([]Route, error) {
	d := NewDecoder(nil, math.MaxInt64)
	d.size = math.MaxInt
	_, _ = d.Write([]byte(text)) // end reports its error
	if err := d.end(); err != nil {
		return nil, err
	}
	routes := make([]Route, len(d.batch))
	for i, r := range d.batch {
		routes[i] = *r
	}
	return routes, nil
}

// Write processes the next bytes. It only returns ErrTooLarge: [Decoder.Table] reports other errors.
func (d *Decoder) Write(p []byte) (int, error) {
	if d.read += int64(len(p)); d.read > d.limit {
		d.fail(fmt.Errorf("%w: more than %d bytes", ErrTooLarge, d.limit))
	}
	for rest, ended := p, true; ended && d.err == nil; {
		var piece []byte
		piece, rest, ended = bytes.Cut(rest, []byte{'\n'})
		d.part = append(d.part, piece[:min(len(piece), MaxRoute+1-(len(d.part)-d.line))]...)
		if ended {
			d.endLine()
		}
	}
	if errors.Is(d.err, ErrTooLarge) {
		return 0, d.err
	}
	return len(p), nil
}

// fail drops everything. An error about the size of the document replaces an earlier one.
func (d *Decoder) fail(err error) {
	if d.err == nil || errors.Is(err, ErrTooLarge) {
		d.err = err
	}
	d.part, d.batch, d.list, d.base = nil, nil, List{}, nil
}

func (d *Decoder) endLine() {
	if leadingID(d.part[d.line:]) != "" {
		if d.endPart(d.part[:d.line]); d.err != nil {
			return
		}
		d.part = d.part[:copy(d.part, d.part[d.line:])]
	}
	d.part = append(d.part[:min(len(d.part), MaxRoute+1)], '\n')
	d.line = len(d.part)
}

// endPart adds the route of a part. An error after the first line drops only the text from there on.
func (d *Decoder) endPart(part []byte) {
	part = bytes.TrimRight(part, "\n")
	routes, err := d.parse(part)
	if first, _, more := bytes.Cut(part, []byte{'\n'}); err != nil && more {
		if one, wrong := d.parse(first); wrong == nil && len(one) > 0 {
			d.leaveOut("", err)
			routes, err = one, nil
		}
	}
	if err != nil {
		d.leaveOut(leadingID(part), err)
	}
	if d.batch = append(d.batch, routes...); len(d.batch) >= d.size {
		d.pack()
	}
}

func (d *Decoder) parse(part []byte) ([]*Route, error) {
	if len(part) > MaxRoute {
		return nil, fmt.Errorf("%w: one route has more than %d bytes", ErrTooLarge, MaxRoute)
	}
	return parsePart(&d.reader, string(part))
}

func leadingID(line []byte) string {
	id, _, found := bytes.Cut(line, []byte{':'})
	if !found || !eskip.ValidID(string(id)) {
		return ""
	}
	return string(id)
}

func (d *Decoder) leaveOut(id string, err error) {
	if !d.lenient {
		d.fail(err)
		return
	}
	if d.leftOut++; len(d.firstLeft) < namedLeftOut {
		d.firstLeft = append(d.firstLeft, LeftOut{id, err})
	}
}

// pack moves the routes of the batch to the list. The last route with an id counts.
func (d *Decoder) pack() {
	slices.SortStableFunc(d.batch, byID)
	packed, upserts := d.list.Lookup(), d.batch[:0]
	for i, r := range d.batch {
		again := i+1 < len(d.batch) && d.batch[i+1].ID == r.ID
		if again || packed.Get(r.ID) != nil {
			d.leaveOut(r.ID, fmt.Errorf("duplicate route id: %q", r.ID))
		}
		if !again {
			upserts = append(upserts, r)
		}
	}
	if d.err != nil {
		return
	}
	list, err := d.list.With(upserts, nil)
	if err != nil {
		d.fail(err)
		return
	}
	clear(d.batch)
	d.list, d.batch = list, d.batch[:0]
}

// Table returns the table of the document, which shares common parts with base. Call it once, at the end of the document.
func (d *Decoder) Table(revision uint64, at time.Time) (*Table, error) {
	if d.end() == nil {
		d.pack()
	}
	if d.err == nil && d.list.Len() < d.leftOut {
		d.fail(d.firstLeft[0].Err) // the document is something else
	}
	if d.err != nil {
		return nil, d.err
	}
	list, base := d.list, d.base
	if base != nil {
		list = list.Sharing(base.list)
	}
	d.fail(errors.New("the table of this document was taken already"))
	return base.Next(list, revision, at), nil
}

func (d *Decoder) end() error {
	if d.err == nil {
		d.endLine()
	}
	if d.err == nil {
		d.endPart(d.part)
	}
	return d.err
}
