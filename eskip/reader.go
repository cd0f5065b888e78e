package eskip

// Reader parses one small document after the other in the same memory, for who looks at routes and does not keep them. The zero
// value is usable. A Reader is not safe for concurrent use.
type Reader struct {
	parser  parser
	starter starter
}

// Parse is the function of this name, with the same results and errors, but the routes and all that they point to belong to the
// Reader and are valid until its next call only. Their strings may be parts of code.
func (r *Reader) Parse(code string) ([]*Route, error) {
	r.starter = starter{}
	r.parser.alias = true
	r.parser.begin(code, &r.starter)
	routes, ok := r.parser.document()
	if !ok {
		return nil, r.parser.err
	}
	return routes, nil
}
