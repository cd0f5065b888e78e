package etagcache

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/routesrv/routesrv/internal/delivery"
	"github.com/routesrv/routesrv/internal/wire"
)

// decision is the result of a request's preconditions.
type decision struct {
	status int
	etag   []string // of a 304 or 412
	ranges bool     // a 200 is limited to the requested ranges
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

// maxRanges is how many ranges of a table a request may ask for. Clients do not need many, and each one costs a part of the
// answer: the whole table is cheaper (RFC 9110 §14.2 and §17.15).
const maxRanges = 8

// fewRanges reports whether a request asks for ranges, but not too many.
func fewRanges(values []string) bool {
	return len(values) > 0 && strings.Count(values[0], ",") < maxRanges
}

// ifMatch reports whether one of the tags matches the selected body by strong comparison. It does not matter whether the body has
// arrived, because the client asks only for these bytes.
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

// ifNoneMatch returns the ETag of a 304, or nil if the table must be sent.
func (x *exchange) ifNoneMatch(values []string) []string {
	n := wire.ParseTags(values)
	if n.Any {
		return x.unnamed()
	}
	var other, newer wire.Tag // with another digest: the highest of all, and the highest of those that may be newer
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
		// This content was served before and is current again. Under its old revision, a lagging replica would send the client
		// back to the table that it has now.
		x.stamp = x.variant.raise(max(other.Revision, x.state.newest))
	}
	return nil
}

// unnamed returns the ETag of a 304 for a client that says it has the table without naming it, or nil if the last body sent to
// its address broke off.
func (x *exchange) unnamed() []string {
	key := x.bodyKey()
	if !x.cache.bodies.Whole(key) {
		return nil
	}
	return x.etag(x.cache.bodies.Rotation(key))
}

// confirm returns the ETag of a 304 for a client that has this table. Its revision is never lower than the one that the client
// named: a client that adopts the ETag of a 304 must not go back in time because of it.
func (x *exchange) confirm(t wire.Tag) []string {
	if t.Rotation == 0 && t.Revision <= x.stamp.revision {
		return x.stamp.etags[x.encoding]
	}
	t.Revision = max(t.Revision, x.stamp.revision)
	return []string{t.String()}
}

// notOlderThan reports whether the served table is certainly not older than the table that a client names: see the package
// documentation. Without revisions there is no order, and no table is older.
func (x *exchange) notOlderThan(t wire.Tag) bool {
	st := x.state
	if st.held && st.candidate != nil && x.cache.history.mayBe(t.Digest, st.candidate) && t.Digest == st.candidate.Digest() {
		return false // another replica has already published this table: ours could send the client back in time
	}
	return st.newest == 0 || t.Revision <= st.oldest || x.cache.history.showed(t.Digest, t.Revision, st.version.readings.order)
}

// keep records a claim about a table that may be newer. It returns the ETag of a 304, or nil if the claim is refuted or resolved.
func (x *exchange) keep(t wire.Tag) []string {
	metrics := x.cache.cfg.Metrics
	known, isNew := x.cache.claims.ask(claimed{t.Digest, t.Revision}, clientOf(x.r), x.cache.started.Load())
	switch {
	case known.refuted:
		metrics.OlderTables.Inc()
		return nil
	case known.resolved:
		x.stamp = x.variant.raise(known.as) // as where the claim was resolved, so that it does not look older than the table it replaces
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

// modifiedAfter reports whether the table is newer than at. It returns false for a table without a time.
func (x *exchange) modifiedAfter(at time.Time) bool {
	return x.state.version.modified.After(at)
}

// httpDate parses a header with one date. A list or an invalid value counts as no header (RFC 9110 §13.1.3).
func httpDate(values []string) (time.Time, bool) {
	if len(values) != 1 {
		return time.Time{}, false
	}
	at, err := http.ParseTime(values[0])
	return at, err == nil
}
