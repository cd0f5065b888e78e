package etagcache

import "github.com/routesrv/routesrv/table"

// Claim is a table that a client named and that this cache cannot be sure to be as new as.
type Claim struct {
	Digest   table.Digest
	Revision uint64
}

// Claims returns the claims that nothing has decided yet, in any order. A cache whose source is another route server
// cannot decide them by the reads of a cluster: it asks that server, and tells Resolve.
func (c *Cache) Claims() []Claim {
	c.claims.mu.Lock()
	defer c.claims.mu.Unlock()
	var open []Claim
	for what, known := range c.claims.byValue {
		if !known.refuted && !known.resolved {
			open = append(open, Claim{what.digest, what.revision})
		}
	}
	return open
}

// Resolve says that the source has found its own table, which is the one with the digest and has the revision there, fit for
// a client that has the claimed one. If it is the current table, requests and streams that name the claimed one get it from now on,
// under that revision if its own is lower, and Resolve reports true.
func (c *Cache) Resolve(what Claim, fit table.Digest, revision uint64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	old := c.state.Load()
	if old.version == nil || old.version.table.Digest() != fit || !c.claims.resolve(claimed{what.Digest, what.Revision}, revision) {
		return false
	}
	next := *old
	c.swap(&next) // streams that wait for a decision look again
	return true
}

// resolve marks a claim, and reports whether there is such a one.
func (c *claims) resolve(what claimed, as uint64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	known, ok := c.byValue[what]
	if ok {
		known.resolved, known.as = true, as
	}
	return ok
}
