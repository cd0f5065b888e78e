package eskip

import "strings"

// Reader parses one small text after the other in the same memory. The zero value is usable. A Reader is not safe for
// concurrent use.
type Reader struct {
	parser  parser
	starter *starter // nil before the first Parse
}

// Parse is the function of this name, with the same results and errors, but the routes and all that they point to belong to the
// Reader and are valid until its next call only. Their strings may be parts of code.
func (r *Reader) Parse(code string) ([]*Route, error) {
	if r.starter == nil {
		r.starter = new(starter)
	} else {
		*r.starter = starter{}
	}
	r.parser.alias = true
	r.parser.begin(code, r.starter)
	routes, ok := r.parser.document()
	if !ok {
		return nil, r.parser.err
	}
	return routes, nil
}

// ParsePredicates is the function of this name. The result does not belong to the Reader.
func (r *Reader) ParsePredicates(p string) ([]*Predicate, error) {
	if p = strings.TrimSpace(p); p == "" {
		return nil, nil
	}
	in := r.fresh(p)
	if !in.predicates() {
		return nil, in.err
	}
	return in.takePredicates(), nil
}

// ParseFilters is the function of this name. The result does not belong to the Reader.
func (r *Reader) ParseFilters(f string) ([]*Filter, error) {
	if f = strings.TrimSpace(f); f == "" {
		return nil, nil
	}
	in := r.fresh(f)
	if !in.filters() {
		return nil, in.err
	}
	return in.takeFilters(), nil
}

// fresh returns the parser at the beginning of src. Of what it makes of that, nothing is in memory that is used again.
func (r *Reader) fresh(src string) *parser {
	r.parser.alias = false
	r.parser.begin(src, nil)
	return &r.parser
}
