package dataplane

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"runtime/debug"
	"slices"
	"time"

	"github.com/routesrv/routesrv/api"
	"github.com/routesrv/routesrv/table"
)

// Messages of the log.
const (
	LogStarted         = "fetching started"
	LogStopped         = "fetching stopped"
	LogTableApplied    = "table applied"
	LogTableConfirmed  = "table of the last-known-good file confirmed by a route server"
	LogTableOlder      = "route server has a table that is older than the applied one, not accepted yet"
	LogOlderAccepted   = "route server insists on an older table"
	LogServerFailed    = "route server failed"
	LogServerRecovered = "route server recovered"
	LogServerChanged   = "route server in use changed"
	LogUnreachable     = "no route server returns a table, the applied one stays"
	LogReachable       = "a route server returns a table again"
	LogZone            = "zone read"
	LogNoZone          = "no zone, requesting the full table"
)

const (
	// roundTimeouts limits a round, in exchanges: servers not reached in time come first in a later round.
	roundTimeouts = 3
	// probeTimeout limits a question, and the attempt to go back to a preferred server, because the next poll waits for it.
	probeTimeout = 2 * time.Second
	// recheckGap is the minimum time between the starts of a round and a requested one.
	recheckGap = time.Second
	// jitter is the share of the interval, up and down, that is random.
	jitter = 0.1
)

// interval returns the jittered time between two rounds.
func (c *Client) interval() time.Duration {
	return time.Duration(float64(c.cfg.Interval) * (1 - jitter + 2*jitter*c.cfg.Random()))
}

// Recheck asks Run for an early poll. It never blocks. Several requests before the poll count as one, and polls are at least a
// second apart.
func (c *Client) Recheck() {
	select {
	case c.recheck <- struct{}{}:
	default:
	}
}

// Poll is one round of Run: it asks the server in use, and if that fails the others, and applies a table that passes. It returns
// nil if one of them gave a usable answer, which includes a table that is held or not accepted yet. Otherwise it returns the
// errors of all servers tried, each an *Error, or the error of ctx. Rounds never run concurrently. At the end it waits for the files,
// for five seconds at most.
func (c *Client) Poll(ctx context.Context) error {
	c.polling.Lock()
	defer c.polling.Unlock()
	defer c.publisher.Flush()
	return c.poll(ctx, "")
}

// poll is Poll with a reason to fetch a full table; empty if there is none. The caller holds polling.
func (c *Client) poll(ctx context.Context, reason fullReason) error {
	zone := c.begin()
	err := c.round(ctx, zone, reason)
	if ctx.Err() != nil {
		return ctx.Err() // the end of the loop is not a failure
	}
	c.ended(err)
	return err
}

// begin records that a round begins, and returns its zone.
func (c *Client) begin() (zone string) {
	zone = c.zoneSource.read()
	start := time.Now()
	c.update(func(l *loopState) { l.LastAttempt, l.Zone = start, zone })
	return zone
}

// ended records how a round ended.
func (c *Client) ended(err error) {
	now := time.Now()
	c.update(func(l *loopState) {
		if err == nil {
			l.LastSuccess, l.Failures = now, 0
			return
		}
		l.Failures++
		l.FailedTotal++
	})
	switch {
	case err != nil && !c.failing:
		c.dedup.Log(slog.LevelError, LogUnreachable, "", "error", err)
	case err == nil && c.failing:
		c.dedup.Log(slog.LevelInfo, LogReachable, "")
	}
	c.failing = err != nil
	c.publisher.Tend()
	c.cfg.Ended(err)
}

func (c *Client) update(change func(*loopState)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change(&c.loop)
}

