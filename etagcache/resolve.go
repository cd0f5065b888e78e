package etagcache

import "github.com/routesrv/routesrv/table"

// Claim is a table that a client named and that may be newer than this cache's table.
type Claim struct {
	Digest   table.Digest
	Revision uint64
}

// Claims returns the undecided claims, in any order. A cache whose source is another route server cannot decide them from reads
// of a cluster: its owner asks that server, and calls Resolve.
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

// Resolve reports that the source would send its own table, which has the digest and the revision there, to a client that has the
// claimed one. If that is the current table, requests and streams that name the claimed one get it from now on, with that
// revision if its own is lower, and Resolve returns true.
func (c *Cache) Resolve(what Claim, fit table.Digest, revision uint64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	old := c.state.Load()
	if old.version == nil || old.version.table.Digest() != fit || !c.claims.resolve(claimed{what.Digest, what.Revision}, revision) {
		return false
	}
	next := *old
	c.swap(&next) // wakes streams that wait for a decision
	return true
}

// resolve marks a claim as resolved, and reports whether it exists.
func (c *claims) resolve(what claimed, as uint64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	known, ok := c.byValue[what]
	if ok {
		known.resolved, known.as = true, as
	}
	return ok
}
