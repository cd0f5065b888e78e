package etagcache

import (
	"strings"
	"sync"

	"github.com/routesrv/routesrv/table"
)

const (
	// maxVersions is how many versions back deltas go. With a change in every poll that is three minutes; clients are
	// behind by seconds.
	maxVersions = 64
	// cutShare ends what is remembered where a version has changed a share of 1/cutShare of the routes: a delta across it
	// would be about as large as the table.
	cutShare = 2
)

// changeLog remembers which routes differ between the last versions, and nothing of what they were: a delta has the texts of the
// table that it leads to, so all it takes is the ids. That is what makes a history of 64 versions nearly free.
type changeLog struct {
	mu sync.Mutex
	// last is the number of the last version in which the route with the id came, changed or went. Those of floor and before
	// may be there, and mean nothing.
	last  map[string]uint64
	floor uint64 // the oldest version from which deltas can be made
}

// record notes what the version with the number changes, against the one before it, if there is one.
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
			delete(c.last, is.ID) // the key is part of the old text, which nobody else may need any more
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

// changed returns the number of the last version in which one of the routes came, changed or went; that of the oldest version from
// which changes are remembered if none has since.
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

// since gives the ids of all routes that may differ between the version with the number and any later one. It is false if that
// is not remembered.
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
