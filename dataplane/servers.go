package dataplane

import (
	"cmp"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/routesrv/routesrv/api"
)

// olderPolls is how many consecutive polls of one server must show a lower revision: a restored cluster shows it in every poll.
const olderPolls = 2

// returnAfter is how long after a failure a preferred server is tried again while another one is in use; jitter adds up to half,
// because a whole fleet may have seen the failure.
const returnAfter = time.Minute

// server is one route server with its state.
type server struct {
	url  *url.URL // its path ends in /routes
	name string   // the URL without the password

	status api.FetchServer // guarded by Client.mu

	// owned by the round
	older     int       // consecutive polls that showed a lower revision
	otherKind bool      // its last answer was not from one of our route servers
	tells     bool      // it has reported when its source was read: an answer without that proves nothing
	noDeltas  time.Time // until when it is not asked for deltas; zero if none has failed
	unnamed   bool      // its last 304 was invalid: the next request names nothing, so that the table comes
	returnAt  time.Time // when it may be tried again while another one is in use
}

func newServers(urls []string) ([]*server, error) {
	var servers []*server
	for _, raw := range urls {
		u, err := url.Parse(raw)
		switch {
		case err != nil:
			return nil, fmt.Errorf("URL %d of a route server cannot be parsed", len(servers)+1) // the text may contain a password
		case u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.RawQuery != "" || u.Fragment != "":
			return nil, fmt.Errorf("URL of a route server %q: must be http(s)://host[:port][/path]", u.Redacted())
		}
		base, ofProxy := strings.CutSuffix(strings.TrimRight(u.Path, "/"), "/routes") // as in the flags of a proxy
		if !ofProxy && strings.Contains(u.Path, "/routes/") {
			return nil, fmt.Errorf("URL of a route server %q: must end at /routes; set the zone separately", u.Redacted())
		}
		u.Path, u.RawPath = base, ""
		u = u.JoinPath("routes")
		name := u.Redacted()
		if slices.ContainsFunc(servers, func(s *server) bool { return s.url.String() == u.String() }) {
			return nil, fmt.Errorf("URL of a route server %q: given twice", name)
		}
		servers = append(servers, &server{url: u, name: name, status: api.FetchServer{URL: name, InUse: len(servers) == 0}})
	}
	return servers, nil
}

// order returns the servers to try in a round, by index: first those that have not failed, starting with the one in use, then the
// failing ones, those that have waited longest first. If all are in backoff, it has the one whose time comes first.
func (c *Client) order(now time.Time) []int {
	c.mu.Lock()
	defer c.mu.Unlock()
	var order []int
	for i, s := range c.servers {
		switch {
		case s.status.RetryAt.After(now):
		case i == c.current:
			order = slices.Insert(order, 0, i)
		default:
			order = append(order, i)
		}
	}
	if len(order) == 0 {
		return []int{c.soonest()}
	}
	slices.SortStableFunc(order, func(a, b int) int {
		x, y := c.servers[a].status, c.servers[b].status
		if x.Failures > 0 && y.Failures > 0 {
			return x.LastAttempt.Compare(y.LastAttempt)
		}
		return cmp.Compare(x.Failures, y.Failures)
	})
	return order
}

// soonest returns the index of the server that may be tried first; of several, the one in use. The caller holds mu.
func (c *Client) soonest() int {
	soonest := c.current
	for i, s := range c.servers {
		if s.status.RetryAt.Before(c.servers[soonest].status.RetryAt) {
			soonest = i
		}
	}
	return soonest
}

// retryAt returns the earliest time at which a server may be tried.
func (c *Client) retryAt() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.servers[c.soonest()].status.RetryAt
}

func (c *Client) succeeded(s *server, now time.Time) {
	c.mu.Lock()
	was := s.status
	s.status.LastSuccess, s.status.Failures, s.status.Reason = now, 0, ""
	s.status.LastError, s.status.RetryAt = "", time.Time{}
	c.mu.Unlock()
	if was.Failures > 0 {
		c.dedup.Log(slog.LevelInfo, "route server recovered", s.name, "url", s.name, "failures", was.Failures, "reason", was.Reason)
	}
}

// failed records a failure of the server, and does not ask it for a while.
func (c *Client) failed(s *server, f *Error, now time.Time) {
	s.older, s.returnAt = 0, now.Add(returnAfter+c.chance(returnAfter/2))
	s.unnamed = s.unnamed || f.Reason == ReasonProtocol
	c.mu.Lock()
	was := s.status
	s.status.Failures++
	s.status.Reason, s.status.LastError = string(f.Reason), f.Err.Error()
	advice := min(f.retryAfter, c.cfg.MaxBackoff)
	delay := max(api.Backoff(s.status.Failures, c.cfg.Interval, c.cfg.MaxBackoff, c.cfg.Random()), advice+c.chance(advice/4)) // with jitter, because all clients that it refused got the same advice
	s.status.RetryAt = now.Add(delay)
	c.mu.Unlock()
	if was.Reason == string(f.Reason) { // logged once per change
		c.log.Debug(LogServerFailed, f.attrs()...)
		return
	}
	c.dedup.Log(slog.LevelWarn, LogServerFailed, string(f.Reason)+" "+s.name, f.attrs()...)
}

func (c *Client) use(i int) {
	if i == c.current {
		return
	}
	from, to := c.servers[c.current], c.servers[i]
	c.current = i
	c.mu.Lock()
	from.status.InUse, to.status.InUse = false, true
	c.mu.Unlock()
	c.cfg.Metrics.failovers.Inc()
	c.log.Warn("route server in use changed", "from", from.name, "to", to.name)
}

// maxSkew is how far the clock of a server may be ahead: a read time in the future would keep a table fresh indefinitely.
const maxSkew = time.Minute

// evidence returns when the source of an answer was read, as far as the answer proves it; zero if it proves nothing. Once a
// server has sent X-Source-Read, an answer without it is no evidence: it may come from a cache. Any other server has read its
// source when it generated the answer, which Date tells, and which a cache keeps.
func (s *server) evidence(resp *http.Response, etag api.Entity, received time.Time) time.Time {
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
	date, err := http.ParseTime(h.Get("Date"))
	return credible(date, err, received)
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
