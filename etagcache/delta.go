package etagcache

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/routesrv/routesrv/internal/wire"
	"github.com/routesrv/routesrv/table"
)

// Header values of a delta (RFC 3229).
var (
	imDelta   = []string{wire.DeltaForm}
	deltaType = []string{wire.DeltaType}
)

// delta leads from one table to the table of a variant. It is built once for all clients, and encoded on first demand.
type delta struct {
	once sync.Once
	json []byte // nil if there is none: the base is unknown, or the delta is not smaller

	encodings [encodings]struct {
		once sync.Once
		body []byte
	}
}

// deltaFrom returns the delta from the named base to this zone's table. It returns nil if there is none, or if it is larger than
// the compressed table.
func (x *exchange) deltaFrom(base table.Digest) *delta {
	known, ok := x.cache.history.of(base, x.zone)
	if !ok || known.order > x.state.version.readings.order {
		return nil // changes after this version cannot lead to it
	}
	slot, _ := x.variant.deltas.LoadOrStore(base, &delta{})
	d := slot.(*delta)
	d.once.Do(func() {
		d.json = x.makeDelta(base, known.order)
		if x.variant.exceeds(len(d.json)) && x.variant.exceeds(len(d.body(x.cache, gzipped))) {
			d.json = nil
		}
	})
	if d.json == nil {
		return nil
	}
	return d
}

func (x *exchange) makeDelta(base table.Digest, order uint64) []byte {
	ids, ok := x.cache.changes.since(order)
	if !ok {
		return nil
	}
	t := x.variant.table
	d := table.Delta{Base: base, Target: t.Digest(), Revision: t.Revision(), Count: t.Len()}
	slices.Sort(ids)
	routes := t.Routes().Lookup()
	for _, id := range ids {
		r := routes.Get(id)
		if r == nil {
			d.Deletes = append(d.Deletes, id)
			continue
		}
		d.Upserts = append(d.Upserts, r.Text)
	}
	json, err := d.AppendJSON(nil)
	if err != nil {
		return nil // a text is not UTF-8
	}
	x.cache.cfg.Metrics.DeltasMade.Inc()
	return json
}

// body returns the delta in an encoding. It is shared and must not be changed.
func (d *delta) body(c *Cache, e encoding) []byte {
	if e == identity {
		return d.json
	}
	slot := &d.encodings[e]
	slot.once.Do(func() {
		enc := c.encoders.get()
		defer c.encoders.put(enc)
		if e == zstandard {
			slot.body = enc.zstdOf(d.json)
			return
		}
		slot.body = append(slot.body, gzipHeader...)
		slot.body = append(slot.body, enc.deflate(d.json)...)
		var sum checksum
		sum.addBytes(d.json)
		slot.body = sum.appendTrailer(slot.body)
	})
	return slot.body
}

// takesDeltas reports whether the client has the text of the tables it names, and accepts deltas.
func takesDeltas(h http.Header) bool {
	for _, value := range h[wire.HeaderAcceptIM] {
		for member := range strings.SplitSeq(value, ",") {
			name, _, _ := strings.Cut(member, ";")
			if strings.EqualFold(strings.TrimSpace(name), wire.DeltaForm) {
				return true
			}
		}
	}
	return false
}

// serveDelta answers with a delta from one of the tables that the client names, if there is a useful one.
func (x *exchange) serveDelta() bool {
	for _, t := range wire.ParseTags(x.r.Header[wire.HeaderIfNoneMatch]).List {
		d := x.deltaFrom(t.Digest)
		if d == nil {
			continue
		}
		body := d.body(x.cache, x.encoding)
		if x.variant.exceeds(len(body)) {
			continue
		}
		x.headers(x.etag(0))
		h := x.w.Header()
		h["Cache-Control"] = noStore // caches do not know that the answer depends on the client's table
		h[wire.HeaderIM] = imDelta
		h[wire.HeaderDeltaBase] = []string{t.Tag.String()}
		h["Content-Type"] = deltaType
		h["Content-Length"] = []string{strconv.Itoa(len(body))}
		if x.encoding != identity {
			h["Content-Encoding"] = encodingHeader[x.encoding]
		}
		if lm := x.state.version.lastModified; lm != nil {
			h["Last-Modified"] = lm
		}
		x.w.WriteHeader(http.StatusIMUsed)
		n, whole := 0, true
		if x.r.Method != http.MethodHead {
			out := x.newSend()
			n, _ = out.Write(body) // clients check the digest
			whole = out.finish(len(body))
		}
		x.answered(http.StatusIMUsed, n, whole)
		return true
	}
	return false
}
