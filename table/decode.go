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
	// routeCharge is how many bytes a route counts against a limit in addition to its text: about what it takes in memory. The
	// first freeRoutes count only as their text.
	routeCharge = 96
	freeRoutes  = 10_000
	// definitionShare is the divisor of the limit for one definition, which is parsed as a whole and then takes many times its
	// length.
	definitionShare = 64
	leastDefinition = 1 << 20
	mostDefinition  = 4 << 20
	// decodePiece is how much of the input is processed at once.
	decodePiece = 64 << 10
	// maxKnownID limits the search for the end of an id.
	maxKnownID = 4096
)

// Decoder builds a table from an eskip document while the document arrives, so that the whole text is never in
// memory. [Decoder.Write] accepts pieces of any size, and parses each definition when its end has arrived. It is not safe for
// concurrent use.
//
// A definition that is a line of a canonical text ("id: expression;") keeps its text, whatever the spelling of the expression; every
// other definition is printed again. So a canonical document keeps its bytes and its digest. This holds for everything that a route
// server sends and WriteFile writes: for a RouteGroup the compiler writes Host("^(a)$"), which the printer would write as
// Host(/^(a)$/).
type Decoder struct {
	limit int64
	base  *Table  // may be nil
	known *Lookup // in base, whose routes need no parsing where the text is the same; nil without a base

	read    int64  // bytes of text
	charged int64  // against the limit
	buf     []byte // the received part of the current definition and what follows it
	wait    int    // length of buf from which on to look for the end of the definition
	reader  eskip.Reader

	sorted bool    // so far
	built  builder // all routes, until one is not in order: then routes continues it
	routes []*Route
	last   string // id of the last route
	count  int    // of routes

	leaving *leaving // nil if an error in one definition is one of the document
	err     error    // why there will be no table; the remaining input is only counted
}

// NewDecoder returns a decoder for a document of at most limit bytes. A route counts as its text plus 96 bytes, the first ten
// thousand only as their text. base is a table that the document probably resembles; it may be nil.
func NewDecoder(base *Table, limit int64) *Decoder {
	d := &Decoder{limit: limit, base: base, sorted: true}
	if base != nil {
		d.known = base.list.Lookup()
	}
	return d
}

// Parse returns the routes of an eskip document in the order of the document: those of a [Decoder]. The error is the one of the
// parser, or about an id; New detects duplicate ids.
func Parse(text string) ([]Route, error) {
	d := NewDecoder(nil, math.MaxInt64)
	_, _ = d.Write([]byte(text)) // end reports its error
	if err := d.end(); err != nil {
		return nil, err
	}
	var routes []Route
	for _, r := range d.all() {
		routes = append(routes, *r)
	}
	return routes, nil
}

// Write processes the next bytes of the document. It returns ErrTooLarge, also from all later calls. A document that does not
// parse is not an error here, so that its digest can be computed: [Decoder.Table] reports it.
func (d *Decoder) Write(p []byte) (int, error) {
	if d.read += int64(len(p)); d.read > d.limit {
		d.fail(fmt.Errorf("%w: more than %d bytes", ErrTooLarge, d.limit))
	}
	for piece := range slices.Chunk(p, decodePiece) {
		if d.err != nil {
			break
		}
		d.buf = append(d.buf, piece...)
		if err := d.definitions(false); err != nil {
			d.fail(err)
		}
	}
	if errors.Is(d.err, ErrTooLarge) {
		return 0, d.err
	}
	return len(p), nil
}

// fail drops everything: there will be no table. An error about the size replaces an earlier one.
func (d *Decoder) fail(err error) {
	if d.err == nil || errors.Is(err, ErrTooLarge) {
		d.err = err
	}
	d.buf, d.built, d.routes, d.base, d.known = nil, builder{}, nil, nil, nil
}

