package dataplane

import (
	"context"
	"log/slog"
	"time"
)

// Messages of the log.
const (
	LogServerFailed = "route server failed"
	LogUnreachable  = "no route server returns a table, the applied one stays"
	LogReachable    = "a route server returns a table again"
)

const (
	// leastRest and mostRest are how long to poll before trying a stream again; jitter shortens this by up to half.
	leastRest = 30 * time.Second
	mostRest  = 5 * time.Minute
	// failedStreams is how many consecutive attempts must fail for that.
	failedStreams = 2
	// defaultRetry is how long to wait after a broken connection without advice from the server.
	defaultRetry = time.Second
	// streamGap is the minimum time between two attempts to open a stream, whatever servers say; jitter adds up to half.
	streamGap = time.Second
)

// transport is the state of the choice between streams and polling.
type transport struct {
	pollFirst bool      // one poll comes before the next stream, whenever that may be
	resting   bool      // only polling until streamAt
	streamAt  time.Time // when a stream may be tried
	attempted time.Time // when one was last tried
	failures  int       // consecutive failed attempts
	rests     int       // consecutive long periods of polling
	polled    bool      // a poll has succeeded since the last attempt
}

// UpdateMode selects how to get new tables. It is a value of --update-mode.
type UpdateMode string

// The modes.
const (
	Auto   UpdateMode = "auto"   // over a stream, and by polling while there is none; the default
	Stream UpdateMode = "stream" // over a stream only
	Poll   UpdateMode = "poll"   // by polling only
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

// Run follows the route servers until ctx ends, then returns nil. It asks at once. At the end it updates the last-known-good
// file if its table was confirmed later. Call it once.
func (c *Client) Run(ctx context.Context) error {
	c.log.Info("fetching started", "urls", len(c.servers), "transport", string(c.cfg.UpdateMode), "interval", c.cfg.Interval,
		"timeout", c.cfg.Timeout)
	defer c.log.Info("fetching stopped")
	defer c.publisher.Flush()
	c.update(func(l *loopState) { l.started = time.Now() })
	timer := time.NewTimer(0)
	defer timer.Stop()
	var rested, due time.Time // end of the last step, and time of the next
	var failed bool
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-c.recheck:
			// Do not speed up retries of failing servers: they need time to recover and would not answer sooner.
			if early := rested.Add(recheckGap); !failed && early.Before(due) {
				due = early
				timer.Reset(time.Until(due))
			}
			continue
		case <-timer.C:
		}
		if ctx.Err() != nil {
			return nil // both were ready
		}
		rested, due, failed = c.step(ctx)
		c.update(func(l *loopState) { l.NextAttempt = due })
		timer.Reset(time.Until(due))
	}
}

// step makes a round of polling, or follows a stream until it ends. It returns when the round began or the stream ended, when the
// next step is due, and whether to ask no server before that.
func (c *Client) step(ctx context.Context) (rested, due time.Time, failed bool) {
	k := &c.transport
	now := time.Now()
	if c.cfg.UpdateMode == Poll || c.cfg.UpdateMode == Auto && (k.pollFirst || k.resting && now.Before(k.streamAt)) {
		k.pollFirst = false
		c.using(transportPoll)
		c.polling.Lock()
		err := c.poll(ctx, false)
		c.polling.Unlock()
		if err != nil {
			return now, c.retryAt(), true
		}
		k.polled = true
		if due = now.Add(c.interval()); c.cfg.UpdateMode == Auto && (!k.resting || k.streamAt.Before(due)) {
			due = k.streamAt
		}
		return now, due, false
	}
	k.resting, k.attempted = false, now
	end := c.follow(ctx)
	now = time.Now()
	if ctx.Err() != nil {
		return now, now, false
	}
	c.cfg.Metrics.reconnects.WithLabelValues(string(end.reason)).Inc()
	due, failed = c.afterStream(now, end)
	return now, due, failed
}

func (c *Client) afterStream(now time.Time, end *ending) (due time.Time, failed bool) {
	k := &c.transport
	k.streamAt = now.Add(end.wait)
	if least := k.attempted.Add(streamGap); k.streamAt.Before(least) {
		k.streamAt = least.Add(c.chance(streamGap / 2))
	}
	if !end.failed {
		k.failures, k.rests = 0, 0
		return k.streamAt, false
	}
	k.failures++
	if c.cfg.UpdateMode == Stream {
		if retry := c.retryAt(); retry.After(k.streamAt) {
			k.streamAt = retry
		}
		return k.streamAt, true
	}
	unreachable := end.reason == ReasonConnect
	k.resting = true
	switch {
	case end.reason == ReasonBusy: // for as long as the server says
	case unreachable && !k.polled: // not only streams fail
	case end.reason == ReasonNoStreams || k.failures >= failedStreams:
		rest := min(leastRest<<min(k.rests, 8), mostRest)
		k.rests++
		k.streamAt = now.Add(rest/2 + c.chance(rest/2))
		c.dedup.Log(slog.LevelInfo, LogPollingBegins, string(end.reason), "reason", string(end.reason), "until", k.streamAt)
	}
	k.polled = false
	switch {
	case unreachable: // like a failed poll
		k.pollFirst = true
		return c.retryAt(), true
	case end.refetch: // this included a poll
		if next := now.Add(c.interval()); next.Before(k.streamAt) {
			return next, false
		}
		return k.streamAt, false
	default:
		k.pollFirst = true
		return now, false
	}
}
