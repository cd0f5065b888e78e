package etagcache

import (
	"fmt"
	"net/http"
	"net/netip"
	"strconv"
	"time"

	"github.com/routesrv/routesrv/internal/api"
)

const (
	plainText = "text/plain; charset=utf-8"
	noStore   = "no-store"
	// firstTable is the advice, in seconds, when to come back for the first table.
	firstTable = "3"
)

// staleIfError is how long a cache may serve its copy while no server answers: for a fleet, an old table is better than being
// unable to start proxies.
const staleIfError = 24 * time.Hour

// cacheControl returns the Cache-Control of answers with a table. A polling proxy is not a cache, so s-maxage is only for caches.
func cacheControl(seconds int) string {
	if seconds == 0 {
		return "no-cache"
	}
	return fmt.Sprintf("max-age=0, s-maxage=%d, stale-while-revalidate=%d, stale-if-error=%d", seconds, seconds, int(staleIfError.Seconds()))
}

// exchange is one request with everything that its answer needs.
type exchange struct {
	cache    *Cache
	w        http.ResponseWriter
	r        *http.Request
	state    *state
	zone     string
	variant  *variant
	deltas   bool   // the client has the text of the tables it names, and accepts deltas
	revision uint64 // in the ETag
	encoding encoding
	kept     bool // the client keeps a table other than the one of state
	began    time.Time
}

func (c *Cache) serve(w http.ResponseWriter, r *http.Request, zone string) {
	x := exchange{cache: c, w: w, r: r, zone: zone, state: c.state.Load(), deltas: takesDeltas(r.Header), began: time.Now()}
	h := w.Header()
	h.Set("Vary", "Accept-Encoding")
	if x.deltas {
		h.Set("Vary", "Accept-Encoding, A-IM")
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		h.Set("Allow", "GET, HEAD")
		x.empty(http.StatusMethodNotAllowed)
		return
	}
	if x.state.version == nil {
		h.Set("Retry-After", firstTable)
		x.empty(http.StatusNotFound)
		return
	}
	x.encoding = negotiate(r.Header["Accept-Encoding"], preference)
	x.show(x.state)
	conditions, tag := x.conditions()
	// A client that needs the table and asks for nothing else may get a delta.
	if x.deltas && len(conditions) == 1 && conditions.Get(api.HeaderIfNoneMatch) == noTag && x.serveDelta() {
		return
	}
	x.serveContent(conditions, tag)
}

// show makes the table of a state the one of the answer.
func (x *exchange) show(st *state) {
	x.state = st
	x.variant = st.version.variant(x.zone)
	x.revision = x.variant.revision.Load()
}

// empty answers without a table.
func (x *exchange) empty(status int) {
	x.w.Header().Set("Content-Length", "0")
	x.w.Header().Set("Cache-Control", noStore)
	x.w.WriteHeader(status)
	x.answered(status, 0, true)
}

// headers sets the headers of every answer with a table.
func (x *exchange) headers(etag, contentType string) {
	h := x.w.Header()
	h.Set("Content-Type", contentType)
	if x.encoding != identity {
		h.Set("Content-Encoding", x.encoding.String())
	}
	h.Set(api.HeaderETag, etag)
	h.Set(api.HeaderCount, strconv.Itoa(x.variant.table.Len()))
	h.Set(api.HeaderRevision, strconv.FormatUint(x.revision, 10))
	h.Set("Cache-Control", x.cache.control)
	if read := x.state.sourceRead(); read != "" {
		h.Set(api.HeaderSourceRead, read)
	}
	if x.kept {
		h.Set(api.HeaderTableState, api.StateUnknown)
	} else if name := x.state.name(); name != "" {
		h.Set(api.HeaderTableState, name)
	}
}

// serveContent answers with the table, ranges of it, or what the conditions demand.
func (x *exchange) serveContent(conditions http.Header, tag api.Tag) {
	x.headers(tag.String(), plainText)
	out := x.newSend()
	r := x.r.WithContext(x.r.Context())
	r.Header = conditions
	http.ServeContent(out, r, "", x.state.version.table.Time(), &content{body: func() *body { return x.variant.body(x.encoding) }})
	out.flush()
	whole := out.err == nil
	if out.status == http.StatusOK && r.Method == http.MethodGet {
		if whole = whole && int64(out.n) == x.variant.body(x.encoding).size; !whole {
			x.cache.broken.brokeOff(x.bodyKey(), tag.Rotation)
			x.cache.cfg.Metrics.BrokenBodies.Inc()
		}
	}
	x.answered(out.status, out.n, whole)
}

// serveDelta answers with a delta from one of the tables that the client names, if there is a useful one.
func (x *exchange) serveDelta() bool {
	for _, t := range api.ParseTags(x.r.Header[api.HeaderIfNoneMatch]).List {
		d := x.deltaFrom(t.Digest)
		if d == nil || d.size > x.variant.table.Bytes() {
			continue
		}
		body := d.bodies[x.encoding]()
		x.headers(x.tag(0).String(), api.DeltaType) // without a rotation: clients check the digest
		h := x.w.Header()
		h.Set("Content-Length", strconv.Itoa(len(body)))
		if at := x.state.version.table.Time(); !at.IsZero() {
			h.Set("Last-Modified", at.UTC().Format(http.TimeFormat))
		}
		h.Set("Cache-Control", noStore) // caches do not know that the answer depends on the client's table
		h.Set(api.HeaderIM, api.DeltaForm)
		h.Set(api.HeaderDeltaBase, t.Tag.String())
		out := x.newSend()
		out.WriteHeader(http.StatusIMUsed)
		if x.r.Method != http.MethodHead {
			_, _ = out.Write(body) // out has the error
			out.flush()
		}
		x.answered(out.status, out.n, out.err == nil)
		return true
	}
	return false
}

// bodyKey identifies the bytes that this client would be sent.
func (x *exchange) bodyKey() bodyKey {
	return bodyKey{clientOf(x.r), x.variant.table.Digest(), x.encoding}
}

// tag returns the variant's ETag with a rotation.
func (x *exchange) tag(rotation uint32) api.Tag {
	return api.Tag{Digest: x.variant.table.Digest(), Revision: x.revision, Rotation: rotation, Encoding: x.encoding}
}

// clientOf returns the address of the peer. Requests without a valid one share the zero address.
func clientOf(r *http.Request) netip.Addr {
	ap, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	return ap.Addr().Unmap()
}
