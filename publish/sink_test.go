package publish

import (
	"time"

	"github.com/routesrv/routesrv/table"
)

// Each returns a Sink that calls f for each newly served table, one call at a time. f does not receive the table of a last-known-good
// file, which is stale.
func Each(f func(*table.Table)) Sink { return &each{f: f} }

type each struct {
	f    func(*table.Table)
	last *table.Table // guarded by the Publisher, which makes one call at a time
}

func (e *each) Restore(t *table.Table, _ time.Time) { e.last = t }

func (e *each) Publish(t *table.Table) {
	if e.last == nil || e.last.Digest() != t.Digest() {
		e.f(t)
	}
	e.last = t
}

func (e *each) Begin() (end func(*table.Table, table.Read)) {
	return func(t *table.Table, _ table.Read) {
		if t != nil {
			e.Publish(t)
		}
	}
}
