package dataplane

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"slices"
	"time"

	"github.com/routesrv/routesrv/table"
)

// Messages of the log.
const (
	LogStarted         = "fetching started"
	LogStopped         = "fetching stopped"
	LogTableApplied    = "table applied"
	LogTableConfirmed  = "table of the LKG file confirmed by a route server"
	LogTableHeld       = "suspicious table held back, the applied one stays"
	LogTableReleased   = "held table released"
	LogHoldEnded       = "hold ended, the route server shows a table that is fine"
	LogTableOlder      = "route server has a table that is older than the applied one, not taken yet"
	LogOlderAccepted   = "route server insists on an older table"
	LogServerFailed    = "route server failed"
	LogServerRecovered = "route server recovered"
	LogServerChanged   = "route server in use changed"
	LogUnreachable     = "no route server gives a table, the applied one stays"
	LogReachable       = "a route server gives a table again"
	LogZone            = "zone read"
	LogNoZone          = "no zone, the full table is asked for"
	LogLKGMissing      = "no LKG file yet"
	LogLKGLoaded       = "LKG file loaded, its table is stale until a route server confirms it"
	LogLKGSetAside     = "LKG file is not usable, set aside and not loaded"
	LogLKGUnreadable   = "LKG file cannot be read"
	LogFileFailed      = "file cannot be written, the table is served from memory"
	LogFileSlow        = "file takes long to be written, not waiting for it"
	LogFileRecovered   = "file written again"
)

const (
	// roundTimeouts bounds a round, in exchanges: servers that are not reached by then come first in a later one.
	roundTimeouts = 3
	// probeTimeout bounds a probe, because the next poll waits for it.
	probeTimeout = 2 * time.Second
	// recheckGap is the least time between the starts of a round and of one that was asked for.
	recheckGap = time.Second
	// jitter is the share of the interval, up and down, that is left to chance.
	jitter = 0.1
)

// Run polls until ctx ends, and returns nil then. It polls at once, and writes the LKG file once more at the end if a
// later poll has confirmed its table. It is to be called once.
func (c *Client) Run(ctx context.Context) error {
	c.log.Info(LogStarted, "urls", len(c.servers), "interval", c.cfg.Interval, "timeout", c.cfg.Timeout)
	defer c.log.Info(LogStopped)
	defer c.flush()
	timer := time.NewTimer(0)
	defer timer.Stop()
	var started, due time.Time // of the last round, of the next
	var failed bool
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-c.recheck:
			// A server that fails needs its rest, and would not give an answer any sooner.
			if early := started.Add(recheckGap); !failed && early.Before(due) {
				due = early
				timer.Reset(time.Until(due))
			}
			continue
		case <-timer.C:
		}
		if ctx.Err() != nil {
			return nil // both were ready
		}
		started = time.Now()
		failed = c.Poll(ctx) != nil
		if failed {
			due = c.retryAt()
		} else {
			due = started.Add(c.interval())
		}
		c.update(func(l *loopState) { l.nextAttempt = due })
		timer.Reset(time.Until(due))
	}
}

// interval is the jittered time from one round to the next.
func (c *Client) interval() time.Duration {
	return time.Duration(float64(c.cfg.Interval) * (1 - jitter + 2*jitter*c.cfg.Random()))
}

// Recheck asks Run for an early poll. It never blocks; requests that come before the poll are one, and there is at least a
// second between two.
func (c *Client) Recheck() {
	select {
	case c.recheck <- struct{}{}:
	default:
	}
}

// Wait returns the applied table, once there is one. The error wraps ErrNoTable if ctx ends before.
func (c *Client) Wait(ctx context.Context) (*table.Table, error) {
	select {
	case <-c.ready:
		return c.Current(), nil
	default:
	}
	select {
	case <-c.ready:
		return c.Current(), nil
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: %w", ErrNoTable, ctx.Err())
	}
}

