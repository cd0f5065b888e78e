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

// version is a table with everything that is sent of it. It is immutable, except for zones built on first demand and stamps.
type version struct {
	table        *table.Table
	readings     *readings
	published    time.Time
	modified     time.Time // time of the table, in whole seconds as on the wire
	lastModified []string  // header value; nil if the table has no time
	full         *variant

	zones    sync.Map // zone name to *zoneSlot
	previous sync.Map // zone name to *variant of the previous version, until the zone is built
	cache    *Cache
}

// zoneSlot builds the variant of one zone once: the first request builds it, and others wait only for this zone.
type zoneSlot struct {
	once  sync.Once
	ready atomic.Pointer[variant]
}

// variant is the full table or the table of one zone, in all encodings.
type variant struct {
	table  *table.Table
	count  []string // X-Count
	bodies [encodings]lazyBody
	stamp  atomic.Pointer[stamp]

	pieces []*piece // the encoded blocks of the table
	deltas sync.Map // digest of the base to *delta
	cache  *Cache

	sendableOnce sync.Once
	isSendable   bool // after sendableOnce
}

// stamp is the revision in the ETags of a variant, with the header values derived from it.
type stamp struct {
	revision uint64
	header   []string            // X-Revision
	etags    [encodings][]string // without rotation
}

// newVersion makes t a version. It keeps the zones of previous for comparison, in case they are requested again.
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

// newVariant builds the bodies of t that clients will probably ask for, for the version with the number.
func (c *Cache) newVariant(t *table.Table, order uint64, ofZone bool) *variant {
	va := &variant{table: t, count: []string{strconv.Itoa(t.Len())}, pieces: c.pieces.of(t, order, ofZone), cache: c}
	if !c.cfg.EncodeOnDemand {
		asked := c.askedFor(order)
		c.fill(va, asked...)
		for _, e := range asked {
			va.body(e)
		}
	}
	va.restamp(nil, t.Revision())
	return va
}

// variant returns the table for a zone; the full one if the zone is empty or unknown, or if its table is the same.
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
		va.lower(v.full.stamp.Load().revision) // restampDown may have run before this zone existed
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
			return va // with its ETag: an unchanged table keeps its name
		}
	}
	v.cache.cfg.Metrics.ZonesRendered.Inc()
	return v.cache.newVariant(t, v.readings.order, true)
}

// restampDown lowers the revision of all variants to the source's, if it is higher: the source went back in time and has this
// content again. Other replicas would take a table with the old, higher revision for a newer one.
func (v *version) restampDown(source uint64) {
	v.full.lower(source) // first, because zones being built read it
	v.zones.Range(func(_, slot any) bool {
		if va := slot.(*zoneSlot).ready.Load(); va != nil {
			va.lower(source)
		}
		return true
	})
}

// lower replaces the stamp with one of the given revision, if the current one is higher.
func (va *variant) lower(revision uint64) {
	for s := va.stamp.Load(); s.revision > revision; s = va.stamp.Load() {
		va.restamp(s, revision)
	}
}

// raise replaces the stamp with one of the given revision, if the current one is lower, and returns the resulting stamp.
func (va *variant) raise(revision uint64) *stamp {
	s := va.stamp.Load()
	for ; s.revision < revision; s = va.stamp.Load() {
		va.restamp(s, revision)
	}
	return s
}

// restamp replaces the stamp old with one of another revision, unless it was replaced concurrently.
func (va *variant) restamp(old *stamp, revision uint64) {
	s := &stamp{revision: revision, header: []string{strconv.FormatUint(revision, 10)}}
	for e := range encodings {
		s.etags[e] = []string{wire.Tag{Digest: va.table.Digest(), Revision: revision, Encoding: e}.String()}
	}
	va.stamp.CompareAndSwap(old, s)
}

// lazyBody is a variant in one encoding: a view of pieces and table that holds no bytes of its own.
type lazyBody struct {
	once   sync.Once
	made   atomic.Pointer[body] // nil until once is done
	length []string             // Content-Length
}

// body returns the variant in an encoding. The first call for an encoding encodes the pieces that lack it.
func (va *variant) body(e encoding) *body {
	slot := &va.bodies[e]
	slot.once.Do(func() {
		var b body
		switch e {
		case gzipped:
			va.cache.fill(va, e)
			b = gzipBody(va.pieces)
		case zstandard:
			va.cache.fill(va, e)
			b = zstdBody(va.pieces)
		default:
			b = textBody(va.table)
		}
		slot.length = []string{strconv.Itoa(b.size)}
		slot.made.Store(&b)
		if v := va.cache.state.Load().version; v != nil && v.full == va {
			va.cache.cfg.Metrics.tableBytes[e].Set(float64(b.size))
		}
	})
	return slot.made.Load()
}

// length returns the Content-Length of the variant in an encoding.
func (va *variant) length(e encoding) []string {
	va.body(e)
	return va.bodies[e].length
}

// mostSaved is the largest possible ratio of a text to its gzip body: deflate codes at most 258 bytes in two bits (RFC 1951 §3.2.5).
const mostSaved = 1032

// exceeds reports whether n bytes are more than the smallest body made so far. If none is compressed yet, and a gzip body could be
// smaller, it makes one.
func (va *variant) exceeds(n int) bool {
	if va.bodies[gzipped].made.Load() == nil && va.bodies[zstandard].made.Load() == nil && n > va.table.Bytes()/mostSaved {
		va.body(gzipped)
	}
	for e := range encodings {
		if b := va.bodies[e].made.Load(); b != nil && n > b.size {
			return true
		}
	}
	return n > va.table.Bytes()
}
