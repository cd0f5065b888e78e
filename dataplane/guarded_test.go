package dataplane_test

import (
	"fmt"
	"time"

	"github.com/routesrv/routesrv/guard"
	"github.com/routesrv/routesrv/table"
)

// modelHold is the hold of the models: short enough that scripts of a few minutes outlast it.
const modelHold = time.Minute

// servedLog is what a client has applied since it started. The models use it to check what the guard must not let pass.
type servedLog []servedTable

type servedTable struct {
	table *table.Table
	until time.Time // when the next one replaced it
}

// add records that a client serves a table from now on. It returns what is wrong with that, or "". More than half of the routes
// may be removed only in two cases: nothing else was seen since fine for the time of a hold, or the table is again one of the
// last ten minutes.
func (l *servedLog) add(tab *table.Table, fine time.Time) (wrong string) {
	var before *table.Table
	if n := len(*l); n > 0 {
		before = (*l)[n-1].table
		if before == tab {
			return ""
		}
		(*l)[n-1].until = time.Now()
		gone := missing(before, tab)
		if 2*gone > before.Len() && time.Since(fine) < modelHold && !l.returnsTo(tab) {
			wrong = fmt.Sprintf("%d of %d routes went after %v", gone, before.Len(), time.Since(fine))
		}
		if tab.Len() == 0 && before.Len() > 0 {
			wrong = "an empty table was applied"
		}
	}
	*l = append(*l, servedTable{table: tab})
	return wrong
}

// returnsTo reports whether the table has everything that a table served within the window had.
func (l servedLog) returnsTo(tab *table.Table) bool {
	for _, s := range l[:len(l)-1] {
		if time.Since(s.until) <= guard.DefaultWindow && 20*missing(s.table, tab) <= s.table.Len() {
			return true
		}
	}
	return false
}

// missing counts the routes of a table that another one lacks.
func missing(before, after *table.Table) int {
	n := 0
	for r := range before.Routes().All() {
		if after.Routes().Get(r.ID) == nil {
			n++
		}
	}
	return n
}
