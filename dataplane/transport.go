package dataplane

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/routesrv/routesrv/api"
)

// Log messages about streams.
const (
	LogStreamOpen    = "stream connected"
	LogStreamEnded   = "stream ended"
	LogNoStream      = "streams are not available"
	LogPollingBegins = "streams do not work, polling for a while"
)

// Transports, as label values and in the status.
const (
	transportStream = "stream"
	transportPoll   = "poll"
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

// Run follows the route servers until ctx ends, then returns nil. It asks at once. At the end it updates the last-known-good
// file if its table was confirmed later. Call it once.
func (c *Client) Run(ctx context.Context) error {
	c.log.Info(LogStarted, "urls", len(c.servers), "transport", string(c.cfg.UpdateMode), "interval", c.cfg.Interval,
		"timeout", c.cfg.Timeout)
	defer c.log.Info(LogStopped)
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
		err := c.poll(ctx, "")
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

// afterStream decides how to continue after a stream has ended.
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
		return earlier(k.streamAt, now.Add(c.interval())), false
	default:
		k.pollFirst = true
		return now, false
	}
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// using records the transport in use.
func (c *Client) using(transport string) {
	c.cfg.Metrics.using(transport)
	c.update(func(l *loopState) { l.Transport = transport })
}

// follow opens a stream on a server and handles its events until it ends. If ctx has ended, the ending is meaningless.
func (c *Client) follow(ctx context.Context) *ending {
	st, end := c.openAny(ctx)
	if end != nil {
		return end
	}
	defer st.close()
	c.transport.polled = false
	c.using(transportStream)
	c.cfg.Metrics.connected.Set(1)
	c.update(func(l *loopState) {
		l.stream = api.FetchStream{Connected: st.connected, URL: st.server.name}
	})
	c.dedup.Log(slog.LevelInfo, LogStreamOpen, st.server.name, "url", st.server.name, "zone", st.zone)

	end = c.listen(ctx, st)
	st.close()
	c.cfg.Metrics.connected.Set(0)
	c.update(func(l *loopState) { l.stream.Connected = time.Time{} })
	if ctx.Err() != nil {
		return end
	}
	c.dedup.Log(slog.LevelInfo, LogStreamEnded, string(end.reason)+" "+st.server.name, "url", st.server.name,
		"reason", string(end.reason), "wait", end.wait)
	if end.refetch && pause(ctx, c.chance(fetchSpread)) {
		c.polling.Lock()
		defer c.polling.Unlock()
		_ = c.poll(ctx, fullStream) // poll logs its errors itself
	}
	return end
}

// openAny tries the servers until one opens a stream. If none does, the ending says why. With Auto it lets polling decide about
// the health of a reachable server.
func (c *Client) openAny(ctx context.Context) (*subscription, *ending) {
	c.polling.Lock()
	defer c.polling.Unlock()
	zone := c.begin()
	start := time.Now()
	deadline := start.Add(roundTimeouts * c.cfg.Timeout)
	end := &ending{failed: true}
	var errs []error
	for _, i := range c.order(start) {
		if !time.Now().Before(deadline) {
			break
		}
		s := c.servers[i]
		c.mu.Lock()
		s.status.LastAttempt = time.Now()
		c.mu.Unlock()
		st, f := c.open(ctx, s, zone)
		if ctx.Err() != nil {
			if f == nil {
				st.close()
			}
			return nil, end
		}
		if f == nil {
			c.use(i)
			return st, nil
		}
		f.retryAfter = min(f.retryAfter, mostRest)
		f.retryAfter += c.chance(f.retryAfter / 2) // jitter for all clients that it refused
		if slices.Contains(fetchReasons, f.Reason) {
			c.cfg.Metrics.fetches.WithLabelValues(resultError).Inc()
			c.cfg.Metrics.fetchErrors.WithLabelValues(string(f.Reason)).Inc()
		}
		end.reason = f.Reason
		if c.cfg.UpdateMode == Auto && f.Reason != ReasonConnect {
			c.log.Debug(LogNoStream, "url", s.name, "reason", string(f.Reason), "error", f.Err)
			end.wait = max(f.retryAfter, defaultRetry)
			return nil, end
		}
		c.failed(s, f, time.Now())
		errs = append(errs, f)
	}
	c.http.CloseIdleConnections()
	c.ended(errors.Join(errs...))
	return nil, end
}

// listen handles the events of a stream, and meanwhile the other tasks of polling.
func (c *Client) listen(ctx context.Context, st *subscription) *ending {
	chores := time.NewTicker(recheckGap)
	defer chores.Stop()
	asked := false // for a poll
	for {
		var end *ending
		select {
		case <-ctx.Done():
			return &ending{}
		case e, ok := <-st.events:
			if !ok {
				return c.broke(st)
			}
			end = c.onEvent(ctx, st, e)
		case <-c.recheck:
			asked = true
		case <-chores.C:
			end, asked = c.chores(ctx, st, asked), false
		}
		if end != nil {
			return end
		}
	}
}

// chores does the tasks of a round. It requests the table only if that was asked for, or the full one is due.
func (c *Client) chores(ctx context.Context, st *subscription, asked bool) *ending {
	c.polling.Lock()
	defer c.polling.Unlock()
	zone := c.zoneSource.read()
	if zone != st.zone {
		return &ending{reason: endZone, wait: c.chance(250 * time.Millisecond)}
	}
	c.publisher.Tend()
	if asked || c.isFullDue(c.view(), time.Now()) {
		_ = c.poll(ctx, "") // poll records a failing server, and the stream says more about it
	} else {
		c.goBack(ctx, ctx, zone)
	}
	return c.place(st)
}

// broke decides how to continue after a stream that ended by itself.
func (c *Client) broke(st *subscription) *ending {
	c.polling.Lock()
	defer c.polling.Unlock()
	f := c.named(st.err)
	f.URL = st.server.name
	end := &ending{reason: f.Reason, failed: !st.current, wait: c.afterBroken(st)}
	silent := f.Reason == ReasonSilent
	switch {
	case slices.Contains(verifyReasons, f.Reason):
		return c.rejected(st, f)
	case silent && st.current || end.failed && c.cfg.UpdateMode == Stream:
		c.failed(st.server, f, time.Now()) // otherwise polling decides about it
	}
	if silent {
		end.wait = c.chance(time.Second) // the stream has lasted long enough
	}
	return end
}

// afterBroken returns how long to wait after a lost connection, with jitter, because all clients of the server may lose theirs at
// once.
func (c *Client) afterBroken(st *subscription) time.Duration {
	d := st.retry
	if d == 0 {
		d = defaultRetry
	}
	d = min(d, c.cfg.MaxBackoff)
	return d + c.chance(d/2)
}

// UpdateMode selects how to get new tables. It is a value of --update-mode.
type UpdateMode string

// The modes.
const (
	Auto   UpdateMode = "auto"   // over a stream, and by polling while there is none; the default
	Stream UpdateMode = "stream" // over a stream only
	Poll   UpdateMode = "poll"   // by polling only
)
