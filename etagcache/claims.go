package etagcache

import (
	"net/netip"
	"sync"
)

// Bounds on what is remembered of revisions that clients name. The fleet names one or two at a time; the rest are
// made up.
const (
	maxClaims          = 256
	maxClaimsPerClient = 4 // so that one client cannot push out what the others claim
)

// claims remembers the revisions that clients have named and this replica has not seen. Each is judged by itself:
// what one client names does not change the answer to another that names something else.
type claims struct {
	mu      sync.Mutex
	byValue map[uint64]*claim
	order   uint64 // of the next claim
}

type claim struct {
	revision uint64
	client   netip.Addr // that made it
	seq      uint64     // the last poll that had started by then
	order    uint64
	refuted  bool
}

// ask records the claim of a revision, unless it is known, and says whether it is refuted or new. started is the
// number of the last poll that has started.
func (c *claims) ask(revision uint64, client netip.Addr, started uint64) (refuted, isNew bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if known, ok := c.byValue[revision]; ok {
		return known.refuted, false
	}
	c.makeRoom(client)
	if c.byValue == nil {
		c.byValue = make(map[uint64]*claim)
	}
	c.byValue[revision] = &claim{revision: revision, client: client, seq: started, order: c.order}
	c.order++
	return false, true
}

// makeRoom forgets a claim if client or everybody together has too many: of the client's own the oldest, else the oldest
// that is refuted, else the oldest. A claim that is forgotten is made again by the next request that names it.
func (c *claims) makeRoom(client netip.Addr) {
	var own, refuted, oldest *claim
	count := 0
	older := func(a, b *claim) *claim {
		if a == nil || b.order < a.order {
			return b
		}
		return a
	}
	for _, known := range c.byValue {
		if known.client == client {
			count++
			own = older(own, known)
		}
		if known.refuted {
			refuted = older(refuted, known)
		}
		oldest = older(oldest, known)
	}
	switch {
	case count >= maxClaimsPerClient:
		delete(c.byValue, own.revision)
	case len(c.byValue) < maxClaims:
	case refuted != nil:
		delete(c.byValue, refuted.revision)
	default:
		delete(c.byValue, oldest.revision)
	}
}

// complete judges the claims by the poll seq, which found the source at revision source. Claims that the read revision
// has reached are forgotten. It returns how many are refuted now and were not before.
func (c *claims) complete(seq, source, read uint64) (refuted int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for revision, known := range c.byValue {
		switch {
		case revision <= read:
			delete(c.byValue, revision)
		case seq > known.seq:
			// Only a poll that started after the claim can refute it: one that was under way may have read the source
			// before the claimed table existed.
			if source < revision && !known.refuted {
				refuted++
			}
			known.refuted = source < revision
		}
	}
	return refuted
}

func (c *claims) len() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.byValue)
}
