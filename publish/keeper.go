package publish

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/routesrv/routesrv/guard"
	"github.com/routesrv/routesrv/internal/api"
	"github.com/routesrv/routesrv/table"
)

// keeper has the list of what waits, and the rules of when an entry ends. A Publisher has one, and so has each move of a [Switch].
type keeper struct {
	guard  *guard.Guard  // set by newKeeper, read only
	hold   time.Duration // likewise: how long an entry waits
	manual bool          // likewise: time releases nothing

	list   keptList
	digest table.Digest // names the objects of the list: that of their names when one was last added
	newest *Candidate   // the newest table, if anything of it waits; nil until this process has read one
	reads  int          // judgements of this process with entries
	last   *api.Decision
}

func newKeeper(cfg guard.Config) (keeper, error) {
	judge, err := guard.New(cfg)
	if err != nil {
		return keeper{}, fmt.Errorf("guard: %w", err)
	}
	return keeper{guard: judge, hold: cmp.Or(cfg.Hold, guard.DefaultHold), manual: cfg.Manual}, nil
}

// takeOver goes on with what another process has kept.
func (k *keeper) takeOver(list keptList, now time.Time) {
	k.list = nil
	for _, was := range list {
		o := *was
		if o.Since.After(now) { // the clock was set back
			o.Since = now
		}
		if o.From.After(now) {
			o.From = now
		} else if o.From.Before(o.Since) {
			o.From = o.Since
		}
		k.list = append(k.list, &o)
	}
	k.digest = k.list.objects().waiting().digest()
}

// judge compares a table with the served one where only tables are known. It returns the entry with which the table waits, or is released now
// (due); nil if nothing speaks against it. fresh is as of judgeTable.
func (k *keeper) judge(served, t *table.Table, now time.Time) (o *Kept, fresh, due bool) {
	loss := k.guard.Judge(served, t, k.list.held(), now)
	switch o, fresh, due = k.judgeTable(loss, now); {
	case o != nil && !due:
		k.list, k.newest = keptList{o}, &Candidate{Table: t}
		k.reads++
		return o, fresh, due
	case due:
		k.released(keptList{o}, t, nil)
	}
	k.list, k.newest, k.reads = nil, nil, 0
	return o, fresh, due
}

// judgeTable returns the entry of a table that can only wait as a whole: a table that is suspicious, or one that follows such a table and lacks
// something that has not come back. It is nil if nothing speaks against the table, and due is set if time releases it. fresh means that the
// entry, or a reason of it, is new.
func (k *keeper) judgeTable(loss *guard.Loss, now time.Time) (o *Kept, fresh, due bool) {
	was := k.list.table()
	if loss.Reason == "" && (was == nil || loss.Missing(was.Reasons) == 0) {
		return nil, false, false
	}
	o = &Kept{Ref: tableRef, By: keptBy, Since: now.UTC()}
	if was != nil {
		if *o = *was; k.reads == 0 {
			o.From = now.UTC() // the list may be older than the last served table, so its time must not release a later loss
		}
	}
	switch r := loss.Reason; {
	case r == "":
		o.Detail = fmt.Sprintf("%d pairs of host and path are not back yet", loss.Missing(o.Reasons))
	default:
		o.Detail = loss.Detail
		if !o.Endless || r.Endless() || !r.Loses() {
			o.Reason = r
		}
		o.Endless = o.Endless || r.Endless()
		if fresh = !slices.Contains(o.Reasons, r.Kind()); fresh {
			o.Reasons = append(slices.Clip(o.Reasons), r.Kind())
			o.From, o.Missing = now.UTC(), loss.Missing(o.Reasons) // the time of one loss does not release another
		}
	}
	if missing := loss.Missing(o.Reasons); missing < o.Missing {
		o.From, o.Returned, o.Missing = now.UTC(), true, missing
	}
	if o = k.until(o, loss.Share); reflect.DeepEqual(o, was) {
		o = was // nothing to write
	}
	return o, fresh, k.due(o, now)
}

// until returns the entry with the time at which it is released, where the newest table lacks a share of the served requests.
func (k *keeper) until(o *Kept, share float64) *Kept {
	// If nearly everything is back, the rest is not suspicious: it need not wait as long as an accident.
	settled := o.Returned && share <= guard.ReturnTolerance
	var until time.Time
	switch {
	case k.manual, o.Endless && !settled:
	case settled:
		until = o.From.Add(min(k.hold, guard.DefaultWindow))
	default:
		until = o.From.Add(k.hold)
	}
	if until.Equal(o.Until) {
		return o
	}
	next := *o
	next.Until = until
	return &next
}

// due reports whether time releases an entry now. It takes two judgements of one process.
func (k *keeper) due(o *Kept, now time.Time) bool {
	return k.reads > 0 && !o.Until.IsZero() && !now.Before(o.Until)
}

// accepts checks that an acceptance names what waits: the table, or the list of objects.
func (k *keeper) accepts(a Acceptance) error {
	kept := k.list.objects().waiting().with(k.list.table())
	if len(kept) == 0 {
		return ErrNothingHeld
	}
	refused := HeldError{Digest: k.digest, Reason: kept[0].Reason}
	if o := k.list.table(); o != nil {
		if k.newest == nil {
			return ErrNothingHeld // not read yet
		}
		refused = HeldError{Digest: k.newest.Table.Digest(), Reason: o.Reason}
	}
	switch {
	case a.Digest.IsZero():
		refused.Err = ErrNoDigest
	case a.Digest != refused.Digest:
		refused.Err = ErrNotHeld
	default:
		return nil
	}
	return &refused
}

// released records that entries are released with a table: by time, or by an operator if a is not nil. Tables that were served before no longer
// count, otherwise the next read would wait for the same loss.
func (k *keeper) released(list keptList, t *table.Table, a *Acceptance) api.Decision {
	d := decisionOf(api.DecidedReleased, t, list)
	if a != nil {
		d.What, d.By, d.Why = api.DecidedAccepted, a.By, a.Why
	}
	k.last = &d
	k.guard.Forgive(t)
	return d
}

// state returns what is held: the whole table, or objects.
func (k *keeper) state() State {
	s := State{Last: k.last}
	list, digest := k.list.objects().waiting().newestFirst(), k.digest
	if o := k.list.table(); o != nil && k.newest != nil {
		list, digest = keptList{o}, k.newest.Table.Digest() // possibly computed here for the first time
	}
	if len(list) == 0 {
		return s
	}
	s.Held, s.Digest, s.Polls, s.Reason, s.Detail = true, digest, k.reads, list[0].Reason, list[0].Detail
	s.Since, s.ReleaseAt = list.times()
	if k.newest != nil {
		t := k.newest.Table
		s.Revision, s.Routes, s.Bytes = t.Revision(), t.Len(), t.Bytes()
	}
	return s
}