// definitions takes the complete definitions out of buf; all of it at the end of the document.
func (d *Decoder) definitions(end bool) error {
	rest := d.buf
	for {
		rest = bytes.TrimLeft(d.skipped(rest), "\n")
		n, err := d.definition(rest, end)
		if err != nil {
			return err
		}
		if n == 0 {
			d.buf = d.buf[:copy(d.buf, rest)]
			return nil
		}
		rest, d.wait = rest[n:], 0
	}
}

// definition adds the route of the definition that rest begins with, or leaves it out. It returns the length of what it has used, 0 if
// the end of the definition has not arrived. The last definition of a document may lack a semicolon, or be nothing but comments.
func (d *Decoder) definition(rest []byte, last bool) (int, error) {
	if r := d.knownRoute(rest); r != nil {
		return len(r.Text), d.add(r)
	}
	most := min(max(d.limit/definitionShare, leastDefinition), mostDefinition)
	long := int64(len(rest)) > most
	end := -1
	if long || last || len(rest) >= d.wait {
		end, _, _ = scan(rest)
	}
	switch {
	case end >= 0:
	case long:
		return d.leaveOut(rest, len(rest), fmt.Errorf("%w: one route has more than %d bytes", ErrTooLarge, most))
	case last:
		end = len(rest)
	default:
		d.wait = 2 * len(rest) // so that a long definition in short pieces is not scanned for each of them
		return 0, nil
	}
	routes, err := parseDefinition(&d.reader, string(rest[:end]))
	if err != nil {
		return d.leaveOut(rest, end, err)
	}
	for _, r := range routes {
		if err := d.add(r); err != nil {
			return 0, err
		}
	}
	return end, nil
}

// knownRoute returns the route of base that b begins with, or nil if there is none or if that is not clear yet.
func (d *Decoder) knownRoute(b []byte) *Route {
	if d.known == nil || !d.sorted { // without order, each look could unpack a block
		return nil
	}
	end := bytes.IndexByte(b[:min(len(b), maxKnownID)], ':')
	if end < 0 {
		return nil
	}
	if r := d.known.Get(string(b[:end])); r != nil && bytes.HasPrefix(b, []byte(r.Text)) {
		return r
	}
	return nil
}

// add adds a route.
func (d *Decoder) add(r *Route) error {
	d.sorted = d.sorted && (d.count == 0 || r.ID > d.last)
	charge := int64(len(r.Text) + 1)
	if d.count++; d.count > freeRoutes {
		charge += routeCharge
	}
	if d.charged += charge; d.charged-1 > d.limit { // there is one newline less than routes
		return fmt.Errorf("all routes together: %w: %d routes come to more than %d bytes, with %d for each beside its text", ErrTooLarge,
			d.count, d.limit, routeCharge)
	}
	d.last = r.ID
	if d.sorted {
		d.built.add(r)
	} else {
		d.routes = append(d.routes, r)
	}
	return nil
}

// Table returns the table of the document, which must be complete, with the arguments of [New]. The table shares common parts
// with base. The error comes from the parser or New, or is ErrTooLarge.
func (d *Decoder) Table(revision uint64, at time.Time) (*Table, error) {
	if err := d.end(); err != nil {
		return nil, err
	}
	list, err := d.list()
	if err != nil {
		d.fail(err)
		return nil, err
	}
	base := d.base
	if base != nil {
		list.share(base.list)
	}
	d.fail(errors.New("the table of this document was taken already"))
	return base.Next(list, revision, at), nil
}

// end parses what is left of the document.
func (d *Decoder) end() error {
	if d.err == nil {
		if err := d.definitions(true); err != nil {
			d.fail(err)
		}
	}
	return d.err
}

// list returns the list of the routes.
func (d *Decoder) list() (List, error) {
	if d.sorted {
		return d.built.list(), d.leaving.enough(d.count)
	}
	all, err := d.leaving.lastOfEach(d.all())
	if err != nil {
		return List{}, err
	}
	return NewList(all)
}

// all returns the routes in the order of the document.
func (d *Decoder) all() []*Route {
	return append(slices.Collect(d.built.list().All()), d.routes...)
}
