package proxysafe

import (
	"bytes"
	"fmt"

	"github.com/routesrv/routesrv/eskip"
	"github.com/routesrv/routesrv/table"
)

// CheckTable returns an error that names the first route of t, by id, that would crash a proxy. checked is a table that has
// passed this check, or nil; its routes are not checked again. A route is parsed only if its text contains the name of a
// dangerous filter, so checking a whole table costs one text search.
func CheckTable(checked, t *table.Table) error {
	if checked != nil {
		for _, r := range table.Changes(checked.Routes(), t.Routes()) {
			if r == nil {
				continue
			}
			if err := checkRoute(r); err != nil {
				return err
			}
		}
		return nil
	}
	var text []byte
	for _, b := range t.Routes().Blocks() {
		if text = b.AppendText(text[:0]); !mayBeDangerous(text) {
			continue // nearly all: their routes are not unpacked
		}
		for _, r := range b.Routes() {
			if err := checkRoute(r); err != nil {
				return err
			}
		}
	}
	return nil
}

func checkRoute(r *table.Route) error {
	if !mayBeDangerous([]byte(r.Text)) {
		return nil
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
	return nil
}

// mayBeDangerous reports whether a text contains the name of a dangerous filter.
func mayBeDangerous(text []byte) bool {
	for name := range dangerous {
		if bytes.Contains(text, []byte(name)) {
			return true
		}
	}
	return false
}
