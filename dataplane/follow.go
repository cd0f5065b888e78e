package dataplane

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/routesrv/routesrv/api"
	"github.com/routesrv/routesrv/table"
)

// Log messages about streams.
const (
	LogStreamEnded    = "stream ended"
	LogPollingBegins  = "streams do not work, polling for a while"
	LogStreamRejected = "data from a stream does not verify, the full table is fetched"
)

// Reasons why a stream ended, in addition to the reasons why there is none.
const (
	endReconnect Reason = "reconnect" // the server asked for it
	endRejected  Reason = "rejected"  // its data did not verify
	endFetch     Reason = "fetch"     // a table that it announced could not be fetched
	endOlder     Reason = "older"     // it brought a table that is older than the applied one
	endLost      Reason = "lost"      // a poll beside it returned another table
	endZone      Reason = "zone"      // the zone to follow has changed
	endServer    Reason = "server"    // another server is in use
)

var endReasons = slices.Concat(fetchReasons, []Reason{
	ReasonEncoding, ReasonNoStreams, ReasonBusy, ReasonBroken, ReasonSilent, endReconnect, endRejected, endFetch, endOlder, endLost, endZone,
	endServer,
})

const (
	// fetchSpread is the time over which clients spread a fetch that a stream has requested from all of them.
	fetchSpread = time.Second
	// maxOvertaken is how often an event is processed again because an operator's acceptance came in between.
	maxOvertaken = 3
)

// ending is how a stream ended, or why none was opened.
type ending struct {
	reason  Reason
	failed  bool // streams should not be tried again soon
	refetch bool // a full table is needed
	wait    time.Duration
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
	c.update(func(l *loopState) {
		l.stream = api.FetchStream{Connected: st.connected, URL: st.server.name}
	})
	c.dedup.Log(slog.LevelInfo, "stream connected", st.server.name, "url", st.server.name, "zone", st.zone)

	end = c.listen(ctx, st)
	st.close()
	c.using("")
	c.update(func(l *loopState) { l.stream.Connected = time.Time{} })
	if ctx.Err() != nil {
		return end
	}
	c.dedup.Log(slog.LevelInfo, LogStreamEnded, string(end.reason)+" "+st.server.name, "url", st.server.name,
		"reason", string(end.reason), "wait", end.wait)
	if end.refetch && pause(ctx, c.chance(fetchSpread)) {
		c.polling.Lock()
		defer c.polling.Unlock()
		_ = c.poll(ctx, true) // poll logs its errors itself
	}
	return end
}

// openAny tries the servers until one opens a stream. With Auto, polling decides about the health of a reachable server.
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
		c.update(func(*loopState) { s.status.LastAttempt = time.Now() })
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
			c.log.Debug("streams are not available", "url", s.name, "reason", string(f.Reason), "error", f.Err)
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

// chores does the tasks of a round. It requests the table only if that was asked for.
func (c *Client) chores(ctx context.Context, st *subscription, asked bool) *ending {
	c.polling.Lock()
	defer c.polling.Unlock()
	zone := c.readZone()
	if zone != st.zone {
		return &ending{reason: endZone, wait: c.chance(250 * time.Millisecond)}
	}
	c.publisher.Tend()
	if asked {
		_ = c.poll(ctx, false) // poll records a failing server, and the stream shows its state better
	} else {
		c.goBack(ctx, ctx, zone)
	}
	return c.place(st)
}

