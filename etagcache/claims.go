package etagcache

import (
	"net/netip"
	"sync"

	"github.com/routesrv/routesrv/table"
)

// Limits on remembered tables that clients name. The fleet names a few at a time; more must be invented.
const (
	maxClaims          = 256
	maxClaimsPerClient = 4 // so that one client cannot displace the claims of others
)

// claims remembers the tables that clients have named and that may be newer than this replica's. Each is judged separately: a
// table that one client names does not change the answer to a client that names another one.
type claims struct {
	mu      sync.Mutex
	byValue map[claimed]*claim
	order   uint64 // of the next claim
}

// claimed is a table that a client says it has. The digest is part of it: after etcd was restored, the same revisions are
// assigned to other tables.
type claimed struct {
	digest   table.Digest
	revision uint64
}

type claim struct {
	claimed
	client   netip.Addr // the client that made the claim
	seq      uint64     // the last poll that had started at that time
	order    uint64
	refuted  bool
	resolved bool   // by Cache.Resolve
	as       uint64 // the revision of the table that resolved it
}

// ask records the claim unless it is known, and returns its entry and whether it is new. started is the number of the last poll
// that has started.
func (c *claims) ask(what claimed, client netip.Addr, started uint64) (known claim, isNew bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if known, ok := c.byValue[what]; ok {
		return *known, false
	}
	c.makeRoom(client)
	if c.byValue == nil {
		c.byValue = make(map[claimed]*claim)
	}
	made := &claim{claimed: what, client: client, seq: started, order: c.order}
	c.byValue[what] = made
	c.order++
	return *made, true
}

// makeRoom forgets a claim if the client or all clients together have too many: the client's oldest, else the oldest refuted one,
// else the oldest. A forgotten claim is made again by the next request that names its table.
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
		delete(c.byValue, own.claimed)
	case len(c.byValue) < maxClaims:
	case refuted != nil:
		delete(c.byValue, refuted.claimed)
	default:
		delete(c.byValue, oldest.claimed)
	}
}

// judge judges the claims by the poll seq, and forgets those that it answers: requests that name them then get the table. It
// returns how many claims are newly refuted.
func (c *claims) judge(seq uint64, r table.Read) (refuted int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for what, known := range c.byValue {
		reached := what.revision <= r.Oldest
		switch {
		case reached && (!r.Held && !r.Waiting || r.Live && (r.Candidate == nil || what.digest != r.Candidate.Digest())):
			delete(c.byValue, what)
		case known.resolved:
		case seq <= known.seq:
			// A poll that was in progress may have read the source before the claimed table existed.
		case reached:
			known.refuted = false
		case r.Consistent && !known.refuted:
			// Only a consistent read refutes: a cache may still be older.
			known.refuted = true
			refuted++
		}
	}
	return refuted
}

func (c *claims) len() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.byValue)
}
