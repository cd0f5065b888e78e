package table

import "github.com/routesrv/routesrv/eskip"

// parse parses a definition and adds its routes. The last definition may lack a semicolon, or be nothing but comments.
func (d *Decoder) parse(text string) error {
	routes, err := parseDefinition(&d.reader, text)
	if err != nil {
		return err
	}
	for _, r := range routes {
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