// broke decides how to continue after a stream that was not closed by the client.
func (c *Client) broke(st *subscription) *ending {
	c.polling.Lock()
	defer c.polling.Unlock()
	f := c.complete(st.server, st.err)
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

// onEvent handles an event. It returns nil if the stream continues.
func (c *Client) onEvent(ctx context.Context, st *subscription, e event) *ending {
	now := time.Now()
	st.retry = e.retry
	c.update(func(l *loopState) { l.stream.LastEvent = now })
	switch e.name {
	case api.EventDelta:
		return c.onDelta(st, e)
	case api.EventFetch:
		return c.onFetch(ctx, st, e)
	case api.EventCurrent:
		return c.onCurrent(st, e)
	case api.EventReconnect:
		after := min(api.ParseReconnect(e.data), c.cfg.MaxBackoff) // without advice, streamGap applies
		return &ending{reason: endReconnect, failed: !st.current, wait: after + c.chance(after/10+250*time.Millisecond)}
	}
	return nil
}

func (c *Client) onDelta(st *subscription, e event) *ending {
	c.polling.Lock()
	defer c.polling.Unlock()
	if end := c.place(st); end != nil {
		return end
	}
	a := &answer{etag: api.ParseEntity(e.id), ofDelta: true, sourceRead: st.lastRead, origin: st.server.name}
	if served := c.publisher.Served(); a.sourceRead.IsZero() && served != nil {
		a.sourceRead = served.Read.At // the source was read since; "current" has the time
	}
	result, f := c.handleEvent(st, a, func() *Error {
		if !a.etag.Known {
			return failf(ReasonTag, "id %.200q has no digest", e.id)
		}
		d, err := table.ReadDelta(strings.NewReader(e.data), c.limit())
		if err != nil {
			return reasoned(ReasonDelta, err)
		}
		return a.setDelta(d)
	})
	switch {
	case f != nil:
		c.deltaFailed(st.server, f)
		return c.rejected(st, f)
	case result == resultOlder:
		return &ending{reason: endOlder, wait: c.interval()}
	}
	c.cfg.Metrics.countVerified(a)
	st.at = a.digest
	c.transport.failures, c.transport.rests = 0, 0
	return nil
}

// onCurrent handles the event that corresponds to a 304.
func (c *Client) onCurrent(st *subscription, e event) *ending {
	c.polling.Lock()
	defer c.polling.Unlock()
	if end := c.place(st); end != nil {
		return end
	}
	a := &answer{notModified: true, etag: api.ParseEntity(e.id), origin: st.server.name}
	_, f := c.handleEvent(st, a, func() *Error {
		told, state, err := api.ParseCurrent(e.data)
		if err != nil {
			return failf(ReasonProtocol, "event current: %w", err)
		}
		if !a.etag.Known {
			return failf(ReasonTag, "id %.200q has no digest", e.id)
		}
		read, err := api.ParseTime(told)
		a.sourceRead, a.state = credible(read, err, time.Now()), api.ParseState(state)
		return nil
	})
	if f != nil {
		return c.rejected(st, f)
	}
	st.at, st.current = a.etag.Tag.Digest, true
	if !a.sourceRead.IsZero() {
		st.lastRead = a.sourceRead
	}
	st.server.unnamed = false
	c.succeeded(st.server, time.Now())
	c.ended(nil)
	return nil
}

// onFetch fetches a table to which no delta leads. All clients may get this event, so those that have a table wait a moment.
func (c *Client) onFetch(ctx context.Context, st *subscription, e event) *ending {
	var wait time.Duration
	if c.Current() != nil {
		wait = c.chance(fetchSpread)
	}
	if least := time.Until(st.fetched.Add(streamGap)); !st.fetched.IsZero() && wait < least {
		wait = least
	}
	if !pause(ctx, wait) {
		return &ending{}
	}
	st.fetched = time.Now()
	c.polling.Lock()
	defer c.polling.Unlock()
	if err := c.try(ctx, ctx, st.server, st.zone, true); err != nil {
		return &ending{reason: endFetch, failed: true}
	}
	st.at = api.ParseEntity(e.id).Tag.Digest
	return c.place(st)
}

// place checks whether client and stream still refer to the same table, after another answer. The caller holds polling.
func (c *Client) place(st *subscription) *ending {
	switch {
	case c.servers[c.current] != st.server:
		return &ending{reason: endServer, wait: c.chance(250 * time.Millisecond)}
	case !st.at.IsZero() && c.tables().find(st.at) == nil:
		return &ending{reason: endLost, failed: !st.current, wait: c.chance(time.Second)}
	}
	return nil
}

// handleEvent reads an event and handles it. If that fails or panics, nothing changes.
func (c *Client) handleEvent(st *subscription, a *answer, read func() *Error) (result string, f *Error) {
	defer func() {
		if f = c.complete(st.server, caught(recover(), f)); f == nil {
			c.cfg.Metrics.fetches.WithLabelValues(result).Inc()
		}
	}()
	if f := read(); f != nil {
		return "", f
	}
	for range maxOvertaken {
		if result, f = c.handle(st.server, c.tables(), a); f != nil || result != resultOvertaken {
			return result, f
		}
	}
	return "", failf(ReasonProtocol, "tables were accepted faster than one could be applied")
}

func (c *Client) rejected(st *subscription, f *Error) *ending {
	c.cfg.Metrics.fetches.WithLabelValues(resultRejected).Inc()
	if slices.Contains(verifyReasons, f.Reason) {
		c.cfg.Metrics.verifyFailures.WithLabelValues(string(f.Reason)).Inc()
	}
	c.dedup.Log(slog.LevelWarn, LogStreamRejected, string(f.Reason)+" "+st.server.name, f.attrs()...)
	return &ending{reason: endRejected, failed: true, refetch: true, wait: c.afterBroken(st)}
}

// afterBroken returns how long to wait after a lost connection, with jitter: all clients of a server may lose theirs at once.
func (c *Client) afterBroken(st *subscription) time.Duration {
	d := st.retry
	if d == 0 {
		d = defaultRetry
	}
	d = min(d, c.cfg.MaxBackoff)
	return d + c.chance(d/2)
}

// pause waits, and returns false if ctx ended before.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
