package gate

import (
	"slices"

	"github.com/routesrv/routesrv/guard"
	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/table"
)

// Halves compiles tables from halves of different snapshots. With it, a hold keeps only the suspicious half and updates the other
// one. The Gate calls its methods only during an offer.
type Halves interface {
	// CompileHalves returns the routes of an intent with backends. The lane identifies which of the tables made from one read
	// this is, so that the next read costs only the difference. The routes share what they can with base, the served table.
	CompileHalves(lane Lane, i *kube.Intent, b *kube.Backends, base table.List) table.List
	// Keep returns the newest backends, except that services that have lost all endpoints keep their previous ones, without the
	// addresses that by now belong to another service.
	Keep(before, now *kube.Backends) *kube.Backends
	// Drop frees a lane until it is compiled again.
	Drop(lane Lane)
}

// Lane identifies a table that is compiled from a read in addition to the candidate.
type Lane int

// The lanes, named by the half that is old.
const (
	OldIntent Lane = iota
	OldBackends
	OldBoth
	lanes
)

// Limits on the tables of one held intent that can be accepted by digest. With a read every three seconds, maxShown covers almost
// an hour. The last maxAnyDigest tables are kept, so that all their digests are accepted. Of older tables, only the digests that
// were requested from this process are kept.
const (
	maxShown     = 1024
	maxAnyDigest = 64
)

// parts holds the parts of the served table, and of the held one. Guarded by mu of the Gate.
type parts struct {
	intent   *kube.Intent // nil if unknown, as for a table from a file
	backends *kube.Backends

	waits *kube.Snapshot // snapshot of the held table; nil if none is held, or only tables are known
	half  guard.Half
	first *table.Table   // first table of the held intent
	shown []*table.Table // its tables, the newest last
	told  []table.Digest // digests of older ones, the newest last
}

// goOn returns what can be served of a read whose table is held back, with its halves, and the half that is held. Without a table
// the served one stays. The caller holds mu.
//
// The candidate is suspicious. To find the suspicious half, goOn compiles tables that change only one half. If the served intent
// with the newest backends passes, the intent is suspicious. Otherwise services have lost their endpoints, and keep them.
func (g *Gate) goOn(c Candidate) (Candidate, guard.Half) {
	p, s := &g.parts, c.Snapshot
	if g.cfg.Halves == nil || s == nil || p.intent == nil || g.Table() == nil {
		return Candidate{}, guard.WholeTable
	}
	var used [lanes]bool
	defer func() { g.dropLanes(used[:]) }()
	try := func(lane Lane, i *kube.Intent, b *kube.Backends) (Candidate, guard.Code) {
		used[lane] = true
		t := g.tableOf(g.cfg.Halves.CompileHalves(lane, i, b, g.Table().Routes()), c.Read)
		made := c
		made.Table, made.Snapshot = t, &kube.Snapshot{Intent: *i, Backends: *b}
		return made, g.guard.Inspect(g.Table(), t)
	}
	sameIntent := p.intent.SameAs(&s.Intent)
	if !sameIntent {
		if made, code := try(OldIntent, p.intent, &s.Backends); !isLoss(code) {
			return made, guard.HeldIntent
		}
	}
	kept := g.cfg.Halves.Keep(p.backends, &s.Backends)
	// What is missing with kept backends and the served intent cannot be kept: addresses that belong to other services by now.
	if made, code := try(OldBackends, &s.Intent, kept); code == "" || sameIntent && (!isLoss(code) || code == guard.BackendsLost) {
		return made, guard.HeldBackends
	}
	if made, code := try(OldBoth, p.intent, kept); !isLoss(code) || code == guard.BackendsLost {
		return made, guard.HeldBoth
	}
	return Candidate{}, guard.WholeTable
}

// dropLanes frees the lanes that were not used; nil means all.
func (g *Gate) dropLanes(used []bool) {
	for lane := range lanes {
		if g.cfg.Halves != nil && (used == nil || !used[lane]) {
			g.cfg.Halves.Drop(lane)
		}
	}
}

// isLoss reports whether endpoints can be the reason. The ceilings concern the intent: endpoints alone never exceed them.
func isLoss(c guard.Code) bool {
	return c != "" && c != guard.TooManyRoutes && c != guard.TooLarge
}

// tableOf returns the table of the read, which is the served one if they are equal.
func (g *Gate) tableOf(routes table.List, seen table.Read) *table.Table {
	served := g.Table()
	if slices.Equal(routes.Blocks(), served.Routes().Blocks()) {
		return served
	}
	t := served.Next(routes, seen.Newest, seen.At)
	if t.Equal(served) {
		return served
	}
	return t
}

// holds records which snapshot and which half of it are held, and reports whether the half has changed. The caller holds mu.
func (g *Gate) holds(c Candidate, half guard.Half) (changed bool) {
	p := &g.parts
	same := p.half == half && c.Snapshot != nil && p.waits != nil && p.waits.Intent.SameAs(&c.Snapshot.Intent)
	if !same {
		p.first, p.shown, p.told = c.Table, nil, nil
	}
	changed, p.waits, p.half = p.half != half, c.Snapshot, half
	p.show(c.Table)
	g.setHalf(half, p.first)
	return changed
}

// show records a table of the held intent.
func (p *parts) show(t *table.Table) {
	if n := len(p.shown); n > 0 && p.shown[n-1].Equal(t) {
		return
	}
	if p.shown = append(p.shown, t); len(p.shown) <= maxAnyDigest {
		return
	}
	if oldest := p.shown[0]; oldest.Hashed() {
		p.told = append(p.told, oldest.Digest())
	}
	p.shown = slices.Delete(p.shown, 0, 1)
	if len(p.told) > maxShown-maxAnyDigest {
		p.told = slices.Delete(p.told, 0, 1)
	}
}

// isOfHeld reports whether the digest belongs to a table of the held intent.
func (p *parts) isOfHeld(d table.Digest) bool {
	if slices.Contains(p.told, d) {
		return true
	}
	all := p.shown
	if p.first != nil {
		all = append([]*table.Table{p.first}, all...)
	}
	is := func(t *table.Table) bool { return t.Digest() == d }
	hashed := func(t *table.Table) bool { return t.Hashed() && is(t) } // checked first: costs nothing
	return slices.ContainsFunc(all, hashed) || slices.ContainsFunc(all, is)
}

// servesAll records that the served table is the complete table of the snapshot. The caller holds mu.
func (g *Gate) servesAll(s *kube.Snapshot) {
	g.parts = parts{}
	if s != nil {
		g.parts.intent, g.parts.backends = &s.Intent, &s.Backends
	}
	g.setHalf("", nil)
}

func (g *Gate) setHalf(half guard.Half, first *table.Table) {
	g.state.Lock()
	defer g.state.Unlock()
	g.half, g.first = half, first
}

// acceptable returns the digest to pass to the guard: the newest table of the held intent, if d is one of an earlier table. The
// caller holds mu.
func (g *Gate) acceptable(d table.Digest) table.Digest {
	if d.IsZero() || !g.parts.isOfHeld(d) {
		return d
	}
	return g.guard.State().Digest
}
