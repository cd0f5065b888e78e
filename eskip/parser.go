package eskip

import (
	"cmp"
	"fmt"
	"strings"
)

// Parse parses a document: any number of definitions, or one expression without id. The routes are in source order. It returns
// one error for a document, and then no routes. A grammar violation has the text
//
//	parse failed after token <T>, last route id: <ID>, position <N>: syntax error
//
// where T is the last valid token, ID the id of the current or the previous route (omitted if there is none) and N a byte
// offset. Where the input may end, it is "unexpected token", "invalid character" or "incomplete token" instead. Only a document
// without these is checked for its meaning: endpoints that are not URIs or have different schemes; Path, Method, or Header of
// one name, twice in a route; predicates that require string arguments.
func Parse(code string) ([]*Route, error) {
	p := newParser(code)
	return p.document([]*Route{})
}

// Reader parses many documents one after the other, and reuses its memory. It is not safe for concurrent use.
type Reader struct {
	memory
	routes []*Route
}

// Parse works like the function [Parse], but the Reader owns the routes: its next call overwrites them. Lists without elements
// need not be nil, and strings may be substrings of code.
func (r *Reader) Parse(code string) (routes []*Route, err error) {
	r.memory.routes.lent, r.calls.lent, r.endpoints.lent = 0, 0, 0
	p := parser{lexer: lexer{src: code}, args: r.args[:0], memory: &r.memory}
	if routes, err = p.document(r.routes[:0]); err == nil {
		r.routes = routes
	}
	r.args = p.args
	return routes, err
}

type memory struct {
	routes    pool[Route]
	calls     pool[Predicate] // and filters, which have the same fields
	endpoints pool[LBEndpoint]
	args      []token
}

// pool lends values, which keep their last content, and reuses them once lent is reset to zero.
type pool[T any] struct {
	all  []*T
	lent int
}

func (p *pool[T]) next() *T {
	if p.lent == len(p.all) {
		p.all = append(p.all, new(T))
	}
	p.lent++
	return p.all[p.lent-1]
}

// ParsePredicates parses predicates joined by &&, such as `Path("/x") && Method("GET")`. It drops "*", keeps Any(), and does
// not check arguments. The result is nil if there are none, or on error.
func ParsePredicates(p string) ([]*Predicate, error) {
	in := newParser(strings.TrimSpace(p))
	var found []*Predicate
	if !in.list(tokAnd, func() bool { return in.predicate(&found) }) {
		return nil, in.err
	}
	return found, nil
}

// ParseFilters parses filters joined by ->. The result is nil if there are none, or on error.
func ParseFilters(f string) ([]*Filter, error) {
	in := newParser(strings.TrimSpace(f))
	var found []*Filter
	if !in.list(tokArrow, func() bool { return in.filter(&found) }) {
		return nil, in.err
	}
	return found, nil
}

// MustParse is [Parse] for texts that are part of a program: it panics on error.
func MustParse(code string) []*Route { return must(Parse(code)) }

// MustParsePredicates is [ParsePredicates] for texts that are part of a program: it panics on error.
func MustParsePredicates(s string) []*Predicate { return must(ParsePredicates(s)) }

// MustParseFilters is [ParseFilters] for texts that are part of a program: it panics on error.
func MustParseFilters(s string) []*Filter { return must(ParseFilters(s)) }

func must[T any](parsed T, err error) T {
	if err != nil {
		panic(err)
	}
	return parsed
}

// parser parses one text. Methods that parse return false after setting err. They begin at the current token and end with the
// token after the parsed part as the current one, on which the offsets in errors depend.
type parser struct {
	lexer
	copies bool // strings are copies, and not parts of the input

	id         token // the last id that was followed by a colon
	named      bool  // id is set
	err        error // set once a method returned false
	passedOver error // an incomplete number, which is the error unless a later error follows
	meaning    error // the first error that is not a syntax error

	args   []token // of the current predicate or filter
	memory *memory
}

// largeInput is the size in bytes from which strings are copied, so that a route does not keep its whole document in memory.
const largeInput = 8 << 10

func newParser(src string) *parser {
	return &parser{lexer: lexer{src: src}, copies: len(src) >= largeInput, memory: &memory{}}
}

// fail sets the error for the current token. Where the input may end, it reports an invalid token as such.
func (p *parser) fail(mayEnd bool) bool {
	reason := "syntax error"
	if mayEnd && p.tok.kind == tokInvalid {
		reason = p.reason
	}
	p.err = p.failure(p.last, p.pos, reason)
	return false
}

func (p *parser) failure(t token, pos int, reason string) error {
	last := p.raw(t) // empty if no token was read
	if t.kind == tokString || t.kind == tokRegexp {
		last = unescape(t.kind, p.src[t.start-1], last)
	}
	id := ""
	if p.named {
		id = ", last route id: " + p.raw(p.id)
	}
	return fmt.Errorf("parse failed after token %s%s, position %d: %s", last, id, pos, reason)
}

// next reads a token. If the lexer has passed over an incomplete number, it notes the error.
func (p *parser) next() {
	p.lexer.next()
	if p.incomplete {
		p.incomplete = false
		p.passedOver = p.failure(p.before, p.passed, reasonIncomplete)
	}
}

func (p *parser) complete() bool {
	p.err = p.passedOver
	return p.err == nil
}

func (p *parser) accept(k tokenKind) bool {
	if p.tok.kind != k {
		return p.fail(false)
	}
	p.next()
	return true
}

