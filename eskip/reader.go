package eskip

import "strings"

// Reader parses many small texts one after the other and reuses its memory. The zero value is ready to use. A Reader is not safe for
// concurrent use.
type Reader struct {
	parser  parser
	starter *starter // nil before the first Parse
	headers map[string]string
}

// Parse works like the function [Parse], with the same results and errors. But the Reader owns the routes and everything that they point
// to, and its next call overwrites them. Their strings may be substrings of code.
func (r *Reader) Parse(code string) ([]*Route, error) {
	if r.starter == nil {
		r.starter = new(starter)
	} else {
		*r.starter = starter{}
	}
	if r.headers == nil {
		r.headers = make(map[string]string)
	}
	clear(r.headers)
	r.parser.alias, r.parser.headers = true, r.headers
	r.parser.begin(code, r.starter)
	routes, ok := r.parser.document()
	if !ok {
		return nil, r.parser.err
	}
	return routes, nil
}

// ParsePredicates works like the function [ParsePredicates]. The caller owns the result.
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

// ParseFilters works like the function [ParseFilters]. The caller owns the result.
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

// fresh returns the parser at the beginning of src. Its results are allocated separately, because the caller keeps them.
func (r *Reader) fresh(src string) *parser {
	r.parser.alias, r.parser.headers = false, nil
	r.parser.begin(src, nil)
	return &r.parser
}
