package table

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/routesrv/routesrv/eskip"
)

// errTotal means that the document as a whole is too large.
var errTotal = errors.New("all routes together")

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
)

// Decoder builds a table from an eskip document while the document arrives, so that the memory is that of the table and not of
// several copies. [Decoder.Write] accepts pieces of any size, and parses each definition when its end has arrived. It accepts the
// same documents, and returns the same routes, as [Parse]. It is not safe for concurrent use.
type Decoder struct {
	limit  int64
	base   *Table // its routes are reused where the text is the same; may be nil
	cursor cursor // in base

	read      int64  // bytes of text
	charged   int64  // against the limit
	buf       []byte // the received part of the current definition and what follows it
	reader    eskip.Reader
	at        int // offset in buf up to which it was scanned
	state     scanState
	separate  bool     // a definition has ended: a newline comes next in the canonical form
	canonical bool     // so far
	routes    []*Route // when packing, only those after the packed blocks
	last      string   // id of the last route
	count     int      // of routes
	printed   []*Route // the routes whose text differs from the document's
	packing   *packing // nil if blocks are not packed
	leaving   *leaving // nil if an error in one definition is one of the document
	err       error    // why there will be no table; the remaining input is only counted
}

// scanState is the lexical state of a byte.
type scanState uint8

const (
	scanPlain scanState = iota
	scanSlash           // after a slash that begins a comment or an expression
	scanComment
	scanDouble
	scanBacktick
	scanRegexp
	scanClass // of characters, in an expression

	scanEscaped scanState = 1 << 7 // added to one of the four above: the next byte has no special meaning
)

// NewDecoder returns a decoder for a document of at most limit bytes. A route counts as its text plus 96 bytes, the first ten
// thousand only as their text. base is a table that the document probably resembles; it may be nil.
func NewDecoder(base *Table, limit int64) *Decoder {
	d := &Decoder{limit: limit, base: base, canonical: true}
	if base != nil {
		d.cursor.blocks = base.list.blocks
	}
	return d
}

// decodePiece is how much of the input is processed at once.
const decodePiece = 64 << 10

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
		if err := d.definitions(); err != nil {
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
	d.buf, d.routes, d.printed, d.base, d.cursor, d.packing = nil, nil, nil, nil, cursor{}, nil
}

// definitions takes the complete definitions out of buf.
func (d *Decoder) definitions() error {
	rest := d.skipped(d.buf)
	for len(rest) > 0 {
		if d.separate {
			d.separate = false
			if rest[0] == '\n' {
				rest = rest[1:]
				continue
			}
			d.canonical = false
		}
		r := d.known(rest)
		if r == nil {
			end := d.scan(rest)
			if end < 0 {
				most := min(max(d.limit/definitionShare, leastDefinition), mostDefinition)
				if int64(len(rest)) <= most {
					break
				}
				n, err := d.leaveOut(rest, len(rest), fmt.Errorf("%w: one route has more than %d bytes", ErrTooLarge, most))
				if err != nil {
					return err
				}
				rest = d.skipped(rest[n:])
				continue
			}
			if r = d.known(rest[:end]); r == nil {
				if err := d.parse(string(rest[:end])); err != nil {
					if end, err = d.leaveOut(rest, end, err); err != nil {
						return err
					}
				} else {
					d.separate = true
				}
				rest = rest[end:]
				continue
			}
		}
		if err := d.add(r); err != nil {
			return err
		}
		d.separate = true
		rest = rest[len(r.Text):]
	}
	if len(rest) < len(d.buf) {
		d.buf = d.buf[:copy(d.buf, rest)]
	}
	return nil
}

// known returns the route of base that b begins with, or nil if there is none or if that is not clear yet.
func (d *Decoder) known(b []byte) *Route {
	if d.at > 0 || len(d.cursor.blocks) == 0 {
		return nil
	}
	end := bytes.IndexByte(b[:min(len(b), maxKnownID)], ':')
	if end < 0 {
		return nil
	}
	r := d.seek(string(b[:end]))
	if r != nil && bytes.HasPrefix(b, []byte(r.Text)) {
		return r
	}
	return nil
}

// maxKnownID limits the search for the end of an id.
const maxKnownID = 4096

// seek returns the route of base with the id, or nil. It only moves forward, because documents are sorted.
func (d *Decoder) seek(id string) *Route {
	for len(d.cursor.blocks) > 1 && d.cursor.blocks[1].first() <= id {
		d.cursor.nextBlock()
	}
	for r := d.cursor.route(); r != nil && r.ID <= id; r = d.cursor.route() {
		if r.ID == id {
			return r
		}
		d.cursor.next()
	}
	return nil
}

