package publish

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/routesrv/routesrv/guard"
	"github.com/routesrv/routesrv/table"
)

// holder is a keeper where only tables are known.
type holder struct{ keeper }

func newHolder(t *testing.T, cfg guard.Config) *holder {
	t.Helper()
	k, err := newKeeper(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return &holder{k}
}

// verdict says whether a table is served, and what is held. A release has both.
type verdict struct {
	Reason           guard.Code
	Detail           string
	Since, ReleaseAt time.Time
	publish          bool
}

func (h *holder) offer(served, candidate *table.Table, now time.Time) verdict {
	o, _, due := h.judge(served, candidate, now)
	if o == nil {
		return verdict{publish: true}
	}
	return verdict{o.Reason, o.Detail, o.Since, o.Until, due}
}

func (h *holder) accept(a Acceptance, now time.Time) (*table.Table, error) {
	if err := h.accepts(a); err != nil {
		return nil, err
	}
	t := h.newest.Table
	h.released(h.list, t, &a)
	h.list, h.newest, h.reads = nil, nil, 0
	return t, nil
}

func (h *holder) state() State { return h.keeper.state() }

// run is a holder with the table that is served.
type run struct {
	t      *testing.T
	guard  *holder
	served *table.Table
	now    time.Time
}

func newRun(t *testing.T, cfg guard.Config, served []string) *run {
	t.Helper()
	return &run{t: t, guard: newHolder(t, cfg), served: newTable(t, served...), now: startTime}
}

// read judges a table some time after the previous one, and serves it if the guard allows that.
func (r *run) read(after time.Duration, routes ...string) verdict {
	r.t.Helper()
	return r.judge(after, newTable(r.t, routes...))
}

func (r *run) judge(after time.Duration, candidate *table.Table) verdict {
	r.now = r.now.Add(after)
	v := r.guard.offer(r.served, candidate, r.now)
	if v.publish {
		r.served = candidate
	}
	return v
}

func (r *run) wants(v verdict, want guard.Code) {
	r.t.Helper()
	if v.Reason != want || v.publish != (want == "") {
		r.t.Fatalf("got publish %v, reason %q, detail %q; want reason %q", v.publish, v.Reason, v.Detail, want)
	}
}

func join(parts ...definitions) definitions { return slices.Concat(parts...) }

// of returns the ids of the routes from to to-1 of Ingresses in a namespace.
func of(namespace string, from, to int) (ids []string) {
	for i := from; i < to; i++ {
		ids = append(ids, fmt.Sprintf("kube_%s__i%d__%s_org____s", namespace, i, namespace))
	}
	return ids
}
