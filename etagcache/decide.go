package etagcache

import (
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/routesrv/routesrv/internal/wire"
)

// decide evaluates the preconditions in the order of RFC 9110 §13.2.2. It returns the status, and the tag of a 304 or 412.
func (x *exchange) decide() (status int, tag wire.Tag) {
	h := x.r.Header
	if v := h["If-Match"]; len(v) > 0 {
		if !x.ifMatch(v) {
			return http.StatusPreconditionFailed, x.tag(0)
		}
	} else if at, ok := httpDate(h["If-Unmodified-Since"]); ok && x.modifiedAfter(at) {
		return http.StatusPreconditionFailed, x.tag(0)
	}
	same := false
	if v := h[wire.HeaderIfNoneMatch]; len(v) > 0 {
		tag, same = x.ifNoneMatch(v)
	} else if at, ok := httpDate(h["If-Modified-Since"]); ok && !x.state.version.modified.IsZero() && !x.modifiedAfter(at) {
		tag, same = x.confirmUnnamed()
	}
	if same {
		return http.StatusNotModified, tag
	}
	return http.StatusOK, wire.Tag{}
}

// maxRanges is how many ranges of a table a request may ask for. Clients do not need many, and each one costs a part of the
// answer: the whole table is cheaper (RFC 9110 §14.2 and §17.15).
const maxRanges = 8

// asksForRanges reports whether a request asks for ranges, but not too many, and may have them.
func (x *exchange) asksForRanges() bool {
	values := x.r.Header["Range"]
	return len(values) > 0 && strings.Count(values[0], ",") < maxRanges && x.ifRange(x.r.Header["If-Range"])
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
		return !x.state.version.modified.IsZero() && at.Equal(x.state.version.modified)
	}
	n := wire.ParseTags(values[:1])
	return len(n.List) == 1 && !n.List[0].Weak && x.sameBody(n.List[0].Tag)
}

// ifNoneMatch returns the tag of a 304; ok is false if the table must be sent.
func (x *exchange) ifNoneMatch(values []string) (tag wire.Tag, ok bool) {
	named := wire.ParseTags(values)
	if named.Any {
		return x.confirmUnnamed()
	}
	return x.confirm(named.List)
}

// confirmUnnamed returns the tag of a 304 for a client that says it has the table without naming it. ok is false if the last body sent
// to its address broke off.
func (x *exchange) confirmUnnamed() (tag wire.Tag, ok bool) {
	key := x.bodyKey()
	return x.tag(x.cache.broken.rotation(key)), x.cache.broken.whole(key)
}

// confirm returns the tag of a 304 for a client that names its tables; ok is false if the table must be sent.
func (x *exchange) confirm(named []wire.NamedTag) (tag wire.Tag, ok bool) {
	var other, newer wire.Tag // with another digest: the highest of all, and the highest of those that may be newer
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
		if t.Revision > newer.Revision && !x.notOlderThan(t.Tag) {
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
	return wire.Tag{}, false
}

// notOlderThan reports whether the served table is certainly not older than the table that a client names: see the package
// documentation. Without revisions there is no order, and no table is older.
func (x *exchange) notOlderThan(t wire.Tag) bool {
	st := x.state
	if st.held && st.candidate != nil && t.Digest == st.candidate.Digest() {
		return false // another replica has already published this table: ours could send the client back in time
	}
	return st.newest == 0 || t.Revision <= st.oldest || x.cache.history.showed(t.Digest, t.Revision, st.version.readings.order)
}

// keep records a claim about a table that may be newer, and reports whether the client must keep it: not if the claim is refuted or
// resolved.
func (x *exchange) keep(t wire.Tag) bool {
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

// encoding is a content coding of bodies.
type encoding = wire.Encoding

const (
	identity  = wire.Identity
	gzipped   = wire.Gzip
	zstandard = wire.Zstd
	encodings = wire.Encodings
)

// preference orders encodings that a client accepts equally: the fewest bytes first. Streams have no zstd form.
var (
	preference       = []encoding{zstandard, gzipped, identity}
	streamPreference = []encoding{gzipped, identity}
)

// weightImplicit is the weight of an identity that the client does not name: it is acceptable, but only if nothing else is
// (RFC 9110 §12.5.3). It is less than every weight that a client can give.
const weightImplicit = 0.0001

// negotiate returns the encoding for the values of Accept-Encoding. It returns identity for a header that is malformed or
// excludes everything: a larger table is better than none.
func negotiate(values []string, among []encoding) encoding {
	weights := make(map[string]float64)
	for _, value := range values {
		for member := range strings.SplitSeq(value, ",") {
			coding, weight, ok := parseMember(member)
			if !ok {
				return identity
			}
			if coding == "x-gzip" {
				coding = "gzip"
			}
			weights[coding] = weight
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

// qvalue is the form of a weight (RFC 9110 §12.4.2).
var qvalue = regexp.MustCompile(`^(0(\.[0-9]{0,3})?|1(\.0{0,3})?)$`)

// parseMember parses one member of Accept-Encoding. The coding is in lower case, and empty for an empty member.
func parseMember(member string) (coding string, weight float64, ok bool) {
	coding, params, weighted := strings.Cut(member, ";")
	coding = strings.ToLower(strings.Trim(coding, " \t"))
	if strings.ContainsAny(coding, " \t\"=/") {
		return "", 0, false
	}
	if !weighted {
		return coding, 1, true
	}
	name, q, ok := strings.Cut(strings.Trim(params, " \t"), "=")
	if !ok || coding == "" || !strings.EqualFold(name, "q") || !qvalue.MatchString(q) {
		return "", 0, false
	}
	weight, err := strconv.ParseFloat(q, 64)
	return coding, weight, err == nil
}
