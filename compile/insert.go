package compile

import (
	"fmt"
	"iter"
	"maps"
	"slices"

	"github.com/routesrv/routesrv/table"
)

// insert is [table.List.With] for routes that the table may refuse: it leaves those out and returns why, by id. Each route was
// checked when it was printed, so this is the second line of defence.
func insert(list table.List, upserts []*table.Route, deletes []string) (next table.List, refused map[string]string) {
	next, why := tryWith(list, upserts, deletes)
	if why == "" {
		return next, nil
	}
	refused = make(map[string]string)
	var good []*table.Route
	seen := make(map[string]bool, len(upserts))
	for _, r := range upserts {
		_, wrong := tryWith(table.List{}.Packed(), []*table.Route{r}, nil)
		switch {
		case wrong != "":
			refused[r.ID] = wrong
			deletes = append(deletes, r.ID) // an earlier text of it does not stay either
		case seen[r.ID]:
			refused[r.ID] = "two routes of one id"
		default:
			seen[r.ID] = true
			good = append(good, r)
		}
	}
	if next, why = tryWith(list, good, deletes); why != "" {
		panic(fmt.Sprintf("compile: %s, although each route can be inserted alone", why))
	}
	return next, refused
}

// tryWith returns why a list cannot be made, "" if it can.
func tryWith(list table.List, upserts []*table.Route, deletes []string) (next table.List, why string) {
	defer func() {
		if v := recover(); v != nil {
			why = fmt.Sprintf("panic: %.200v (%s)", v, panicked())
		}
	}()
	next, err := list.With(upserts, deletes)
	if err != nil {
		return table.List{}, err.Error()
	}
	return next, ""
}

// refuse records the routes that could not be inserted, with the problem of their objects.
func (c *candidates) refuse(refused map[string]string, sections iter.Seq[*section]) {
	if len(refused) == 0 {
		return
	}
	c.contested = true
	for s := range sections {
		for i := range s.routes {
			r := &s.routes[i]
			why := refused[r.id()]
			for _, clone := range r.clones() {
				why += refused[clone.ID]
			}
			if why == "" || !c.wins(r) {
				continue
			}
			c.refused[r.id()] = Problem{
				Owner: place{s, i}.owner(), Route: r.id(), Reason: InternalError, Severity: Error,
				Message: fmt.Sprintf("route %s left out, because of a defect of routesrv: %s", r.id(), why),
			}
		}
	}
}

// refusals returns the problems of routes that could not be inserted.
func (c *candidates) refusals() []Problem {
	var problems []Problem
	for _, id := range slices.Sorted(maps.Keys(c.refused)) {
		problems = append(problems, c.refused[id])
	}
	return problems
}
