package dataplane

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/routesrv/routesrv/api"
)

// LogStreamRejected is the log message about data from a stream that does not verify.
const LogStreamRejected = "data from a stream does not verify, the full table is fetched"

// eventOther is the label value for unknown events.
const eventOther = "other"

// eventNames are the names of events, as label values.
var eventNames = append(api.Events(), eventOther)

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

// ending says how a stream ended, or why there was none.
type ending struct {
	reason  Reason
	failed  bool // streams should not be tried again soon
	refetch bool // a full table is needed
	wait    time.Duration
}

// onEvent handles an event. It returns nil if the stream continues.
func (c *Client) onEvent(ctx context.Context, st *subscription, e event) *ending {
	name := e.name
	if !slices.Contains(eventNames, name) {
		name = eventOther
	}
	c.cfg.Metrics.events.WithLabelValues(name).Inc()
	now := time.Now()
	st.retry = e.retry
	c.update(func(l *loopState) { l.stream.LastEvent, l.stream.Event = now, name })
	switch name {
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

// chance returns a random time up to most.
func (c *Client) chance(most time.Duration) time.Duration {
	return time.Duration(c.cfg.Random() * float64(most))
}

// onDelta handles a delta.
func (c *Client) onDelta(st *subscription, e event) *ending {
	c.polling.Lock()
	defer c.polling.Unlock()
	if end := c.place(st); end != nil {
		return end
	}
	a := &answer{etag: api.ParseEntity(e.id), ofDelta: true, sourceRead: st.lastRead, origin: st.server.name}
	if served := c.publisher.Served(); a.sourceRead.IsZero() && served != nil {
		a.sourceRead = served.Read.At // the source was read since; "current" says when
	}
	result, f := c.handleEvent(st, a, func() *Error {
		if !a.etag.Known {
			return failf(ReasonTag, "id %.200q has no digest", e.id)
		}
		d, f := readDeltaFrom(strings.NewReader(e.data), c.limit())
		if f != nil {
			return f
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
	c.countVerified(a, want{})
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

// onFetch fetches a table to which no delta leads. All clients may get this event at the same time, so those that have a table wait
// a moment.
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
	if err := c.try(ctx, ctx, st.server, st.zone, fullFetch); err != nil {
		return &ending{reason: endFetch, failed: true}
	}
	st.at = api.ParseEntity(e.id).Tag.Digest
	return c.place(st)
}

// place checks whether the client and the stream still refer to the same table, after an answer that did not come over the
// stream. The caller holds polling.
func (c *Client) place(st *subscription) *ending {
	switch {
	case c.servers[c.current] != st.server:
		return &ending{reason: endServer, wait: c.chance(250 * time.Millisecond)}
	case !st.at.IsZero() && c.view().find(st.at) == nil:
		return &ending{reason: endLost, failed: !st.current, wait: c.chance(time.Second)}
	}
	return nil
}

// handleEvent reads an event and handles it. If that fails or panics, nothing changes.
func (c *Client) handleEvent(st *subscription, a *answer, read func() *Error) (result string, f *Error) {
	defer func() {
		if f = caught(recover(), f); f != nil {
			f = c.named(f)
			f.URL = st.server.name
			return
		}
		c.cfg.Metrics.fetches.WithLabelValues(result).Inc()
	}()
	if f := read(); f != nil {
		return "", f
	}
	for range maxOvertaken {
		if result, f = c.handle(st.server, c.view(), a); f != nil || result != resultOvertaken {
			return result, f
		}
	}
	return "", failf(ReasonProtocol, "tables were accepted faster than one could be applied")
}

// rejected records that data from a stream does not verify.
func (c *Client) rejected(st *subscription, f *Error) *ending {
	c.cfg.Metrics.fetches.WithLabelValues(resultRejected).Inc()
	if slices.Contains(verifyReasons, f.Reason) {
		c.cfg.Metrics.verifyFailures.WithLabelValues(string(f.Reason)).Inc()
	}
	if f.Reason == ReasonTooLarge {
		collect(c.limit())
	}
	attrs := []any{"url", st.server.name, "reason", string(f.Reason), "error", f.Err}
	if f.stack != nil {
		attrs = append(attrs, "stack", string(f.stack))
	}
	c.dedup.Log(slog.LevelWarn, LogStreamRejected, string(f.Reason)+" "+st.server.name, attrs...)
	return &ending{reason: endRejected, failed: true, refetch: true, wait: c.afterBroken(st)}
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
