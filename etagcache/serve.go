package etagcache

import (
	"errors"
	"io"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/routesrv/routesrv/api"
	"github.com/routesrv/routesrv/table"
)

const (
	plainText = "text/plain; charset=utf-8"
	noStore   = "no-store"
	// firstTable is the Retry-After, in seconds, before the first table.
	firstTable = "3"
)

// exchange is one request with everything that its answer needs.
type exchange struct {
	cache    *Cache
	w        http.ResponseWriter
	r        *http.Request
	state    *serving
	zone     string
	variant  *variant
	deltas   bool   // the client has the text of the tables it names, and accepts deltas
	revision uint64 // in the ETag
	encoding encoding
	kept     bool // the client keeps a table other than the one of state
}

func (c *Cache) serve(w http.ResponseWriter, r *http.Request, zone string) {
	x := exchange{cache: c, w: w, r: r, zone: zone, state: c.state.Load()}
	x.deltas = strings.Contains(strings.ToLower(strings.Join(r.Header[api.HeaderAcceptIM], ",")), api.DeltaForm)
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

func (x *exchange) show(st *serving) {
	x.state = st
	x.variant = st.version.variant(x.zone)
	x.revision = x.variant.revision.Load()
}

func (x *exchange) empty(status int) {
	x.w.Header().Set("Content-Length", "0")
	x.w.Header().Set("Cache-Control", noStore)
	x.w.WriteHeader(status)
	x.answered(status, 0, true)
}

func (x *exchange) headers(etag, contentType string) {
	h := x.w.Header()
	h.Set("Content-Type", contentType)
	if x.encoding != identity {
		h.Set("Content-Encoding", x.encoding.String())
	}
	h.Set(api.HeaderETag, etag)
	h.Set(api.HeaderCount, strconv.Itoa(x.variant.table.Len()))
	h.Set(api.HeaderRevision, strconv.FormatUint(x.revision, 10))
	h.Set("Cache-Control", "no-cache")
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

func (x *exchange) bodyKey() bodyKey {
	return bodyKey{clientOf(x.r), x.variant.table.Digest(), x.encoding}
}

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

// Limits for readers that stall, with a goroutine, a buffer, and the blocks of their table.
const (
	// maxSilence is how long a reader may take for sendSize bytes of a body, or for one write on a stream.
	maxSilence = 30 * time.Second
	sendSize   = 64 << 10
	// maxBodyTime is how long a body of /routes may take.
	maxBodyTime = 5 * time.Minute
)

// send is the [http.ResponseWriter] of a request for a table. It aborts a body whose reader stalls, and records what was written.
type send struct {
	http.ResponseWriter
	exchange *exchange
	control  *http.ResponseController
	end      time.Time // when it is cut in any case
	status   int
	n        int   // bytes of the body
	err      error // of the first failed write
}

func (x *exchange) newSend() *send {
	return &send{
		ResponseWriter: x.w, exchange: x, control: http.NewResponseController(x.w), end: time.Now().Add(maxBodyTime), status: http.StatusOK,
	}
}

// WriteHeader records the status, which [http.ServeContent] chooses, and adapts the headers where it does not.
func (s *send) WriteHeader(status int) {
	s.status = status
	switch h := s.Header(); status {
	case http.StatusOK: // it does not send the length of an encoded body
		h.Set("Content-Length", strconv.FormatInt(s.exchange.variant.body(s.exchange.encoding).size, 10))
	case http.StatusPreconditionFailed:
		h.Set("Content-Length", "0")
		for _, name := range []string{"Content-Type", "Content-Encoding", "Last-Modified"} {
			h.Del(name)
		}
	}
	s.ResponseWriter.WriteHeader(status)
}

// Write writes p in parts, each with its own deadline.
func (s *send) Write(p []byte) (n int, err error) {
	for part := range slices.Chunk(p, sendSize) {
		limit := time.Now().Add(maxSilence)
		if limit.After(s.end) {
			limit = s.end
		}
		_ = s.control.SetWriteDeadline(limit) // a connection without deadlines does not stall either
		m, err := s.ResponseWriter.Write(part)
		n, s.n = n+m, s.n+m
		if err != nil {
			s.err = err
			return n, err
		}
	}
	return n, nil
}

// ReadFrom writes a body in parts of sendSize. With the half of it, as [io.Copy] would write, a reader with a small window gets
// one write for each probe of the window.
func (s *send) ReadFrom(body io.Reader) (n int64, err error) {
	return io.CopyBuffer(struct{ io.Writer }{s}, body, make([]byte, sendSize))
}

// flush writes out the server's buffers behind a body of known length, so that a failure is noticed before the handler ends.
func (s *send) flush() {
	if s.n > 0 && s.err == nil && s.Header().Get("Content-Length") != "" {
		if err := s.control.Flush(); !errors.Is(err, http.ErrNotSupported) {
			s.err = err
		}
	}
}

// maxBroken limits how many broken bodies are remembered; the oldest is forgotten first.
const maxBroken = 4096

// brokenBodies remembers the bodies whose writing failed. It identifies clients by address, because a Skipper opens a new
// connection for most requests. The rotation in the ETag of a body is higher than those under which it broke off, so a client
// with half a body cannot name the whole one. A body that breaks off after the kernel took its last byte is not noticed.
type brokenBodies struct {
	mu    sync.Mutex
	known recent[bodyKey, uint32] // rotations
}

// bodyKey identifies bytes sent to an address. It does not include the revision, which does not change the bytes.
type bodyKey struct {
	client   netip.Addr
	digest   table.Digest
	encoding encoding
}

// rotation returns the rotation of the next ETag. A client that names a lower one, or no ETag, may have half a body.
func (b *brokenBodies) rotation(key bodyKey) uint32 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.known.byKey[key]
}

// brokeOff records that a body with a rotation broke off, unless it has already done so under a higher one.
func (b *brokenBodies) brokeOff(key bodyKey, rotation uint32) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if rotation >= b.known.byKey[key] {
		b.known.put(key, rotation+1, maxBroken)
	}
}
