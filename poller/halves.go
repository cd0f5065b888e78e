package poller

import (
	"slices"

	"github.com/routesrv/routesrv/guard"
	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/table"
)

// Halves makes tables of halves of different snapshots. With it, a hold keeps the half that is to blame and the other one
// goes on. Its methods are called by [Poller.Run] only.
type Halves interface {
	// Compile gives the routes of an intent with backends. The lane says which of the few tables this is that are made of
	// one read, so that the next read costs what differs; they share what they can with base, the table that is served.
	Compile(lane Lane, i *kube.Intent, b *kube.Backends, base table.List) table.List
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

// halves is what the served table is made of, and what waits. Guarded by publishing.
type halves struct {
	intent   *kube.Intent // nil if it is not known, as of a table from a checkpoint
	backends *kube.Backends

	held  *kube.Snapshot // of the table that the guard holds; nil if it holds none
	half  guard.Half
	first *table.Table   // of the held intent
	shown []*table.Table // of it, the newest last
	told  []table.Digest // of older ones, the newest last
}

// goOn serves what can be served of a read whose table is held back, and gives the half that is held. The caller holds
// publishing.
//
// The candidate is suspicious; which half is to blame is found out with tables that change one half only. If the served
// intent with the newest backends is fine, it is the intent. If not, services have lost their endpoints: these keep them.
func (p *Poller) goOn(s *kube.Snapshot, seen table.Read) guard.Half {
	h := &p.halves
	if p.cfg.Halves == nil || h.intent == nil || p.served == nil {
		return guard.WholeTable
	}
	var used [lanes]bool
	defer func() {
		for lane := range lanes {
			if !used[lane] {
				p.cfg.Halves.Drop(lane)
			}
		}
	}()
	try := func(lane Lane, i *kube.Intent, b *kube.Backends) (*table.Table, guard.Code) {
		used[lane] = true
		t := p.tableOf(p.cfg.Halves.Compile(lane, i, b, p.served.Routes()), seen)
		return t, p.cfg.Guard.Inspect(p.served, t)
	}
	sameIntent := h.intent.SameAs(&s.Intent)
	if !sameIntent {
		if t, code := try(OldIntent, h.intent, &s.Backends); !isLoss(code) {
			p.serveHalves(t, h.intent, &s.Backends)
			return guard.HeldIntent
		}
	}
	kept := p.cfg.Halves.Keep(h.backends, &s.Backends)
	if t, code := try(OldBackends, &s.Intent, kept); code == "" || sameIntent && !isLoss(code) {
		p.serveHalves(t, &s.Intent, kept)
		return guard.HeldBackends
	}
	if t, code := try(OldBoth, h.intent, kept); !isLoss(code) {
		p.serveHalves(t, h.intent, kept)
		return guard.HeldBoth
	}
	return guard.WholeTable
}

// isLoss reports whether endpoints can be to blame. The ceilings are about what teams ask for: endpoints alone pass them.
func isLoss(c guard.Code) bool {
	return c != "" && c != guard.TooManyRoutes && c != guard.TooLarge
}

// tableOf makes a table of the read; the served one if that is the same.
func (p *Poller) tableOf(routes table.List, seen table.Read) *table.Table {
	if slices.Equal(routes.Blocks(), p.served.Routes().Blocks()) {
		return p.served
	}
	t := p.served.Next(routes, seen.Newest, seen.At)
	if t.Equal(p.served) {
		return p.served
	}
	return t
}

// serveHalves serves a table while another one is held back. The caller holds publishing.
func (p *Poller) serveHalves(t *table.Table, i *kube.Intent, b *kube.Backends) {
	if t != p.served {
		p.publish(t, p.cfg.PublishHeld)
	}
	p.halves.intent, p.halves.backends = i, b
}

// holds notes which snapshot is held back and which half of it, and gives the half before. The caller holds publishing.
func (p *Poller) holds(s *kube.Snapshot, half guard.Half) (before guard.Half) {
	h := &p.halves
	if h.held == nil || h.half != half || !h.held.Intent.SameAs(&s.Intent) {
		h.first, h.shown, h.told = p.candidate, nil, nil
	}
	before, h.held, h.half = h.half, s, half
	h.show(p.candidate)
	p.setHold(half, h.first)
	return before
}

// show notes a table of the held intent.
func (h *halves) show(t *table.Table) {
	if n := len(h.shown); n > 0 && h.shown[n-1].Equal(t) {
		return
	}
	if h.shown = append(h.shown, t); len(h.shown) <= maxAnyDigest {
		return
	}
	if oldest := h.shown[0]; oldest.Hashed() {
		h.told = append(h.told, oldest.Digest())
	}
	h.shown = slices.Delete(h.shown, 0, 1)
	if len(h.told) > maxShown-maxAnyDigest {
		h.told = slices.Delete(h.told, 0, 1)
	}
}

// isOfHeld reports whether the digest is that of a table of the held intent.
func (h *halves) isOfHeld(d table.Digest) bool {
	if slices.Contains(h.told, d) {
		return true
	}
	all := h.shown
	if h.first != nil {
		all = append([]*table.Table{h.first}, all...)
	}
	is := func(t *table.Table) bool { return t.Digest() == d }
	hashed := func(t *table.Table) bool { return t.Hashed() && is(t) } // first: it costs nothing
	return slices.ContainsFunc(all, hashed) || slices.ContainsFunc(all, is)
}

// servesAll notes of which snapshot the table is that is served now, whole. The caller holds publishing.
func (p *Poller) servesAll(s *kube.Snapshot) {
	p.halves = halves{}
	if s != nil {
		p.halves.intent, p.halves.backends = &s.Intent, &s.Backends
	}
	p.setHold("", nil)
}

func (p *Poller) setHold(half guard.Half, first *table.Table) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.half, p.first = half, first
}

// Guard gives the state of the guard, and what its hold keeps.
func (p *Poller) Guard() guard.State {
	s := p.cfg.Guard.State()
	p.mu.Lock()
	half, first := p.half, p.first
	p.mu.Unlock()
	switch {
	case s.Held && half == "":
		return guard.State{Last: s.Last} // the hold begins: what it keeps is being found out
	case s.Held:
		s.Half, s.FirstDigest = half, first.Digest()
	}
	return s
}

// acceptable gives the digest to ask the guard for: the newest table of the held intent, if that of an earlier one is
// given. Endpoints change while somebody reads a status, and he has not looked at them. The caller holds publishing.
func (p *Poller) acceptable(d table.Digest) table.Digest {
	if d.IsZero() || !p.halves.isOfHeld(d) {
		return d
	}
	return p.cfg.Guard.State().Digest
}
