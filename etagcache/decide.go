package etagcache

import (
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/routesrv/routesrv/api"
)

// maxRanges is the maximum number of ranges in a request: each adds a part, and the whole table is cheaper (RFC 9110 §17.15).
const maxRanges = 8

// noTag is an entity tag that is never sent.
const noTag = `""`

// conditions returns the tag of the answer, and the conditions and ranges of the request for [http.ServeContent], which compares
// texts: a tag that matches becomes the tag of the answer, every other one noTag.
func (x *exchange) conditions() (h http.Header, tag api.Tag) {
	h = make(http.Header)
	for _, name := range []string{"If-Unmodified-Since", "If-Modified-Since", "If-Range", "Range"} {
		if values := x.r.Header[name]; len(values) == 1 {
			h[name] = values
		}
	}
	rotation := x.cache.broken.rotation(x.bodyKey())
	var kept api.Tag
	same := false
	if values := x.r.Header[api.HeaderIfNoneMatch]; len(values) > 0 {
		if named := api.ParseTags(values); named.Any {
			same = rotation == 0
		} else {
			kept, same = x.confirm(named.List)
		}
		h.Del("If-Modified-Since")
		h.Set(api.HeaderIfNoneMatch, noTag)
	} else if rotation > 0 {
		h.Del("If-Modified-Since") // the client may have half of the body
	}
	tag = x.tag(rotation) // confirm may have raised the revision
	if same {
		if !kept.Digest.IsZero() {
			tag = kept
		}
		h.Set(api.HeaderIfNoneMatch, tag.String())
	}
	// It does not matter whether the named body has arrived, because the client asks only for these bytes.
	if values := x.r.Header["If-Match"]; len(values) > 0 {
		h.Set("If-Match", noTag)
		if named := api.ParseTags(values); named.Any || slices.ContainsFunc(named.List, x.names) {
			h.Set("If-Match", "*")
		}
	}
	if named := api.ParseTags(h["If-Range"]).List; len(named) == 1 && x.names(named[0]) {
		h.Set("If-Range", tag.String())
	}
	// Several ranges of an encoded body would arrive in a body that is not encoded. Any server may ignore ranges, and must for HEAD.
	if n := strings.Count(h.Get("Range"), ","); n >= maxRanges || n > 0 && x.encoding != identity || x.r.Method == http.MethodHead {
		h.Del("Range")
	}
	return h, tag
}

func (x *exchange) names(t api.NamedTag) bool {
	return !t.Weak && t.Digest == x.variant.table.Digest() && t.Encoding == x.encoding
}

// confirm returns the tag of a 304 for a client that names its tables; ok is false if the table must be sent.
func (x *exchange) confirm(named []api.NamedTag) (tag api.Tag, ok bool) {
	var other, newer api.Tag // with another digest: the highest of all, and the highest of those that may be newer
	for _, t := range named {
		same := t.Digest == x.variant.table.Digest()
		if same && t.Encoding != x.encoding && !x.deltas {
			continue
		}
		if !x.deltas && t.Rotation < x.cache.broken.rotation(bodyKey{clientOf(x.r), t.Digest, t.Encoding}) {
			continue
		}
		if same {
			// Never a lower revision than the client named: one that adopts the ETag of a 304 must not go back in time because of it.
			t.Revision, t.Encoding = max(t.Revision, x.revision), x.encoding
			return t.Tag, true
		}
		if t.Revision > other.Revision {
			other = t.Tag
		}
		if t.Revision > newer.Revision && !x.cache.notOlderThan(x.state, Claim{t.Digest, t.Revision}) {
			newer = t.Tag
		}
	}
	if newer.Revision > 0 {
		return newer, x.keep(newer)
	}
	if x.state.newest > 0 && x.revision < other.Revision {
		// This content was served before and is current again. Under its old revision, a lagging replica would send the client
		// back to the table that it has now.
		x.revision = x.variant.raise(max(other.Revision, x.state.newest))
	}
	return api.Tag{}, false
}

// notOlderThan reports whether the served table is certainly not older than a named one: see the package documentation.
func (c *Cache) notOlderThan(st *serving, t Claim) bool {
	if candidate := st.read.Candidate; candidate != nil && t.Digest == candidate.Digest() {
		return false // another replica has already published this table, so this replica's could be older
	}
	return st.newest == 0 || t.Revision <= st.oldest || c.history.showed(t.Digest, t.Revision, st.version.readings.order)
}

// keep records a claim about a table that may be newer, and reports whether the client must keep it.
func (x *exchange) keep(t api.Tag) bool {
	metrics := x.cache.cfg.Metrics
	known, isNew := x.cache.claims.ask(Claim{t.Digest, t.Revision}, clientOf(x.r), x.cache.started.Load())
	switch {
	case known.refuted:
		metrics.OlderTables.Inc()
		return false
	case known.resolved:
		x.revision = x.variant.raise(known.as) // as where the claim was resolved, so that it does not look older than the table it replaces
		return false
	}
	if isNew {
		metrics.Claims.Inc()
		x.cache.cfg.Logger.Debug("client may have a newer table", "digest", t.Digest.String(), "revision", t.Revision,
			"oldest", x.state.oldest, "newest", x.state.newest)
		x.cache.cfg.Recheck()
	}
	x.kept = true
	return true
}

// encoding is a content coding of bodies.
type encoding = api.Encoding

const (
	identity  = api.Identity
	gzipped   = api.Gzip
	zstandard = api.Zstd
	encodings = api.Encodings
)

// preference orders encodings that a client accepts equally: the fewest bytes first.
var preference = []encoding{zstandard, gzipped, identity}

// weightImplicit is the weight of an identity that the client does not name: it is acceptable, but only if nothing else is
// (RFC 9110 §12.5.3). It is less than every weight that a client can give.
const weightImplicit = 0.0001

// negotiate returns the encoding for the values of Accept-Encoding; identity for a header that excludes everything.
func negotiate(values []string, among []encoding) encoding {
	weights := make(map[string]float64)
	for _, value := range values {
		for member := range strings.SplitSeq(value, ",") {
			if strings.Trim(member, " \t") == "" {
				continue
			}
			coding, parameters, err := mime.ParseMediaType(member)
			weight := 1.0
			if q, given := parameters["q"]; given && err == nil {
				weight, err = strconv.ParseFloat(q, 64)
			}
			if err != nil || !(weight >= 0 && weight <= 1) {
				return identity
			}
			weights[strings.TrimPrefix(coding, "x-")] = weight // x-gzip
		}
	}
	best, most := identity, 0.0
	for _, e := range among {
		weight, ok := weights[e.String()]
		if !ok {
			weight, ok = weights["*"]
		}
		if !ok && e == identity {
			weight = weightImplicit
		}
		if weight > most {
			best, most = e, weight
		}
	}
	return best
}
