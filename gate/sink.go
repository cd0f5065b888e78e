package gate

import (
	"time"

	"github.com/routesrv/routesrv/table"
)

// Each returns a Sink that calls f for each table that is served from now on, one call at a time. It is for a program that
// has no cache. A table of the last-good file is stale, and f does not get it.
func Each(f func(*table.Table)) Sink { return &each{f: f} }

type each struct {
	f    func(*table.Table)
	last *table.Table // guarded by the Gate, which makes one call at a time
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
