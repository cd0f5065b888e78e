package etagcache

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/routesrv/routesrv/table"
)

// maxHistory bounds how many digests are remembered, those of full and of zone tables together. With a change in every
// poll and four zones it lasts for five minutes; clients are behind by seconds.
const maxHistory = 512

// history remembers which tables this replica has served. A client that names one of them is behind by our own
// observation, however little is known of the order of revisions.
type history struct {
	mu    sync.Mutex
	seen  map[table.Digest]remembered
	ring  [maxHistory]table.Digest // of seen, by number
	added uint64                   // number of the next
}

type remembered struct {
	*readings
	checksum uint64 // of the table
	number   uint64
	zones    []string // whose table it is; "" is the full one
}

// readings are what the reads told about one version. All tables of the version share it.
type readings struct {
	order  uint64        // of the version: a later one has a higher number
	newest atomic.Uint64 // the highest Newest of the reads that showed the version; 0 before the first
}

// add remembers a table of a version, as that of a zone.
func (h *history) add(d table.Digest, checksum uint64, zone string, s *readings) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if known, ok := h.seen[d]; ok && known.order >= s.order {
		if known.order == s.order && !slices.Contains(known.zones, zone) {
			known.zones = append(known.zones, zone)
			h.seen[d] = known
		}
		return // or a zone of an old version was made late
	}
	if h.seen == nil {
		h.seen = make(map[table.Digest]remembered)
	}
	slot := &h.ring[h.added%maxHistory]
	if oldest, ok := h.seen[*slot]; ok && oldest.number+maxHistory == h.added {
		delete(h.seen, *slot)
	}
	*slot = d
	h.seen[d] = remembered{s, checksum, h.added, []string{zone}}
	h.added++
}

// showed reports whether this replica served the table before the version with the given order, or beside it, and saw it
// in the source as late as the revision. A higher revision may mean that the table came back, where this replica has not
// seen it yet.
//
// The order is compared because a request may hold on to a version while the next one is published.
func (h *history) showed(d table.Digest, revision, order uint64) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	known, ok := h.seen[d]
	return ok && known.order <= order && revision <= known.newest.Load()
}

// mayBe reports whether the table can have the digest, as far as that is known without taking it: clients name what they were
// served before.
func (h *history) mayBe(d table.Digest, t *table.Table) bool {
	h.mu.Lock()
	known, ok := h.seen[d]
	h.mu.Unlock()
	return !ok || known.checksum == t.Checksum()
}

// of gives what is remembered of a table, if it was that of the zone.
func (h *history) of(d table.Digest, zone string) (remembered, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	known, ok := h.seen[d]
	return known, ok && slices.Contains(known.zones, zone)
}

// forgetBefore forgets all versions before the one with the given order.
func (h *history) forgetBefore(order uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for d, known := range h.seen {
		if known.order < order {
			delete(h.seen, d)
		}
	}
}