func (p *parser) newRoute() *Route {
	r := p.memory.routes.next()
	clear(r.Headers)
	*r = Route{
		HostRegexps: r.HostRegexps[:0], PathRegexps: r.PathRegexps[:0], Headers: r.Headers,
		Predicates: r.Predicates[:0], Filters: r.Filters[:0], LBEndpoints: r.LBEndpoints[:0],
	}
	return r
}

func (p *parser) call(name token) *Predicate {
	c := p.memory.calls.next()
	c.Name, c.Args = p.text(name), p.arguments(c.Args[:0])
	return c
}

func (p *parser) document(routes []*Route) ([]*Route, error) {
	p.next()
	for first := true; p.tok.kind != tokEnd; first = false {
		if p.tok.kind == tokSemicolon {
			p.next()
			continue
		}
		r := p.newRoute()
		if !p.definition(r, first) {
			return nil, p.err
		}
		if routes = append(routes, r); p.tok.kind == tokEnd {
			break
		}
		if p.tok.kind != tokSemicolon || !p.named {
			p.fail(true)
			return nil, p.err
		}
	}
	if err := cmp.Or(p.passedOver, p.meaning); err != nil {
		return nil, err
	}
	return routes, nil
}

func (p *parser) definition(r *Route, bare bool) bool {
	name := p.tok
	switch {
	case name.kind == tokSymbol:
		p.next()
		if p.tok.kind == tokColon {
			p.id, p.named = name, true
			r.Id = p.text(name)
			p.next()
			return p.route(r, token{})
		}
		if !bare {
			return p.fail(false)
		}
		return p.route(r, name)
	case name.kind == tokAny && bare:
		return p.route(r, token{})
	default:
		return p.fail(true)
	}
}

// route parses an expression into r. name, if set, is the already consumed name of the first predicate.
func (p *parser) route(r *Route, name token) bool {
	m := meaning{}
	for {
		if !p.predicateCall(&name) {
			return false
		}
		if name.kind != tokEnd {
			err := p.addRoutePredicate(r, name, &m)
			m.predicateErr = cmp.Or(m.predicateErr, err)
		}
		if p.tok.kind != tokAnd {
			break
		}
		p.next()
		name = token{}
	}
	if !p.accept(tokArrow) {
		return false
	}
	for p.tok.kind == tokSymbol {
		if !p.filter(&r.Filters) || !p.accept(tokArrow) {
			return false
		}
	}
	if !p.backend(r, &m) {
		return false
	}
	if p.meaning == nil {
		p.meaning = cmp.Or(m.endpointErr, m.predicateErr) // in this order, although endpoints are last in the text
	}
	return true
}

func (p *parser) list(separator tokenKind, item func() bool) bool {
	p.next()
	if p.tok.kind == tokInvalid {
		return p.fail(true)
	}
	if p.tok.kind == tokEnd {
		return p.complete()
	}
	for item() {
		switch p.tok.kind {
		case tokEnd:
			return p.complete()
		case separator:
			p.next()
		default:
			return p.fail(true)
		}
	}
	return false
}

func (p *parser) predicate(to *[]*Predicate) bool {
	var name token
	if !p.predicateCall(&name) {
		return false
	}
	if name.kind != tokEnd {
		*to = append(*to, p.call(name))
	}
	return true
}

// predicateCall parses one predicate: the name, unless it is set, and the arguments into p.args. "*" has no name.
func (p *parser) predicateCall(name *token) bool {
	if name.kind == tokEnd {
		if p.tok.kind == tokAny {
			p.next()
			return true
		}
		if p.tok.kind != tokSymbol {
			return p.fail(false)
		}
		*name = p.tok
		p.next()
	}
	return p.argumentList()
}

func (p *parser) filter(to *[]*Filter) bool {
	name := p.tok
	if !p.accept(tokSymbol) || !p.argumentList() {
		return false
	}
	*to = append(*to, (*Filter)(p.call(name)))
	return true
}

func (p *parser) argumentList() bool {
	p.args = p.args[:0]
	if !p.accept(tokOpen) {
		return false
	}
	if p.tok.kind == tokClose {
		p.next()
		return true
	}
	if p.tok.kind == tokComma {
		p.next() // the language has always allowed one comma before the first argument
	}
	for {
		if k := p.tok.kind; k != tokString && k != tokNumber && k != tokRegexp {
			return p.fail(false)
		}
		p.args = append(p.args, p.tok)
		p.next()
		if p.tok.kind != tokComma {
			return p.accept(tokClose)
		}
		p.next()
	}
}

func (p *parser) backend(r *Route, m *meaning) bool {
	switch p.tok.kind {
	case tokString:
		r.BackendType = NetworkBackend
		r.Backend = p.text(p.tok)
	case tokShunt:
		r.BackendType = ShuntBackend
		r.Shunt = true
	case tokLoopback:
		r.BackendType = LoopBackend
	case tokDynamic:
		r.BackendType = DynamicBackend
	case tokForward:
		r.BackendType = ForwardBackend
	case tokLess:
		p.next()
		return p.balanced(r, m)
	default:
		return p.fail(false)
	}
	p.next()
	return true
}

func (p *parser) balanced(r *Route, m *meaning) bool {
	r.BackendType = LBBackend
	if p.tok.kind == tokSymbol {
		r.LBAlgorithm = p.text(p.tok)
		p.next()
		if !p.accept(tokComma) {
			return false
		}
	}
	for {
		if p.tok.kind != tokString {
			return p.fail(false)
		}
		p.addEndpoint(r, p.tok, m)
		p.next()
		if p.tok.kind != tokComma {
			return p.accept(tokGreater)
		}
		p.next()
	}
}
