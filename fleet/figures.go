package fleet

import (
	"time"
	"unique"
)

// figures stores [Figures] in a quarter of the memory.
type figures struct {
	read       int64
	lastApply  int64 // 0 for none
	values     [figureCount]uint64
	refusedNew uint64
	refused    *refusal // nil for none
	has        uint8    // one bit for each value
}

// figureCount is the number of counters in Figures.
const figureCount = 5

// refusal is how many routes a proxy has refused for a reason.
type refusal struct {
	reason unique.Handle[string]
	routes uint64
	next   *refusal
}

// counters returns pointers to the counters of f.
func (f *Figures) counters() [figureCount]**uint64 {
	return [figureCount]**uint64{&f.Requests, &f.Errors, &f.NoRoute, &f.Routes, &f.Updates}
}

// keepFigures returns the compact form of f, read at the given time.
func keepFigures(f *Figures, read time.Time) *figures {
	kept := &figures{read: read.UnixNano(), refusedNew: f.RefusedNew}
	if !f.LastApply.IsZero() {
		kept.lastApply = f.LastApply.UnixNano()
	}
	for i, value := range f.counters() {
		if *value != nil {
			kept.values[i] = **value
			kept.has |= 1 << i
		}
	}
	for reason, n := range f.Refused {
		kept.refused = &refusal{unique.Make(reason), n, kept.refused}
	}
	return kept
}

// show returns the public form.
func (kept *figures) show() *Figures {
	f := &Figures{Time: timeOf(kept.read), RefusedNew: kept.refusedNew}
	if kept.lastApply != 0 {
		f.LastApply = timeOf(kept.lastApply)
	}
	for i, value := range f.counters() {
		if kept.has&(1<<i) != 0 {
			n := kept.values[i]
			*value = &n
		}
	}
	for r := kept.refused; r != nil; r = r.next {
		if f.Refused == nil {
			f.Refused = make(map[string]uint64)
		}
		f.Refused[r.reason.Value()] = r.routes
	}
	return f
}
