package publish

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/routesrv/routesrv/api"
	"github.com/routesrv/routesrv/guard"
	"github.com/routesrv/routesrv/table"
)

// holder judges tables by the rules of package guard, and decides how long a whole table is held.
type holder struct {
	guard  *guard.Guard
	hold   time.Duration // how long an entry of the guard lasts
	window time.Duration
	manual bool // entries never expire
}

func newHolder(cfg guard.Config) (holder, error) {
	judge, err := guard.New(cfg)
	if err != nil {
		return holder{}, fmt.Errorf("guard: %w", err)
	}
	return holder{judge, cmp.Or(cfg.Hold, guard.DefaultHold), cmp.Or(cfg.Window, guard.DefaultWindow), cfg.Manual}, nil
}

// until returns when an entry created now expires: never if the newest table has no routes of objects.
func (h *holder) until(reason guard.Code, now time.Time) time.Time {
	if h.manual || reason.Endless() {
		return time.Time{}
	}
	return now.UTC().Add(h.hold)
}

// judge compares a table with the served one. list is kept or held; aged means that the served table comes from a file older
// than a hold.
func (h *holder) judge(served, t *table.Table, list keptList, aged bool, now time.Time) *guard.Loss {
	since, _ := list.guarded().times()
	return h.guard.Judge(served, t, guard.Held{Since: since, Ongoing: !list.objects().accident(now, h.window).IsZero(), Aged: aged}, now)
}

// holdTable returns the entries that hold a table with a loss, and the new ones among them; or the ended ones (due). Entries
// end together: when everything is back, however little is missing, or when the last of them expires.
func (h *holder) holdTable(list keptList, loss *guard.Loss, now time.Time) (held, fresh, due keptList) {
	held = list.tables()
	var reasons []guard.Code
	for _, k := range held {
		reasons = append(reasons, k.Reason)
	}
	if loss.Reason == "" && loss.Missing(reasons) == 0 {
		return nil, nil, nil
	}
	if ref := tableRef(loss.Reason); loss.Reason != "" && !held.has(ref) {
		fresh = keptList{{
			Ref: ref, Reason: loss.Reason, Detail: loss.Detail, By: keptBy, Since: now.UTC(), Until: h.until(loss.Reason, now), Accident: now.UTC(),
		}}
		held = held.and(fresh)
	}
	if !slices.ContainsFunc(held, func(k *Kept) bool { return !k.over(now) }) {
		return nil, nil, held
	}
	return held, fresh, nil
}

// standing is the kept and held content at one moment, for readers. It is immutable.
type standing struct {
	list   keptList
	digest table.Digest // names the kept objects for an acceptance, as of the last addition
	newest *Candidate   // the newest table, if any of it is held back; nil until this process has read one
	last   *api.Release
	lost   Lost
}

// accepts checks that an acceptance names what is held: the table, or the list of objects.
func (s *standing) accepts(a Acceptance) error {
	tables, objects := s.list.tables(), s.list.objects().acceptable()
	var refused HeldError
	switch {
	case len(tables) > 0 && s.newest != nil:
		refused = HeldError{Digest: s.newest.Table.Digest(), Reason: tables.foremost().Reason}
	case len(tables) == 0 && len(objects) > 0:
		refused = HeldError{Digest: s.digest, Reason: objects[0].Reason}
	default:
		return ErrNothingHeld // possibly not read yet
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

// state returns what is held: the whole table, or objects.
func (s *standing) state() Holding {
	state := Holding{Guard: api.Guard{Last: s.last}, Lost: s.lost}
	kept := s.list.objects().acceptable().newestFirst()
	list, digest := kept, s.digest
	if tables := s.list.tables(); len(tables) > 0 && s.newest != nil {
		list, digest = tables, s.newest.Table.Digest() // possibly computed here for the first time
	}
	if len(list) == 0 {
		return state
	}
	first := list[0]
	state.Since, state.ReleaseAt = list.times()
	if first.Kind == kindTable {
		first, state.ReleaseAt = list.foremost(), list.end()
	}
	state.Held, state.Digest, state.Reason, state.Detail = true, digest, first.Reason, first.Detail
	if s.newest != nil {
		state.Revision, state.Routes = s.newest.Table.Revision(), s.newest.Table.Len()
	}
	state.KeptCount = len(kept)
	for _, k := range kept[:min(len(kept), maxKeptShown)] {
		state.Kept = append(state.Kept, api.Kept{
			Ref: k.Ref, Reason: k.Reason, Detail: k.Detail, By: k.By, Since: k.Since, Until: k.Until, Served: k.Served(), Waits: k.Waits(),
		})
	}
	return state
}

// releaseOf describes the decision that ended a hold.
func releaseOf(d api.Decision) *api.Release {
	return &api.Release{Digest: d.Digest.String(), Reason: d.Reason, At: d.Time, Accepted: d.What == api.DecidedAccepted, By: d.By, Why: d.Why}
}

// decisionTo returns the decision that ends entries with a table: by expiry, or by an operator if a is not nil.
func decisionTo(release keptList, t *table.Table, a *Acceptance) api.Decision {
	d := decisionOf(api.DecidedReleased, t, release)
	if tables := release.tables(); len(tables) > 0 {
		d.Reason = tables.foremost().Reason
	}
	if a != nil {
		d.What, d.By, d.Why = api.DecidedAccepted, a.By, a.Why
	}
	return d
}
