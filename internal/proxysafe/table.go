package proxysafe

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/routesrv/routesrv/eskip"
	"github.com/routesrv/routesrv/table"
)

// CheckTable returns an error that names the first route of t, by id, that would crash a proxy. checked is a table that has
// passed this check, or nil; its routes are not checked again. A route is parsed only if its text contains the name of a
// dangerous filter, so checking a whole table costs one text search.
func CheckTable(checked, t *table.Table) error {
	var known table.List
	if checked != nil {
		known = checked.Routes()
	} else if !anyDangerous(t.Routes()) {
		return nil // without unpacking the routes
	}
	for _, r := range table.Changes(known, t.Routes()) {
		if r == nil || !mayBeDangerous(r.Text) {
			continue
		}
		routes, err := eskip.Parse(r.Text)
		if err != nil {
			return fmt.Errorf("route %q: %w", r.ID, err)
		}
		for _, parsed := range routes {
			if err := Check(parsed); err != nil {
				return fmt.Errorf("route %q would end the process of every proxy: %w", r.ID, err)
			}
		}
	}
	return nil
}

// anyDangerous reports whether the text of a list contains the name of a dangerous filter.
func anyDangerous(routes table.List) bool {
	var text []byte
	for _, b := range routes.Blocks() {
		text = b.AppendText(text[:0])
		for name := range dangerous {
			if bytes.Contains(text, []byte(name)) {
				return true
			}
		}
	}
	return false
}

func mayBeDangerous(text string) bool {
	for name := range dangerous {
		if strings.Contains(text, name) {
			return true
		}
	}
	return false
}