// scan finds the end of the definition at the beginning of b, continuing where the last call stopped. It returns the offset after
// its semicolon, or -1 if that has not arrived. It knows as much of the language as [scanDefinition], plus comments.
func (d *Decoder) scan(b []byte) int {
	state := d.state
	for i := d.at; i < len(b); i++ {
		c := b[i]
		if state&scanEscaped != 0 {
			state &^= scanEscaped
			continue
		}
	again:
		switch state {
		case scanPlain:
			switch c {
			case '"':
				state = scanDouble
			case '`':
				state = scanBacktick
			case '/':
				state = scanSlash
			case ';':
				d.at, d.state = 0, scanPlain
				return i + 1
			}
		case scanSlash:
			if state = scanRegexp; c != '/' {
				goto again
			}
			state = scanComment
		case scanComment:
			if c == '\n' {
				state = scanPlain
			}
		default:
			state = scanLiteral(state, c)
		}
	}
	d.at, d.state = len(b), state
	return -1
}

// scanLiteral returns the state after a byte of a literal.
func scanLiteral(state scanState, c byte) scanState {
	switch {
	case c == '\\':
		return state | scanEscaped
	case state == scanDouble && c == '"', state == scanBacktick && c == '`', state == scanRegexp && c == '/':
		return scanPlain
	case state == scanRegexp && c == '[':
		return scanClass
	case state == scanClass && c == ']':
		return scanRegexp
	}
	return state
}

// add adds a route.
func (d *Decoder) add(r *Route) error {
	if d.count > 0 && r.ID <= d.last {
		d.canonical = false
	}
	charge := int64(len(r.Text) + 1)
	if d.count++; d.count > freeRoutes {
		charge += routeCharge
	}
	if d.charged += charge; d.charged-1 > d.limit { // there is one newline less than routes
		return fmt.Errorf("%w: %w: %d routes come to more than %d bytes, with %d for each beside its text", errTotal, ErrTooLarge, d.count,
			d.limit, routeCharge)
	}
	if d.packing != nil && d.canonical && endsBlock(d.routes, r) {
		if err := d.pack(); err != nil {
			return err
		}
	}
	d.routes, d.last = append(d.routes, r), r.ID
	return nil
}

// Table returns the table of the document, which must be complete, with the arguments of [New]. The table shares common parts
// with base. The error comes from the parser or New, or is ErrTooLarge.
func (d *Decoder) Table(revision uint64, at time.Time) (*Table, error) {
	if d.err == nil && len(d.buf) > 0 {
		d.canonical = false
		if err := d.remainder(); err != nil {
			d.fail(err)
		}
	}
	if d.err != nil {
		return nil, d.err
	}
	if !d.separate && len(d.routes) > 0 {
		d.canonical = false // a newline at the end
	}
	t, err := d.table(revision, at)
	d.fail(errors.New("the table of this document was taken already"))
	return t, err
}

func (d *Decoder) table(revision uint64, at time.Time) (*Table, error) {
	if d.packing != nil {
		return d.packedTable(revision, at)
	}
	routes, base := d.routes, d.base
	if !d.canonical {
		return d.printedUsable(routes, revision, at)
	}
	if base == nil {
		list, err := NewList(routes)
		if err != nil {
			return nil, err
		}
		return Of(list, revision, at), nil
	}
	list, err := base.list.With(changesTo(base.list, routes))
	if err != nil {
		return nil, err
	}
	return base.Next(list, revision, at), nil
}

// printedTable returns the table of a document in another form: it prints all routes again, except those already printed. Those
// are not parsed again: that would escape a control character in an expression a second time.
func printedTable(routes, printed []*Route, revision uint64, at time.Time) (*Table, error) {
	all := make([]*Route, len(routes))
	for i, r := range routes {
		if len(printed) > 0 && printed[0] == r {
			all[i], printed = r, printed[1:]
			continue
		}
		parsed, err := eskip.Parse(r.Text)
		if err != nil || len(parsed) != 1 {
			return nil, fmt.Errorf("parse %.100q again: %d routes: %w", r.Text, len(parsed), err)
		}
		own := NewRoute(parsed[0])
		all[i] = &own
	}
	list, err := NewList(all)
	if err != nil {
		return nil, err
	}
	return Of(list, revision, at), nil
}

// changesTo returns the arguments for [List.With] that turn a list into sorted routes.
func changesTo(base List, routes []*Route) (upserts []*Route, deletes []string) {
	for was := range base.All() {
		for len(routes) > 0 && routes[0].ID < was.ID {
			upserts, routes = append(upserts, routes[0]), routes[1:]
		}
		switch {
		case len(routes) == 0 || routes[0].ID != was.ID:
			deletes = append(deletes, was.ID)
			continue
		case routes[0] != was:
			upserts = append(upserts, routes[0])
		}
		routes = routes[1:]
	}
	return append(upserts, routes...), deletes
}
