package publish

import (
	"slices"
	"testing"
	"time"

	"github.com/routesrv/routesrv/guard"
	"github.com/routesrv/routesrv/table"
)

// heldTables is a holder with what it holds, where only tables are known.
type heldTables struct {
	holder
	standing
}

func newHeldTables(t *testing.T, cfg guard.Config) *heldTables {
	t.Helper()
	h, err := newHolder(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return &heldTables{holder: h}
}

// verdict says whether a table is served, and what is held. A release has both.
type verdict struct {
	Reason           guard.Code
	Detail           string
	Since, ReleaseAt time.Time
	publish          bool
}

func (h *heldTables) offer(served, candidate *table.Table, now time.Time) verdict {
	held, _, due := h.holdTable(h.list, h.judge(served, candidate, h.list, false, now), now)
	h.standing = standing{list: held, newest: &Candidate{Table: candidate}, last: h.last}
	if len(due) > 0 {
		h.last = releaseOf(decisionTo(due, candidate, nil))
		h.guard.Forgive(candidate)
		k := due.foremost()
		return verdict{k.Reason, k.Detail, k.Since, k.Until, true}
	}
	if len(held) == 0 {
		return verdict{publish: true}
	}
	k := held.foremost()
	return verdict{k.Reason, k.Detail, h.state().Since, h.state().ReleaseAt, false}
}

func (h *heldTables) accept(a Acceptance) (*table.Table, error) {
	if err := h.accepts(a); err != nil {
		return nil, err
	}
	t := h.newest.Table
	h.guard.Forgive(t)
	h.standing = standing{last: releaseOf(decisionTo(h.list, t, &a))}
	return t, nil
}

// run is heldTables with the table that is served.
type run struct {
	t      *testing.T
	guard  *heldTables
	served *table.Table
	now    time.Time
}

func newRun(t *testing.T, cfg guard.Config, served []string) *run {
	t.Helper()
	return &run{t: t, guard: newHeldTables(t, cfg), served: newTable(t, served...), now: startTime}
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
