package etagcache

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/routesrv/routesrv/table"
)

const (
	// maxHistory is how many digests are remembered: five minutes with a change in every poll and four zones.
	maxHistory = 512
	// maxVersions is how many versions back deltas are possible. With a change in every poll that covers three minutes.
	maxVersions = 64
)

// history remembers which tables this replica has served: a client that names one of them is certainly behind. It also remembers
// the ids of the routes that differ between the last versions, but not their old texts: a delta only has texts of its target.
type history struct {
	mu     sync.Mutex
	served recent[table.Digest, servedTable]
	// changed is the number of the last version in which the route with the id was added, changed or removed.
	changed map[string]uint64
	floor   uint64 // the oldest version from which deltas are possible
	ordered uint64 // the oldest version that is known to be older than later ones
}

type servedTable struct {
	*readings
	zones []string // zones that the table belongs to; "" means the full table
}

// readings are the revisions that reads showed for one version. All tables of the version share them.
type readings struct {
	order  uint64        // of the version; later versions have higher numbers
	newest atomic.Uint64 // the highest Newest of the reads that showed the version; 0 before the first read
}

func (h *history) add(d table.Digest, zone string, s *readings) {
	h.mu.Lock()
	defer h.mu.Unlock()
	known, ok := h.served.byKey[d]
	switch {
	case !ok || known.order < s.order:
		h.served.put(d, servedTable{s, []string{zone}}, maxHistory)
	case known.order == s.order && !slices.Contains(known.zones, zone):
		known.zones = append(known.zones, zone)
		h.served.byKey[d] = known
	} // otherwise a zone of an old version was built late
}

// showed reports whether this replica served the table before the version with the given order, which may not be the current one,
// or beside it, and saw it in the source at the revision or later. A higher revision may mean that the table came back.
func (h *history) showed(d table.Digest, revision, order uint64) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	known, ok := h.served.byKey[d]
	return ok && h.ordered <= known.order && known.order <= order && revision <= known.newest.Load()
}

// order returns the number of the last version with the table, full or for a zone; 0 if the table is not remembered.
func (h *history) order(d table.Digest) uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	if known, ok := h.served.byKey[d]; ok {
		return known.order
	}
	return 0
}

// void discards the known order of the versions before the one with the given order, because the source went back in time.
func (h *history) void(order uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ordered = order
}

// record records the changes of the version with the number compared with the previous one, if any.
func (h *history) record(before, now *table.Table, order uint64) {
	var ids []string
	if before != nil {
		for was, is := range table.Changes(before.Routes(), now.Routes()) {
			if is == nil {
				is = was
			}
			ids = append(ids, strings.Clone(is.ID)) // the id is part of the text, which would otherwise stay in memory
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if before == nil {
		h.changed, h.floor = make(map[string]uint64), order
	}
	for _, id := range ids {
		h.changed[id] = order
	}
	if order > maxVersions {
		h.floor = max(h.floor, order-maxVersions)
	}
	maps.DeleteFunc(h.changed, func(_ string, at uint64) bool { return at <= h.floor })
}

// lastChange returns the last version in which one of the routes changed, or the oldest version whose changes are known.
func (h *history) lastChange(ids []string) uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	last := h.floor
	for _, id := range ids {
		last = max(last, h.changed[id])
	}
	return last
}

// since returns the sorted ids of all routes that may differ between a table, which was served for the zone, and a version. ok is
// false if the table is not remembered, or is later than that version, so that no changes lead to the version.
func (h *history) since(d table.Digest, zone string, version uint64) (ids []string, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	known, ok := h.served.byKey[d]
	if !ok || known.order > version || known.order < h.floor || !slices.Contains(known.zones, zone) {
		return nil, false
	}
	for id, at := range h.changed {
		if at > known.order {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids, true
}

// recent is a map of limited size that evicts the oldest entry. The zero value is empty.
type recent[K comparable, V any] struct {
	byKey map[K]V
	keys  []K // of byKey, in the order in which they were put
}

// put adds or replaces an entry, which becomes the last one to be forgotten. It leaves at most limit entries.
func (r *recent[K, V]) put(key K, value V, limit int) {
	r.remove(key)
	if len(r.keys) >= limit {
		r.remove(r.keys[0])
	}
	if r.byKey == nil {
		r.byKey = make(map[K]V)
	}
	r.byKey[key], r.keys = value, append(r.keys, key)
}

func (r *recent[K, V]) remove(key K) {
	if _, known := r.byKey[key]; known {
		delete(r.byKey, key)
		i := slices.Index(r.keys, key)
		r.keys = slices.Delete(r.keys, i, i+1)
	}
}