// Poll is one round of Run: it asks the server in use, and if that fails the others, and applies what passes. It returns
// nil if one of them gave a usable answer, which includes a table that is held back or not taken yet; else the errors of
// all that were tried, each an *Error, or the error of ctx. Rounds are made one after the other.
func (c *Client) Poll(ctx context.Context) error {
	c.polling.Lock()
	defer c.polling.Unlock()
	zone := c.zoneSource.read()
	start := time.Now()
	c.update(func(l *loopState) { l.lastAttempt, l.zone = start, zone })
	err := c.round(ctx, zone)
	if ctx.Err() != nil {
		return ctx.Err() // the end of the loop is no failure
	}
	now := time.Now()
	c.update(func(l *loopState) {
		if l.failures++; err == nil {
			l.lastSuccess, l.failures = now, 0
		}
	})
	switch {
	case err != nil && !c.failing:
		c.log.Error(LogUnreachable, "error", err)
	case err == nil && c.failing:
		c.log.Info(LogReachable)
	}
	c.failing = err != nil
	c.retryFiles(now)
	return err
}

func (c *Client) update(change func(*loopState)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change(&c.loop)
}

// round tries the servers until one gives a usable answer.
func (c *Client) round(parent context.Context, zone string) error {
	start := time.Now()
	deadline := start.Add(roundTimeouts * c.cfg.Timeout)
	ctx, cancel := context.WithDeadline(parent, deadline)
	defer cancel()
	var errs []error
	for _, i := range c.order(start) {
		if !time.Now().Before(deadline) {
			break // not by ctx, whose timer may be late: a server without time to answer has not failed
		}
		err := c.try(ctx, parent, c.servers[i], zone)
		if err == nil {
			c.use(i)
			c.probe(ctx, parent, zone)
			return nil
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// try makes one exchange with a server and applies what passes.
func (c *Client) try(ctx, parent context.Context, s *server, zone string) error {
	start := time.Now()
	c.mu.Lock()
	s.status.LastAttempt = start
	c.mu.Unlock()
	result, f := c.exchange(ctx, s, zone)
	if parent.Err() != nil && f != nil {
		return parent.Err() // not the server's fault
	}
	now := time.Now()
	c.cfg.Metrics.duration.Observe(now.Sub(start).Seconds())
	c.cfg.Metrics.fetches.WithLabelValues(result).Inc()
	if f == nil {
		s.unnamed = false
		c.succeeded(s, now)
		return nil
	}
	failures := c.cfg.Metrics.fetchErrors
	if result == resultRejected {
		failures = c.cfg.Metrics.verifyFailures
	}
	failures.WithLabelValues(string(f.Reason)).Inc()
	c.failed(s, f, now)
	// A connection over which many requests share a dead peer would otherwise serve the next attempt, too.
	c.http.CloseIdleConnections()
	return f
}

// exchange asks the server and settles its answer. If it fails, or panics, everything is as it was: an input that nobody
// thought of must not take the table away.
func (c *Client) exchange(ctx context.Context, s *server, zone string) (result string, f *Error) {
	defer func() {
		if v := recover(); v != nil {
			f = failf(ReasonPanic, "panic: %v", v)
			f.stack = debug.Stack()
		}
		if f == nil {
			return
		}
		f.URL, result = s.name, resultError
		if slices.Contains(verifyReasons, f.Reason) {
			result = resultRejected
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, c.cfg.Timeout)
	defer cancel()
	seen := c.view()
	a, f := c.fetch(ctx, s, zone, seen)
	if f != nil {
		return "", f
	}
	return c.settle(s, seen, a)
}

// probe asks one of the servers before the one in use whether it is fine, and goes back to it if it has been for a while.
func (c *Client) probe(ctx, parent context.Context, zone string) {
	i, ok := c.toProbe(time.Now())
	if !ok || ctx.Err() != nil {
		return
	}
	s := c.servers[i]
	f := c.head(ctx, s, zone)
	switch now := time.Now(); {
	case parent.Err() != nil:
	case f != nil:
		c.failed(s, f, now)
	default:
		c.succeeded(s, now)
		if c.returnTo(s, now) {
			c.use(i)
		}
	}
}

// head makes a probe.
func (c *Client) head(ctx context.Context, s *server, zone string) *Error {
	ctx, cancel := context.WithTimeout(ctx, min(c.cfg.Timeout, probeTimeout))
	defer cancel()
	resp, f := c.request(ctx, http.MethodHead, s, zone, c.view().names())
	if f != nil {
		return f
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusNotModified {
		return nil
	}
	return checkStatus(resp)
}
