package dataplane

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"
)

// Poll is one round of Run: it asks the server in use, and if that fails the others, and applies a table that passes. It returns
// nil if one of them gave a usable answer, held or not, or else the errors of all servers tried, each an *Error, or the error of
// ctx. Rounds never run concurrently. At the end it waits for the files, for five seconds at most.
func (c *Client) Poll(ctx context.Context) error {
	c.polling.Lock()
	defer c.polling.Unlock()
	defer c.publisher.Flush()
	return c.poll(ctx, false)
}

// poll is Poll; full requires a full table. The caller holds polling.
func (c *Client) poll(ctx context.Context, full bool) error {
	zone := c.begin()
	err := c.round(ctx, zone, full)
	if ctx.Err() != nil {
		return ctx.Err() // the end of the loop is not a failure
	}
	c.ended(err)
	return err
}

// begin records that a round begins, and returns its zone.
func (c *Client) begin() (zone string) {
	zone = c.readZone()
	start := time.Now()
	c.update(func(l *loopState) { l.LastAttempt, l.Zone = start, zone })
	return zone
}

func (c *Client) ended(err error) {
	now, before := time.Now(), 0
	c.update(func(l *loopState) {
		if before = l.Failures; err == nil {
			l.LastSuccess, l.Failures = now, 0
			return
		}
		l.Failures++
		l.FailedTotal++
	})
	switch {
	case err != nil && before == 0:
		c.dedup.Log(slog.LevelError, LogUnreachable, "", "error", err)
	case err == nil && before > 0:
		c.dedup.Log(slog.LevelInfo, LogReachable, "")
	}
	c.publisher.Tend()
	c.cfg.Ended(err)
}

// round tries the servers until one gives a usable answer.
func (c *Client) round(parent context.Context, zone string, full bool) error {
	start := time.Now()
	deadline := start.Add(roundTimeouts * c.cfg.Timeout)
	ctx, cancel := context.WithDeadline(parent, deadline)
	defer cancel()
	var errs []error
	for _, i := range c.order(start) {
		if !time.Now().Before(deadline) {
			break // not by ctx, whose timer may be late: a server without time to answer has not failed
		}
		err := c.try(ctx, parent, c.servers[i], zone, full)
		if err == nil {
			c.use(i)
			c.goBack(ctx, parent, zone)
			return nil
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// goBack tries the servers before the one in use whose time has come, and uses the first that answers.
func (c *Client) goBack(ctx, parent context.Context, zone string) {
	for i, s := range c.servers[:c.current] {
		if time.Now().Before(s.returnAt) || ctx.Err() != nil {
			continue
		}
		short, cancel := context.WithTimeout(ctx, probeTimeout)
		err := c.try(short, parent, s, zone, false)
		cancel()
		if err == nil {
			c.use(i)
			return
		}
	}
}

// try asks a server and applies a table that passes. After a delta that does not verify, it requests the full table.
func (c *Client) try(ctx, parent context.Context, s *server, zone string, full bool) error {
	c.update(func(*loopState) { s.status.LastAttempt = time.Now() })
	f := c.measured(ctx, s, zone, full)
	if f != nil && f.ofDelta && parent.Err() == nil {
		c.deltaFailed(s, f)
		f = c.measured(ctx, s, zone, true)
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
func (c *Client) measured(parent context.Context, s *server, zone string, full bool) *Error {
	ctx, cancel := context.WithTimeout(parent, c.cfg.Timeout)
	defer cancel()
	start := time.Now()
	result, f := c.exchange(ctx, s, zone, full)
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

// exchange asks the server and handles its answer. If it fails or panics, nothing changes.
func (c *Client) exchange(ctx context.Context, s *server, zone string, full bool) (result string, f *Error) {
	var a *answer
	defer func() {
		if f = c.complete(s, caught(recover(), f)); f == nil {
			return
		}
		result = resultError
		if slices.Contains(verifyReasons, f.Reason) {
			result = resultRejected
			f.ofDelta = a != nil && a.ofDelta
		}
	}()
	seen := c.tables()
	w := s.want(seen, full)
	if a, f = c.fetch(ctx, s, zone, seen, w); f != nil {
		return "", f
	}
	if result, f = c.handle(s, seen, a); f == nil {
		c.cfg.Metrics.countVerified(a)
	}
	return result, f
}
