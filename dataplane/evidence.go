package dataplane

import (
	"net/http"
	"strconv"
	"time"

	"github.com/routesrv/routesrv/internal/api"
)

// maxSkew is how far the clock of a server may be ahead of ours. A read time further in the future proves nothing: it could keep
// a table fresh indefinitely.
const maxSkew = time.Minute

// evidence returns when the source of an answer was read, as far as the answer proves it; zero if it proves nothing. sent and
// received are the times around the exchange.
//
// Our route servers send X-Source-Read. Once one has, an answer without that header is no evidence: an intermediary may have
// answered from its cache. Any other server has read its source when it generated the answer, which Date and Age tell (RFC 9111
// §4.2.3). A cache keeps the old Date, so its answers age.
func (s *server) evidence(resp *http.Response, etag api.Entity, sent, received time.Time) time.Time {
	h := resp.Header
	if text := h.Get(api.HeaderSourceRead); text != "" {
		read, err := api.ParseTime(text)
		at := credible(read, err, received)
		s.tells = s.tells || !at.IsZero()
		return at
	}
	switch {
	case h.Get(api.HeaderRevision) != "":
		return time.Time{} // one of our servers that does not know the time
	case s.tells && (resp.StatusCode != http.StatusOK || etag.Tag.Revision > 0):
		return time.Time{}
	}
	s.tells = false // a complete table from another kind of server
	return generated(h, sent, received)
}

// generated returns when the origin generated an answer, from its age (RFC 9111 §4.2.3); zero if the answer has no valid Date.
func generated(h http.Header, sent, received time.Time) time.Time {
	date, err := http.ParseTime(h.Get("Date"))
	at := credible(date, err, received)
	if at.IsZero() {
		return time.Time{}
	}
	if text := h.Get("Age"); text != "" {
		seconds, err := strconv.ParseUint(text, 10, 31)
		if err != nil {
			return time.Time{} // the answer comes from a cache that does not tell its age
		}
		if aged := sent.Add(-time.Duration(seconds) * time.Second); aged.Before(at) {
			at = aged
		}
	}
	return at
}

// credible returns a server's time, or zero if it cannot be true. A time up to maxSkew in the future counts as now.
func credible(at time.Time, err error, now time.Time) time.Time {
	switch {
	case err != nil || at.After(now.Add(maxSkew)):
		return time.Time{}
	case at.After(now):
		return now
	}
	return at
}
