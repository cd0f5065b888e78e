package etagcache

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/routesrv/routesrv/internal/delivery"
	"github.com/routesrv/routesrv/internal/wire"
)

// decision is what the preconditions of a request come to.
type decision struct {
	status int
	etag   []string // of a 304 or 412
	ranges bool     // 200 is to be limited to the ranges asked for
}

// decide evaluates the preconditions in the order of RFC 9110 §13.2.2.
func (x *exchange) decide() decision {
	h := x.r.Header
	if v := h["If-Match"]; len(v) > 0 {
		if !x.ifMatch(v) {
			return decision{status: http.StatusPreconditionFailed, etag: x.etag(0)}
		}
	} else if at, ok := httpDate(h["If-Unmodified-Since"]); ok && x.modifiedAfter(at) {
		return decision{status: http.StatusPreconditionFailed, etag: x.etag(0)}
	}

	if v := h[wire.HeaderIfNoneMatch]; len(v) > 0 {
		if etag := x.ifNoneMatch(v); etag != nil {
			return decision{status: http.StatusNotModified, etag: etag}
		}
	} else if at, ok := httpDate(h["If-Modified-Since"]); ok && x.state.version.lastModified != nil && !x.modifiedAfter(at) {
		if etag := x.unnamed(); etag != nil {
			return decision{status: http.StatusNotModified, etag: etag}
		}
	}
	return decision{status: http.StatusOK, ranges: fewRanges(h["Range"]) && x.ifRange(h["If-Range"])}
}

// maxRanges is how many ranges of a table a request may ask for. Nobody needs many, and each costs a part of the answer: the whole
// table is cheaper (RFC 9110 §14.2 and §17.15).
const maxRanges = 8

// fewRanges reports whether a request asks for ranges, and not for too many.
func fewRanges(values []string) bool {
	return len(values) > 0 && strings.Count(values[0], ",") < maxRanges
}

// ifMatch reports whether one of the tags is that of the selected body, by strong comparison. Whether the body has
// arrived does not matter: the client asks for nothing else than these bytes.
func (x *exchange) ifMatch(values []string) bool {
	n := wire.ParseTags(values)
	return n.Any || slices.ContainsFunc(n.List, func(t wire.NamedTag) bool { return !t.Weak && x.sameBody(t.Tag) })
}

// ifRange reports whether a range may be sent: without If-Range, or if it names the selected body (RFC 9110 §13.1.5).
func (x *exchange) ifRange(values []string) bool {
	if len(values) == 0 || values[0] == "" {
		return true
	}
	if at, ok := httpDate(values[:1]); ok {
		return x.state.version.lastModified != nil && at.Equal(x.state.version.modified)
	}
	n := wire.ParseTags(values[:1])
	return len(n.List) == 1 && !n.List[0].Weak && x.sameBody(n.List[0].Tag)
}

// ifNoneMatch returns the ETag of a 304, or nil if the table is to be sent.
func (x *exchange) ifNoneMatch(values []string) []string {
	n := wire.ParseTags(values)
	if n.Any {
		return x.unnamed()
	}
	var other, newer wire.Tag // of another digest: the highest of all, and of those that may be newer
	for _, t := range n.List {
		same := t.Digest == x.variant.table.Digest()
		if same && t.Encoding != x.encoding && !x.deltas {
			continue
		}
		if !x.deltas && !x.cache.bodies.Arrived(delivery.Key{Client: clientOf(x.r), Digest: t.Digest, Encoding: uint8(t.Encoding)}, t.Rotation) {
			continue
		}
		if same {
			return x.confirm(t.Tag)
		}
		if t.Revision > other.Revision {
			other = t.Tag
		}
		if t.Revision > newer.Revision && !x.notOlderThan(t.Tag) {
			newer = t.Tag
		}
	}
	if newer.Revision > 0 {
		return x.keep(newer)
	}
	if x.state.newest > 0 && x.stamp.revision < other.Revision {
		// This content was there before and is there again. Under its old name a replica that lags behind would send the
		// client back to what it has now.
		x.stamp = x.variant.raise(max(other.Revision, x.state.newest))
	}
	return nil
}

// unnamed returns the ETag of a 304 to a client that says it has the table without naming it, or nil if the last body
// that was sent to its address has broken off.
func (x *exchange) unnamed() []string {
	key := x.bodyKey()
	if !x.cache.bodies.Whole(key) {
		return nil
	}
	return x.etag(x.cache.bodies.Rotation(key))
}

// confirm returns the ETag of a 304 to a client that has this table. It is never older than the one it named: who
// takes over the ETag of a 304 must not be sent back in time for it.
func (x *exchange) confirm(t wire.Tag) []string {
	if t.Rotation == 0 && t.Revision <= x.stamp.revision {
		return x.stamp.etags[x.encoding]
	}
	t.Revision = max(t.Revision, x.stamp.revision)
	return []string{t.String()}
}

// notOlderThan reports whether it is certain that the table is not older than another one that a client names: see the
// package documentation. Where there are no revisions there is no order, and nothing is older.
func (x *exchange) notOlderThan(t wire.Tag) bool {
	st := x.state
	if st.held && st.candidate != nil && x.cache.history.mayBe(t.Digest, st.candidate) && t.Digest == st.candidate.Digest() {
		return false // another replica has let it go: with this one the client would be back in time
	}
	return st.newest == 0 || t.Revision <= st.oldest || x.cache.history.showed(t.Digest, t.Revision, st.version.readings.order)
}

// keep claims a table that may be newer. It returns the ETag of a 304, or nil if the claim is refuted or resolved.
func (x *exchange) keep(t wire.Tag) []string {
	metrics := x.cache.cfg.Metrics
	known, isNew := x.cache.claims.ask(claimed{t.Digest, t.Revision}, clientOf(x.r), x.cache.started.Load())
	switch {
	case known.refuted:
		metrics.OlderTables.Inc()
		return nil
	case known.resolved:
		x.stamp = x.variant.raise(known.as) // as where it was resolved, so that nobody takes it for older than what it replaces
		return nil
	}
	if isNew {
		metrics.Claims.Inc()
		x.cache.cfg.Logger.Debug("client may have a newer table", "digest", t.Digest.String(), "revision", t.Revision,
			"oldest", x.state.oldest, "newest", x.state.newest)
		x.cache.cfg.Recheck()
	}
	x.kept = true
	return []string{t.String()}
}

// sameBody reports whether t names the bytes that would be sent.
func (x *exchange) sameBody(t wire.Tag) bool {
	return t.Digest == x.variant.table.Digest() && t.Encoding == x.encoding
}

// modifiedAfter reports whether the table is newer than at. A table without a time is not.
func (x *exchange) modifiedAfter(at time.Time) bool {
	return x.state.version.modified.After(at)
}

// httpDate reads a header with one date. A list or anything else is as good as no header (RFC 9110 §13.1.3).
func httpDate(values []string) (time.Time, bool) {
	if len(values) != 1 {
		return time.Time{}, false
	}
	at, err := http.ParseTime(values[0])
	return at, err == nil
}
