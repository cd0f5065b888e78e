package shadowdiff

import (
	"context"
	"fmt"

	"github.com/routesrv/routesrv/eskip"
	"github.com/routesrv/routesrv/table"
)

// checkEvery is how many routes are parsed between two checks of the context.
const checkEvery = 100

// Tables is [Diff] for two tables; a may be nil. It parses only routes whose texts differ, the first ones up to a limit, by id; the
// others are only counted. 0 means no limit. It keeps only routes that differ in meaning: the parsed routes of two tables would use
// hundreds of megabytes, and most are equal. The error comes from ctx or names a route that does not parse.
func Tables(ctx context.Context, a, b *table.Table, limit int) (Report, error) {
	var before table.List
	if a != nil {
		before = a.Routes()
	}
	var onlyA, onlyB []*eskip.Route
	var beyond Counts
	n, same := 0, before.Len()
	for was, is := range table.Changes(before, b.Routes()) {
		if n%checkEvery == 0 && ctx.Err() != nil {
			return Report{}, ctx.Err()
		}
		if was != nil {
			same--
		}
		if n++; limit > 0 && n > limit {
			beyond.add(kindOf(was, is), 1)
			continue
		}
		x, err := parsed(was)
		if err != nil {
			return Report{}, err
		}
		y, err := parsed(is)
		if err != nil {
			return Report{}, err
		}
		if x != nil && y != nil && eskip.Equivalent(x, y) {
			same++
			continue // only the spelling differs
		}
		if x != nil {
			onlyA = append(onlyA, x)
		}
		if y != nil {
			onlyB = append(onlyB, y)
		}
	}
	r := Diff(onlyA, onlyB)
	r.A, r.B = before.Len(), b.Len()
	r.Equal += same
	r.Beyond = beyond
	return r, nil
}

// kindOf returns the kind of a difference that is not examined.
func kindOf(was, is *table.Route) Kind {
	switch {
	case was == nil:
		return Extra
	case is == nil:
		return Missing
	}
	return Changed
}

// parsed parses a route of a table, nil for none.
func parsed(r *table.Route) (*eskip.Route, error) {
	if r == nil {
		return nil, nil
	}
	routes, err := eskip.Parse(r.Text)
	if err == nil && len(routes) != 1 {
		err = fmt.Errorf("%d routes in one line", len(routes))
	}
	if err != nil {
		return nil, fmt.Errorf("route %s: %w", r.ID, err)
	}
	return routes[0], nil
}
