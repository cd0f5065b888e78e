package etagcache

import (
	"fmt"
	"net/http"
	"net/netip"
	"time"

	"github.com/routesrv/routesrv/internal/delivery"
	"github.com/routesrv/routesrv/internal/wire"
)

// Header values that never change. All responses share them, and they have no spare capacity, so that a filter that appends to
// them gets a copy.
var (
	varyEncoding      = []string{"Accept-Encoding"}
	varyDelta         = []string{"Accept-Encoding, A-IM"}
	acceptBytes       = []string{"bytes"}
	plainText         = []string{"text/plain; charset=utf-8"}
	allowed           = []string{"GET, HEAD"}
	zeroLength        = []string{"0"}
	tableStale        = []string{wire.StateStale}
	tableHeld         = []string{wire.StateHeld}
	tableUnknown      = []string{wire.StateUnknown}
	tableBackendsHeld = []string{wire.StateBackendsHeld}
	noStore           = []string{"no-store"}
)

// staleIfError is how long a cache may serve its copy while no server answers: for a fleet, an old table is better than being
// unable to start proxies.
const staleIfError = 24 * time.Hour

// cacheControl returns the Cache-Control of answers with a table. A polling proxy is not a cache, so s-maxage is only for caches.
func cacheControl(seconds int) []string {
	if seconds == 0 {
		return []string{"no-cache"}
	}
	return []string{fmt.Sprintf("max-age=0, s-maxage=%d, stale-while-revalidate=%d, stale-if-error=%d", seconds, seconds, int(staleIfError.Seconds()))}
}

// exchange is one request with everything that its answer needs.
type exchange struct {
	cache    *Cache
	w        http.ResponseWriter
	r        *http.Request
	state    *state
	zone     string
	variant  *variant
	deltas   bool // the client has the text of the tables it names, and accepts deltas
	stamp    *stamp
	encoding encoding
	kept     bool      // the client keeps a table other than the one of state
	began    time.Time // zero unless answers are reported
}

func (c *Cache) serve(w http.ResponseWriter, r *http.Request, zone string) {
	x := exchange{cache: c, w: w, r: r, zone: zone, state: c.state.Load(), deltas: takesDeltas(r.Header)}
	x.begin()
	h := w.Header()
	h["Vary"] = varyEncoding
	if x.deltas {
		h["Vary"] = varyDelta
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		h["Allow"] = allowed
		x.empty(http.StatusMethodNotAllowed)
		return
	}
	if x.state.version == nil {
		h["Retry-After"] = c.retryAfter
		x.empty(http.StatusNotFound)
		return
	}
	x.encoding = negotiate(r.Header["Accept-Encoding"])
	x.variant = x.state.version.variant(zone)
	x.stamp = x.variant.stamp.Load()

	switch d := x.decide(); d.status {
	case http.StatusNotModified, http.StatusPreconditionFailed:
		x.headers(d.etag)
		if d.status == http.StatusPreconditionFailed {
			h["Content-Length"] = zeroLength
		}
		w.WriteHeader(d.status)
		x.answered(d.status, 0, true)
		x.observe(false)
	default:
		if x.deltas && !d.ranges && x.serveDelta() {
			x.observe(false)
			return
		}
		x.observe(x.content(d.ranges))
	}
}

// empty answers without a table.
func (x *exchange) empty(status int) {
	x.w.Header()["Content-Length"] = zeroLength
	x.w.Header()["Cache-Control"] = noStore
	x.w.WriteHeader(status)
	x.answered(status, 0, true)
}

// headers sets the headers of every answer with a table.
func (x *exchange) headers(etag []string) {
	h := x.w.Header()
	h[wire.HeaderETag] = etag
	h[wire.HeaderCount] = x.variant.count
	h[wire.HeaderRevision] = x.stamp.header
	h["Cache-Control"] = x.cache.control
	if x.state.sourceRead != nil {
		h[wire.HeaderSourceRead] = x.state.sourceRead
	}
	switch {
	case x.kept:
		h[wire.HeaderTableState] = tableUnknown
	case x.state.tableState != nil:
		h[wire.HeaderTableState] = x.state.tableState
	}
}

// content answers with the table, or ranges of it. It reports whether the table was sent completely, as far as is known.
func (x *exchange) content(ranges bool) (whole bool) {
	key := x.bodyKey()
	rotation := x.cache.bodies.Rotation(key)
	x.headers(x.etag(rotation))
	h := x.w.Header()
	h["Accept-Ranges"] = acceptBytes
	h["Content-Type"] = plainText
	x.cache.ask(x.encoding, x.state.version.readings.order)
	h["Content-Length"] = x.variant.length(x.encoding)
	if x.encoding != identity {
		h["Content-Encoding"] = encodingHeader[x.encoding]
	}
	if lm := x.state.version.lastModified; lm != nil {
		h["Last-Modified"] = lm
	}
	if x.r.Method == http.MethodHead && !ranges {
		x.w.WriteHeader(http.StatusOK)
		x.answered(http.StatusOK, 0, true)
		return false
	}
	var status, n int
	if ranges {
		if status, n, whole = x.serveRanges(); status == http.StatusOK && !whole {
			x.cache.bodies.Break(key, rotation)
		}
	} else {
		status = http.StatusOK
		n, whole = x.serveWhole(key, rotation)
	}
	x.answered(status, n, whole)
	return whole
}

// serveWhole writes the body. It returns the number of bytes written, and whether that is the whole body.
func (x *exchange) serveWhole(key delivery.Key, rotation uint32) (n int, whole bool) {
	delivered := x.cache.bodies.Begin(x.r, key, rotation)
	out := x.newSend()
	body := x.variant.body(x.encoding)
	out.parts(body)
	out.flush()
	whole = out.finish(body.size)
	delivered.End(x.r.Context(), whole)
	return out.n, whole
}

// serveRanges lets net/http select the ranges. It does not pass on the preconditions, which have already been evaluated.
func (x *exchange) serveRanges() (status, n int, ok bool) {
	r := x.r.WithContext(x.r.Context())
	r.Header = http.Header{"Range": x.r.Header["Range"]}
	out := x.newSend()
	http.ServeContent(out, r, "", time.Time{}, x.variant.body(x.encoding).reader())
	ok = out.finish(out.n)
	return out.status, out.n, ok
}

// bodyKey identifies the bytes that this client would be sent.
func (x *exchange) bodyKey() delivery.Key {
	return delivery.Key{Client: clientOf(x.r), Digest: x.variant.table.Digest(), Encoding: uint8(x.encoding)}
}

// etag returns the header value of the variant's ETag with a rotation.
func (x *exchange) etag(rotation uint32) []string {
	if rotation == 0 {
		return x.stamp.etags[x.encoding]
	}
	t := wire.Tag{Digest: x.variant.table.Digest(), Revision: x.stamp.revision, Rotation: rotation, Encoding: x.encoding}
	return []string{t.String()}
}

// clientOf returns the address of the peer. Requests without a valid one share the zero address.
func clientOf(r *http.Request) netip.Addr {
	ap, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	return ap.Addr().Unmap()
}
