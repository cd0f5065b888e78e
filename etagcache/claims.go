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

// Claim is a table that a client named and that may be newer than this cache's table. The digest is part of it: after etcd was
// restored, the same revisions are assigned to other tables.
type Claim struct {
	Digest   table.Digest
	Revision uint64
}

// claims remembers the tables that clients have named and that may be newer than this replica's. Each is judged separately. The
// next request that names the table of a forgotten claim repeats the claim.
type claims struct {
	mu    sync.Mutex
	known recent[Claim, claim]
	// proof is the last read that bypassed all caches: it refutes claims that were made before it began and are beyond its Oldest.
	proof  uint64 // the number of the read
	oldest uint64 // the highest Oldest of that read and later ones
}

type claim struct {
	client   netip.Addr // the client that made the claim
	seq      uint64     // the last read started before the claim: it may have read the source before the table existed
	refuted  bool       // as of the proof
	resolved bool       // by Cache.Resolve
	as       uint64     // the revision of the table that resolved it
}

// get returns a claim, with refuted up to date. The caller holds mu.
func (c *claims) get(what Claim) (known claim, ok bool) {
	known, ok = c.known.byKey[what]
	known.refuted = ok && known.seq < c.proof && c.oldest < what.Revision
	return known, ok
}

// ask records the claim unless it is known, and returns its entry and whether it is new. A client has few claims at a time.
func (c *claims) ask(what Claim, client netip.Addr, started uint64) (known claim, isNew bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if known, ok := c.get(what); ok {
		return known, false
	}
	var own []Claim
	for _, one := range c.known.keys {
		if c.known.byKey[one].client == client {
			own = append(own, one)
		}
	}
	if len(own) >= maxClaimsPerClient {
		c.known.remove(own[0])
	}
	made := claim{client: client, seq: started}
	c.known.put(what, made, maxClaims)
	return made, true
}

func (c *claims) judge(seq uint64, r table.Read) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r.Consistent {
		c.proof, c.oldest = seq, r.Oldest
	}
	c.oldest = max(c.oldest, r.Oldest)
}

// forget drops all claims after the source has gone back in time. An old claim, left undecided because its table arrived, would
// never be decided otherwise, and its client would keep that table forever.
func (c *claims) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.known = recent[Claim, claim]{}
}

func (c *claims) resolve(what Claim, as uint64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	known, ok := c.known.byKey[what]
	if ok {
		known.resolved, known.as = true, as
		c.known.byKey[what] = known
	}
	return ok
}

// Claims returns the undecided claims, the oldest first. A cache whose source is another route server cannot decide them from
// reads of a cluster: its owner asks that server, and calls Resolve.
func (c *Cache) Claims() []Claim {
	st := c.state.Load()
	c.claims.mu.Lock()
	defer c.claims.mu.Unlock()
	var open []Claim
	for _, what := range c.claims.known.keys {
		if known, _ := c.claims.get(what); !known.refuted && !known.resolved && !c.notOlderThan(st, what) {
			open = append(open, what)
		}
	}
	return open
}

// Resolve reports that the source would send its table, with the given digest and revision, to a client that has the claimed one.
// If that is the current table, clients that name the claimed one get it from now on, and Resolve returns true.
func (c *Cache) Resolve(what Claim, fit table.Digest, revision uint64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	old := c.state.Load()
	if old.version == nil || old.version.table.Digest() != fit || !c.claims.resolve(what, revision) {
		return false
	}
	next := *old
	c.swap(&next) // wakes streams that wait for a decision
	return true
}