// round tries the servers until one gives a usable answer.
func (c *Client) round(parent context.Context, zone string, reason fullReason) error {
	start := time.Now()
	deadline := start.Add(roundTimeouts * c.cfg.Timeout)
	ctx, cancel := context.WithDeadline(parent, deadline)
	defer cancel()
	var errs []error
	for _, i := range c.order(start) {
		if !time.Now().Before(deadline) {
			break // not by ctx, whose timer may be late: a server without time to answer has not failed
		}
		err := c.try(ctx, parent, c.servers[i], zone, reason)
		if err == nil {
			c.use(i)
			c.goBack(ctx, parent, zone)
			return nil
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// try asks a server and applies a table that passes. After a delta that does not verify, it requests the full table.
func (c *Client) try(ctx, parent context.Context, s *server, zone string, reason fullReason) error {
	c.mu.Lock()
	s.status.LastAttempt = time.Now()
	c.mu.Unlock()
	f := c.measured(ctx, s, zone, reason)
	if f != nil && f.ofDelta && parent.Err() == nil {
		c.deltaFailed(s, f)
		f = c.measured(ctx, s, zone, fullDelta)
	}
	if parent.Err() != nil && f != nil {
		return parent.Err() // not the server's fault
	}
	now := time.Now()
	if f == nil {
		s.unnamed = false
		c.succeeded(s, now)
		return nil
	}
	c.failed(s, f, now)
	// The next attempt must not reuse a connection to a dead peer, which many requests may share.
	c.http.CloseIdleConnections()
	return f
}

// measured makes one exchange, and counts the result.
func (c *Client) measured(parent context.Context, s *server, zone string, reason fullReason) *Error {
	ctx, cancel := context.WithTimeout(parent, c.cfg.Timeout)
	defer cancel()
	start := time.Now()
	result, f := c.exchange(ctx, s, zone, reason)
	if f != nil {
		collect(f.dropped)
	}
	if parent.Err() != nil && f != nil {
		return f // the loop or the round has ended
	}
	m := c.cfg.Metrics
	m.duration.Observe(time.Since(start).Seconds())
	m.fetches.WithLabelValues(result).Inc()
	switch {
	case f == nil:
	case result == resultRejected:
		m.verifyFailures.WithLabelValues(string(f.Reason)).Inc()
	default:
		m.fetchErrors.WithLabelValues(string(f.Reason)).Inc()
	}
	return f
}

// exchange asks the server and handles its answer. If it fails or panics, nothing changes: an unexpected input must not remove
// the table.
func (c *Client) exchange(ctx context.Context, s *server, zone string, reason fullReason) (result string, f *Error) {
	var a *answer
	defer func() {
		f = caught(recover(), f)
		if f == nil {
			return
		}
		f = c.named(f)
		f.URL, result = s.name, resultError
		if slices.Contains(verifyReasons, f.Reason) {
			result = resultRejected
			f.ofDelta = a != nil && a.ofDelta
		}
	}()
	seen := c.view()
	w := c.want(s, seen, reason)
	if a, f = c.fetch(ctx, s, zone, seen, w); f != nil {
		return "", f
	}
	if result, f = c.handle(s, seen, a); f == nil {
		c.countVerified(a, w)
	}
	return result, f
}

// caught converts a panic to an error; it returns f if there was none.
func caught(panicked any, f *Error) *Error {
	if panicked != nil {
		f = failf(ReasonPanic, "panic: %v", panicked)
		f.stack = debug.Stack()
	}
	return f
}

// goBack tries the servers before the one in use whose time has come, and uses the first that answers.
func (c *Client) goBack(ctx, parent context.Context, zone string) {
	for i, s := range c.servers[:c.current] {
		if time.Now().Before(s.returnAt) || ctx.Err() != nil {
			continue
		}
		short, cancel := context.WithTimeout(ctx, probeTimeout)
		err := c.try(short, parent, s, zone, "")
		cancel()
		if err == nil {
			c.use(i)
			return
		}
	}
}

// head sends a HEAD request that names tables, and returns the answer; it has no body. Its status is 200 or 304.
func (c *Client) head(ctx context.Context, u *url.URL, encoding string, names []string) (*http.Response, *Error) {
	ctx, cancel := context.WithTimeout(ctx, min(c.cfg.Timeout, probeTimeout))
	defer cancel()
	resp, f := c.request(ctx, http.MethodHead, u, http.Header{"Accept-Encoding": {encoding}}, names, nil)
	if f != nil {
		return nil, f
	}
	resp.Body.Close()
	if resp.StatusCode == http.StatusNotModified {
		return resp, nil
	}
	return resp, checkStatus(resp)
}

// Opinion is a server's answer to a question about a table.
type Opinion struct {
	// Keep means that a client with the table should keep it: the server has it, too, or the table may be newer than the
	// server's.
	Keep bool
	// Digest and Revision identify the table that it would send otherwise.
	Digest   table.Digest
	Revision uint64
}

// Ask asks the server in use whether it would send its table to a client that has another one, with the given digest and
// revision. It is for a relay, whose clients name tables that it never had. It changes nothing, and does not wait for a poll. The
// error is an *Error, or the error of ctx.
func (c *Client) Ask(ctx context.Context, digest table.Digest, revision uint64) (Opinion, error) {
	s := c.inUse()
	var e api.Entity
	resp, f := c.head(ctx, s.url, "identity", []string{api.Tag{Digest: digest, Revision: revision}.String()})
	if f == nil {
		if e = api.ParseEntity(resp.Header.Get(api.HeaderETag)); resp.StatusCode != http.StatusNotModified && !e.Known {
			f = failf(ReasonTag, "ETag %.200q has no digest", e.Text)
		}
	}
	if f != nil {
		f.URL = s.name
		return Opinion{}, f
	}
	if resp.StatusCode == http.StatusNotModified {
		return Opinion{Keep: true}, nil
	}
	return Opinion{Digest: e.Tag.Digest, Revision: e.Tag.Revision}, nil
}

// inUse returns the server in use.
func (c *Client) inUse() *server {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := slices.IndexFunc(c.servers, func(s *server) bool { return s.status.InUse })
	return c.servers[max(i, 0)]
}
