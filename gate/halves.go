package gate

import (
	"slices"

	"github.com/routesrv/routesrv/guard"
	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/table"
)

// Halves makes tables of halves of different snapshots. With it, a hold keeps the half that is to blame and the other one
// goes on. The Gate calls its methods during an offer only.
type Halves interface {
	// CompileHalves gives the routes of an intent with backends. The lane says which of the few tables this is that are made of
	// one read, so that the next read costs what differs; they share what they can with base, the table that is served.
	CompileHalves(lane Lane, i *kube.Intent, b *kube.Backends, base table.List) table.List
	// Keep gives the newest backends, with those before for services that have lost all endpoints.
	Keep(before, now *kube.Backends) *kube.Backends
	// Drop forgets a lane until it is compiled again.
	Drop(lane Lane)
}

// Lane is one of the tables that are made of a read beside the candidate.
type Lane int

// The lanes: which of both is old.
const (
	OldIntent Lane = iota
	OldBackends
	OldBoth
	lanes
)

// Bounds on the tables of one held intent that can be accepted by their digests. With a read every three seconds maxShown
// is close to an hour. The last maxAnyDigest tables are kept, so that any digest of theirs is known, whoever told it; of those
// before only the digests that somebody has asked this process for.
const (
	maxShown     = 1024
	maxAnyDigest = 64
)

// parts is what the served table is made of, and what waits. Guarded by mu of the Gate.
type parts struct {
	intent   *kube.Intent // nil if it is not known, as of a table from a file
	backends *kube.Backends

	waits *kube.Snapshot // of the table that the guard holds; nil if it holds none, or only tables are known
	half  guard.Half
	first *table.Table   // of the held intent
	shown []*table.Table // of it, the newest last
	told  []table.Digest // of older ones, the newest last
}

// goOn makes what can be served of a read whose table is held back, with the halves that it is made of, and gives the half
// that is held. Without a table the one that is served stays. The caller holds mu.
//
// The candidate is suspicious. Which half is to blame shows in tables that change one half only. If the served intent with
// the newest backends is fine, it is the intent. If not, services have lost their endpoints: these keep them.
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
	if made, code := try(OldBackends, &s.Intent, kept); code == "" || sameIntent && !isLoss(code) {
		return made, guard.HeldBackends
	}
	if made, code := try(OldBoth, p.intent, kept); !isLoss(code) {
		return made, guard.HeldBoth
	}
	return Candidate{}, guard.WholeTable
}

// dropLanes forgets the lanes that were not used; nil for all.
func (g *Gate) dropLanes(used []bool) {
	for lane := range lanes {
		if g.cfg.Halves != nil && (used == nil || !used[lane]) {
			g.cfg.Halves.Drop(lane)
		}
	}
}

// isLoss reports whether endpoints can be to blame. The ceilings are about what teams ask for: endpoints alone pass them.
func isLoss(c guard.Code) bool {
	return c != "" && c != guard.TooManyRoutes && c != guard.TooLarge
}

// tableOf makes a table of the read; the served one if that is the same.
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

// holds notes which snapshot is held back and which half of it, and reports whether that half is another one than before.
// The caller holds mu.
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

// show notes a table of the held intent.
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

// isOfHeld reports whether the digest is that of a table of the held intent.
func (p *parts) isOfHeld(d table.Digest) bool {
	if slices.Contains(p.told, d) {
		return true
	}
	all := p.shown
	if p.first != nil {
		all = append([]*table.Table{p.first}, all...)
	}
	is := func(t *table.Table) bool { return t.Digest() == d }
	hashed := func(t *table.Table) bool { return t.Hashed() && is(t) } // first: it costs nothing
	return slices.ContainsFunc(all, hashed) || slices.ContainsFunc(all, is)
}

// servesAll notes of which snapshot the table is that is served now, whole. The caller holds mu.
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

// acceptable gives the digest to ask the guard for: the newest table of the held intent, if that of an earlier one is
// given. The caller holds mu.
func (g *Gate) acceptable(d table.Digest) table.Digest {
	if d.IsZero() || !g.parts.isOfHeld(d) {
		return d
	}
	return g.guard.State().Digest
}
