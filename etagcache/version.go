package etagcache

import (
	"net/http"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/routesrv/routesrv/internal/wire"
	"github.com/routesrv/routesrv/table"
)

// version is a table with everything that is sent of it. It is immutable, apart from zones that are made on first demand
// and stamps.
type version struct {
	table        *table.Table
	readings     *readings
	published    time.Time
	modified     time.Time // of the table, in whole seconds as on the wire
	lastModified []string  // header value; nil if the table has no time
	full         *variant

	zones    sync.Map // zone name to *zoneSlot
	previous sync.Map // zone name to *variant of the version before, until the zone is made
	cache    *Cache
}

// zoneSlot makes the variant of one zone once: who comes first makes it, the others wait for this one only.
type zoneSlot struct {
	once  sync.Once
	ready atomic.Pointer[variant]
}

// variant is the table for one zone, or for nobody's zone, in all encodings.
type variant struct {
	table  *table.Table
	count  []string            // X-Count
	bodies [encodings]body     // views of pieces and table: they hold no bytes of their own
	sizes  [encodings][]string // Content-Length
	stamp  atomic.Pointer[stamp]

	pieces []*piece // of the blocks of the table
	deltas sync.Map // digest of the base to *delta

	sendableOnce sync.Once
	isSendable   bool // after sendableOnce
}

// stamp is the revision that the ETags of a variant carry, with the header values that follow from it.
type stamp struct {
	revision uint64
	header   []string            // X-Revision
	etags    [encodings][]string // without rotation
}

// newVersion makes the bodies of t. Zones that previous has made are kept to be compared with, if they are asked for
// again.
func (c *Cache) newVersion(t *table.Table, previous *version, order uint64) *version {
	v := &version{table: t, readings: &readings{order: order}, published: c.cfg.Now(), cache: c}
	if !t.Time().IsZero() {
		v.modified = t.Time().UTC().Truncate(time.Second)
		v.lastModified = []string{v.modified.Format(http.TimeFormat)}
	}
	v.full = c.newVariant(t, order, false)
	c.pieces.forget(order)
	c.history.add(t.Digest(), t.Checksum(), "", v.readings)
	if previous == nil {
		c.changes.record(nil, t, order)
	} else {
		c.changes.record(previous.table, t, order)
	}
	if previous != nil {
		previous.zones.Range(func(zone, slot any) bool {
			if ready := slot.(*zoneSlot).ready.Load(); ready != nil {
				v.previous.Store(zone, ready)
			}
			return true
		})
	}
	return v
}

// newVariant makes the bodies of t, for the version with the number.
func (c *Cache) newVariant(t *table.Table, order uint64, ofZone bool) *variant {
	pieces := c.piecesOf(t, order, ofZone)
	va := &variant{table: t, count: []string{strconv.Itoa(t.Len())}, pieces: pieces}
	va.bodies = [encodings]body{identity: textBody(t), gzipped: gzipBody(pieces), zstandard: zstdBody(pieces)}
	for e := range encodings {
		va.sizes[e] = []string{strconv.Itoa(va.size(e))}
	}
	va.restamp(nil, t.Revision())
	return va
}

// variant returns the table for zone; the full one if the zone is empty or unknown, or its table is the same.
func (v *version) variant(zone string) *variant {
	if zone == "" {
		return v.full
	}
	if _, known := slices.BinarySearch(v.table.Zones(), zone); !known {
		return v.full
	}
	s, ok := v.zones.Load(zone)
	if !ok {
		s, _ = v.zones.LoadOrStore(zone, &zoneSlot{})
	}
	slot := s.(*zoneSlot)
	slot.once.Do(func() {
		va := v.makeZone(zone)
		v.cache.history.add(va.table.Digest(), va.table.Checksum(), zone, v.readings)
		slot.ready.Store(va)
		va.lower(v.full.stamp.Load().revision) // restampDown came before there was this zone
	})
	return slot.ready.Load()
}

func (v *version) makeZone(zone string) *variant {
	previous, hasPrevious := v.previous.LoadAndDelete(zone)
	var before *table.Table
	if hasPrevious {
		before = previous.(*variant).table
	}
	t := v.table.ZoneAfter(zone, before)
	if t == v.table {
		return v.full
	}
	if hasPrevious {
		if va := previous.(*variant); va.table.Digest() == t.Digest() {
			return va // with its ETag: what did not change needs no new name
		}
	}
	v.cache.cfg.Metrics.ZonesRendered.Inc()
	return v.cache.newVariant(t, v.readings.order, true)
}

// restampDown lowers the revision of all variants to that of the source, if it is higher: the source has gone back, and
// its content is what it was. With the old, higher revision other replicas would take the table for a newer one.
func (v *version) restampDown(source uint64) {
	v.full.lower(source) // first: zones that are being made look at it
	v.zones.Range(func(_, slot any) bool {
		if va := slot.(*zoneSlot).ready.Load(); va != nil {
			va.lower(source)
		}
		return true
	})
}

// lower replaces the stamp by one with the revision, if it has a higher one.
func (va *variant) lower(revision uint64) {
	for s := va.stamp.Load(); s.revision > revision; s = va.stamp.Load() {
		va.restamp(s, revision)
	}
}

// raise replaces the stamp by one with the revision, if it has a lower one, and returns the one it has then.
func (va *variant) raise(revision uint64) *stamp {
	s := va.stamp.Load()
	for ; s.revision < revision; s = va.stamp.Load() {
		va.restamp(s, revision)
	}
	return s
}

// restamp replaces the stamp old by one with another revision, unless somebody else has replaced it.
func (va *variant) restamp(old *stamp, revision uint64) {
	s := &stamp{revision: revision, header: []string{strconv.FormatUint(revision, 10)}}
	for e := range encodings {
		s.etags[e] = []string{wire.Tag{Digest: va.table.Digest(), Revision: revision, Encoding: e}.String()}
	}
	va.stamp.CompareAndSwap(old, s)
}

// smallest is the length of the smaller one of the compressed bodies.
func (va *variant) smallest() int { return min(va.size(gzipped), va.size(zstandard)) }

// size is the length of the body in an encoding.
func (va *variant) size(e encoding) int { return va.bodies[e].size }
