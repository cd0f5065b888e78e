package etagcache

import (
	"strings"
	"sync"

	"github.com/routesrv/routesrv/table"
)

const (
	// maxVersions is how many versions back deltas are possible. With a change in every poll that covers three minutes; clients
	// are behind by seconds.
	maxVersions = 64
	// cutShare drops the log when a version changes at least 1/cutShare of the routes: a delta across it would be about as large
	// as the table.
	cutShare = 2
)

// changeLog remembers the ids of the routes that differ between the last versions, but not their old texts: a delta only contains
// texts of its target table. Therefore a history of 64 versions is nearly free.
type changeLog struct {
	mu sync.Mutex
	// last is the number of the last version in which the route with the id was added, changed or removed. Entries up to floor
	// may remain, and have no meaning.
	last  map[string]uint64
	floor uint64 // the oldest version from which deltas are possible
}

// record records the changes of the version with the number compared with the previous one, if any.
func (c *changeLog) record(before, now *table.Table, order uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if before == nil {
		c.cut(order)
		return
	}
	limit := max(before.Len(), now.Len())/cutShare + 1
	count := 0
	for was, is := range table.Changes(before.Routes(), now.Routes()) {
		if count++; count > limit {
			c.cut(order)
			return
		}
		if is != nil {
			delete(c.last, is.ID) // the key is part of the old text, which would otherwise stay in memory
			c.last[is.ID] = order
		} else {
			delete(c.last, was.ID)
			c.last[strings.Clone(was.ID)] = order
		}
	}
	if order > maxVersions {
		c.floor = max(c.floor, order-maxVersions)
	}
	if order%16 == 0 {
		for id, at := range c.last {
			if at <= c.floor {
				delete(c.last, id)
			}
		}
	}
}

// changed returns the number of the last version in which one of the routes was added, changed or removed; if there is none, the
// oldest version from which changes are remembered.
func (c *changeLog) changed(ids []string) uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	last := c.floor
	for _, id := range ids {
		last = max(last, c.last[id])
	}
	return last
}

// cut makes the version with the number the oldest one.
func (c *changeLog) cut(order uint64) {
	c.last, c.floor = make(map[string]uint64), order
}

// since returns the ids of all routes that may differ between the version with the number and any later one. ok is false if that
// version is no longer remembered.
func (c *changeLog) since(order uint64) (ids []string, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if order < c.floor {
		return nil, false
	}
	for id, at := range c.last {
		if at > order {
			ids = append(ids, id)
		}
	}
	return ids, true
}
