package publish

import (
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/routesrv/routesrv/eskip"
	"github.com/routesrv/routesrv/internal/series"
	"github.com/routesrv/routesrv/table"
)

// Budget is a [Sink] before another one that reduces the number of changes for proxies. A proxy that receives one changed route parses the
// whole table and rebuilds its matcher, so constant changes of endpoints keep every proxy busy. Most of these changes can wait: a
// route that already has endpoints does not suffer if one more arrives half a minute later.
//
// A change is lazy if it only adds endpoints to routes that already have some. It waits, together with other lazy changes, until
// the limit has passed since the first of them. Every other change is urgent: an endpoint was removed or is no longer ready, a
// route loses its last endpoint or gets its first, or a team changed an object. An urgent change is served at once, together with
// the lazy changes that wait.
//
// A waiting table has passed the guard, so the last-known-good file has it, and a restarted process serves it at once. While a
// table waits, the cache knows that the served table is not the newest content of the source (table.Read.Waiting). A client
// that received the newer one from another replica therefore keeps it: guarantee Monotonic.
//
// It is safe for concurrent use.
type Budget struct {
	sink    Sink
	limit   time.Duration
	changes *prometheus.CounterVec

	mu      sync.Mutex
	served  *table.Table // the table that the sink serves; nil if there is none, or if no read has confirmed it
	waiting *table.Table // nil if no table waits
	due     time.Time    // when waiting must be served
}

// NewBudget returns a Budget before a sink. A lazy change waits for up to the limit. reg may be nil.
func NewBudget(sink Sink, limit time.Duration, reg prometheus.Registerer) *Budget {
	b := &Budget{sink: sink, limit: limit, changes: series.In(reg).Counters("routesrv_endpoint_debounce_changes_total",
		"Changed tables: urgent ones are served at once, lazy ones only add endpoints and may wait (--endpoint-debounce).", "kind", "urgent", "lazy")}
	promauto.With(reg).NewGaugeFunc(prometheus.GaugeOpts{
		Name: "routesrv_endpoint_debounce_waiting",
		Help: "1 while a table waits for --endpoint-debounce.",
	}, func() float64 {
		b.mu.Lock()
		defer b.mu.Unlock()
		return series.Bool(b.waiting != nil)
	})
	return b
}

// Restore serves a table from the last-known-good file. The first table of a read is then served at once, whatever it changes.
func (b *Budget) Restore(t *table.Table, read time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.served, b.waiting = nil, nil
	b.sink.Restore(t, read)
}

// Publish serves an accepted table at once.
func (b *Budget) Publish(t *table.Table) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.served, b.waiting = t, nil
	b.sink.Publish(t)
}

// Begin reports the start of a read. Call the returned function with its result.
func (b *Budget) Begin() (end func(t *table.Table, r table.Read)) {
	inner := b.sink.Begin()
	return func(t *table.Table, r table.Read) {
		b.mu.Lock()
		defer b.mu.Unlock()
		switch {
		case t == nil:
		case r.Stale || b.served == nil || t.Equal(b.served): // Equal compares blocks, because a waiting table is not hashed
			b.served, b.waiting = t, nil // a waiting change, if any, was undone
		case b.mayWait(t):
			b.wait(t)
			r.Waiting, r.Live = true, false
			t = nil
		default:
			b.changes.WithLabelValues("urgent").Inc()
			b.served, b.waiting = t, nil
		}
		inner(t, r)
	}
}

// mayWait reports whether a table may wait.
func (b *Budget) mayWait(t *table.Table) bool {
	return b.waiting != nil && b.waiting.Equal(t) || onlyAddsEndpoints(b.served.Routes(), t.Routes())
}

// wait delays a table until the waiting changes are due, or for the limit if none waits.
func (b *Budget) wait(t *table.Table) {
	if b.waiting == nil {
		b.due = time.Now().Add(b.limit)
		time.AfterFunc(b.limit, b.serveDue) // later than the end of the process, the next one has it in the last-known-good file
	}
	if b.waiting == nil || !b.waiting.Equal(t) {
		b.changes.WithLabelValues("lazy").Inc()
	}
	b.waiting = t
}

// serveDue serves the waiting table, unless the timer belongs to an earlier one.
func (b *Budget) serveDue() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.waiting == nil || time.Now().Before(b.due) {
		return
	}
	b.served, b.waiting = b.waiting, nil
	b.sink.Publish(b.served)
}

// maxParsed is how many changed routes are compared. A larger change is treated as urgent.
const maxParsed = 2000

// onlyAddsEndpoints reports whether two lists differ only in that routes with endpoints have additional endpoints. It returns
// false if the set of ids, or a predicate, filter, algorithm or the zone of an endpoint differs. The cost depends on the blocks
// that the lists do not share.
func onlyAddsEndpoints(before, after table.List) bool {
	n := 0
	for was, is := range table.Changes(before, after) {
		if n++; was == nil || is == nil || n > maxParsed || !addsEndpoints(was, is) {
			return false
		}
	}
	return n > 0
}

// addsEndpoints compares two states of a route.
func addsEndpoints(before, after *table.Route) bool {
	was, wasErr := before.Parse()
	is, isErr := after.Parse()
	if wasErr != nil || isErr != nil || is.BackendType != eskip.LBBackend {
		return false
	}
	switch {
	case was.BackendType == eskip.LBBackend && len(was.LBEndpoints) > 0:
		has := make(map[eskip.LBEndpoint]bool, len(is.LBEndpoints))
		for _, e := range is.LBEndpoints {
			has[*e] = true
		}
		if slices.ContainsFunc(was.LBEndpoints, func(e *eskip.LBEndpoint) bool { return !has[*e] }) {
			return false
		}
	case was.BackendType == eskip.NetworkBackend && !was.Shunt:
		// A route with one endpoint is printed without an algorithm and without the zone.
		if !slices.ContainsFunc(is.LBEndpoints, func(e *eskip.LBEndpoint) bool { return e.Address == was.Backend }) {
			return false
		}
		was.LBAlgorithm = is.LBAlgorithm
	default:
		return false
	}
	for _, r := range []*eskip.Route{was, is} {
		r.BackendType, r.Backend, r.LBEndpoints = eskip.LBBackend, "", nil
	}
	return reflect.DeepEqual(was, is)
}
