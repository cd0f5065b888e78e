package table

import (
	"sync"

	"github.com/routesrv/routesrv/eskip"
)

// fewDefinitions are parsed by one goroutine, since starting a second one would cost more than it saves.
const fewDefinitions = 16

// parsed is what a definition became.
type parsed struct {
	routes []*Route
	err    error
}

// parsePending parses the pending definitions and adds their routes in order. With many of them, a second goroutine takes half: a start
// from a checkpoint waits for little else.
func (d *Decoder) parsePending() error {
	texts := d.pending
	if len(texts) == 0 {
		return nil
	}
	d.pending = d.pending[:0]
	results := make([]parsed, len(texts))
	half := len(texts)
	if half >= fewDefinitions {
		half /= 2
	}
	var other sync.WaitGroup
	var panicked any
	if half < len(texts) {
		other.Go(func() {
			defer func() { panicked = recover() }()
			parseAll(&d.readers[1], texts[half:], results[half:])
		})
	}
	func() {
		defer other.Wait() // even if this half panics
		parseAll(&d.readers[0], texts[:half], results[:half])
	}()
	if panicked != nil {
		panic(panicked) // where the caller can recover from it
	}
	for i, text := range texts {
		if err := d.addParsed(text, results[i]); err != nil {
			return err
		}
	}
	return nil
}

func parseAll(reader *eskip.Reader, texts []string, results []parsed) {
	for i, text := range texts {
		results[i].routes, results[i].err = parseDefinition(reader, text)
	}
}

// parse parses and adds the last definition. It may lack a semicolon, or be nothing but comments.
func (d *Decoder) parse(text string) error {
	routes, err := parseDefinition(&d.readers[0], text)
	return d.addParsed(text, parsed{routes, err})
}

// addParsed adds the routes of a definition.
func (d *Decoder) addParsed(text string, p parsed) error {
	if p.err != nil {
		return p.err
	}
	for _, r := range p.routes {
		if r.Text != text {
			d.canonical = false
			d.printed = append(d.printed, r)
		}
		if err := d.add(r); err != nil {
			return err
		}
	}
	return nil
}

// parseDefinition parses the text of one definition, or of none. The route keeps the text if that is a line of a canonical text;
// otherwise it is printed again.
func parseDefinition(reader *eskip.Reader, text string) ([]*Route, error) {
	parsed, err := reader.Parse(text)
	if err != nil {
		return nil, err
	}
	var routes []*Route
	for _, r := range parsed {
		route, ok := keepText(text, r)
		if !ok {
			route = NewRoute(r)
		}
		routes = append(routes, &route)
	}
	return routes, nil
}
