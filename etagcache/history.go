package etagcache

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/routesrv/routesrv/table"
)

// maxHistory is how many digests are remembered, for full and zone tables together. With a change in every poll and four zones it
// covers five minutes; clients are behind by seconds.
const maxHistory = 512

// history remembers which tables this replica has served. A client that names one of them is certainly behind, however little is
// known about the order of revisions.
type history struct {
	mu    sync.Mutex
	seen  map[table.Digest]remembered
	ring  [maxHistory]table.Digest // the keys of seen, by number
	added uint64                   // number of the next entry
}

type remembered struct {
	*readings
	checksum uint64 // of the table
	number   uint64
	zones    []string // zones that the table belongs to; "" means the full table
}

// readings are the revisions that reads showed for one version. All tables of the version share them.
type readings struct {
	order  uint64        // of the version; later versions have higher numbers
	newest atomic.Uint64 // the highest Newest of the reads that showed the version; 0 before the first read
}

// add remembers a table of a version as the table of a zone.
func (h *history) add(d table.Digest, checksum uint64, zone string, s *readings) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if known, ok := h.seen[d]; ok && known.order >= s.order {
		if known.order == s.order && !slices.Contains(known.zones, zone) {
			known.zones = append(known.zones, zone)
			h.seen[d] = known
		}
		return // or a zone of an old version was built late
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

// showed reports whether this replica served the table before the version with the given order, or beside it, and saw it in the
// source at the revision or later. A higher revision may mean that the table came back and this replica has not seen that yet.
//
// It compares the order because a request may hold on to a version while the next one is published.
func (h *history) showed(d table.Digest, revision, order uint64) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	known, ok := h.seen[d]
	return ok && known.order <= order && revision <= known.newest.Load()
}

// mayBe reports whether the table can have the digest, as far as that is known without computing it: clients name what they were
// served before.
func (h *history) mayBe(d table.Digest, t *table.Table) bool {
	h.mu.Lock()
	known, ok := h.seen[d]
	h.mu.Unlock()
	return !ok || known.checksum == t.Checksum()
}

// of returns the entry of a table, if it was served for the zone.
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
