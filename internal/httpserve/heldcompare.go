package httpserve

import (
	"context"
	"fmt"

	"github.com/routesrv/routesrv/eskip"
	"github.com/routesrv/routesrv/shadowdiff"
	"github.com/routesrv/routesrv/table"
)

// checkEvery is how many routes are parsed between two checks of the context.
const checkEvery = 100

// compare returns the differences between two tables. served may be nil. The error comes from ctx or names a route that does not
// parse, which never happens with a table from this program.
func compare(ctx context.Context, served, held *table.Table) (shadowdiff.Report, error) {
	var before table.List
	if served != nil {
		before = served.Routes()
	}
	var a, b []*eskip.Route
	var beyond shadowdiff.Counts
	n, same := 0, before.Len()
	for was, is := range table.Changes(before, held.Routes()) {
		if n%checkEvery == 0 && ctx.Err() != nil {
			return shadowdiff.Report{}, ctx.Err()
		}
		if was != nil {
			same--
		}
		if n++; n > maxCompared {
			count(&beyond, was, is)
			continue
		}
		var err error
		if a, err = appendParsed(a, was); err == nil {
			b, err = appendParsed(b, is)
		}
		if err != nil {
			return shadowdiff.Report{}, err
		}
	}
	r := shadowdiff.Diff(a, b)
	r.A, r.B = before.Len(), held.Len()
	r.Equal += same
	r.Beyond = beyond
	return r, nil
}

// count counts a route that differs without parsing it.
func count(c *shadowdiff.Counts, was, is *table.Route) {
	switch {
	case was == nil:
		c.Extra++
	case is == nil:
		c.Missing++
	default:
		c.Changed++
	}
}

// appendParsed parses a route of a table, if there is one, and appends it.
func appendParsed(list []*eskip.Route, r *table.Route) ([]*eskip.Route, error) {
	if r == nil {
		return list, nil
	}
	parsed, err := eskip.Parse(r.Text)
	if err != nil {
		return nil, fmt.Errorf("parse route %s: %w", r.ID, err)
	}
	return append(list, parsed...), nil
}
