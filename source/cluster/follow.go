package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"time"

	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/source/cluster/internal/decode"
)

const (
	// firstDelay and maxDelay bound the delay before the next attempt, to which jitter of up to the same length is added.
	firstDelay, maxDelay = 500 * time.Millisecond, 10 * time.Second
	// aliveAfter is how long a watch must stay open to count as working.
	aliveAfter = 5 * time.Second
	// acceptAfter is how long a server may take to accept a watch. Behind a proxy that buffers answers, it never does. Then the
	// kind is listed every listEvery, and watched again after rewatchAfter.
	acceptAfter, listEvery, rewatchAfter = 10 * time.Second, 3 * time.Second, time.Minute
	// downDelay is the delay while the server does not even answer a probe, and probeTimeout limits the probe.
	downDelay, probeTimeout = 500 * time.Millisecond, 1500 * time.Millisecond
)

// follow keeps the kind up to date until ctx ends. Each attempt lists the kind, and then watches it from there until
// the watch ends.
func (k *watched) follow(ctx context.Context) {
	delay := firstDelay
	var unanswered time.Time // the last watch
	for ctx.Err() == nil {
		if !k.awaitWanted(ctx) {
			return
		}
		once, cancel := k.beginAttempt(ctx)
		down, err := k.load(once)
		listed := err == nil
		if listed && time.Since(unanswered) >= rewatchAfter {
			if err = k.watch(once); errors.Is(err, errUnanswered) { // nil if the server ended the watch as agreed
				unanswered = time.Now()
			} else {
				listed = false
			}
		}
		restarted := once.Err() != nil
		cancel()
		if restarted { // or ctx has ended
			continue
		}
		if listed {
			k.listed()
			pause(ctx, listEvery)
			continue
		}
		wait := delay
		switch lived := k.ended(err); {
		case err == nil && lived >= aliveAfter:
			wait, delay = 0, firstDelay
		case down:
			wait = downDelay
		case lived >= aliveAfter:
			wait, delay = firstDelay, 2*firstDelay
		default:
			delay = min(2*delay, maxDelay)
		}
		pause(ctx, max(wait, min(retryAfter(err), maxDelay)))
	}
}

// pause waits for d, with jitter of up to the same again, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	if d > 0 {
		d += rand.N(d)
	}
	sleep(ctx, d)
}

// sleep waits for d, or until ctx ends.
func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// awaitWanted waits until the kind should be watched. It returns false when ctx has ended.
func (k *watched) awaitWanted(ctx context.Context) bool {
	for {
		k.w.mu.Lock()
		wanted, moved := k.wanted, k.w.moved
		k.w.mu.Unlock()
		if wanted {
			return true
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return false
		}
	}
}

// beginAttempt returns the context of the next attempt, which restart cancels.
func (k *watched) beginAttempt(ctx context.Context) (context.Context, context.CancelFunc) {
	once, cancel := context.WithCancel(ctx)
	k.w.mu.Lock()
	defer k.w.mu.Unlock()
	k.restart, k.open = cancel, false
	if !k.wanted {
		cancel() // the kind has just disappeared
	}
	return once, cancel
}

// load lists the kind. After a failure, the server must first answer a request for one object, so that a server that is
// down or overloaded gets no lists. load reports a server as down if it did not answer this cheap request; an overloaded
// server gets a longer pause.
func (k *watched) load(ctx context.Context) (down bool, err error) {
	release, err := k.w.acquire(ctx)
	if err != nil {
		return false, err
	}
	defer release()
	k.w.mu.Lock()
	failing := k.stream.err != nil
	k.w.mu.Unlock()
	if failing {
		probe, cancel := context.WithTimeout(ctx, probeTimeout)
		defer cancel()
		if err := k.w.probe(probe, k.list); err != nil {
			return statusCode(err) != http.StatusTooManyRequests, err
		}
	}
	return false, k.listAndAdopt(ctx, false)
}

// listAndAdopt lists the kind and replaces the known objects by the list. The caller has acquired the lister.
func (k *watched) listAndAdopt(ctx context.Context, consistent bool) error {
	k.w.mu.Lock()
	known, reset := k.list.content, k.resets
	known.items = slices.Clone(known.items) // events change them meanwhile
	k.w.mu.Unlock()
	a, err := k.w.askFor(ctx, k.list, consistent, 0, known)
	k.w.api.wire = bytes.Buffer{} // the next list is minutes away
	if err == nil && a.seen == 0 {
		err = readError("list", k.list.Name(), errNoRevision)
	}
	k.w.mu.Lock()
	defer k.w.mu.Unlock()
	switch {
	case errors.Is(err, errRestored):
		k.w.restored(err)
		return err
	case err != nil:
		return err
	case ctx.Err() != nil || reset != k.resets:
		return ctx.Err() // the list belongs to the history before a restore
	case a.seen < k.list.seen:
		return nil // the watch has shown everything up to a later revision meanwhile
	}
	// The watch finds objects by their order. The bytes of the list will no longer match the known objects.
	a.items, a.wire = sortItems(a.items), digest{}
	if k.list.adopt(a) {
		poke(k.w.dirty)
	}
	k.reached(a.seen)
	return nil
}

// readError wraps an error in a *[kube.ReadError], unless it already is one.
func readError(verb, resource string, err error) error {
	if _, ok := errors.AsType[*kube.ReadError](err); ok {
		return err
	}
	return &kube.ReadError{Verb: verb, Resource: resource, Err: err}
}

const (
	// shortestWatch and longestWatch bound the time after which the server should end a watch. The time is random so
	// that the watches of replicas that started together do not end together. A list follows, so this is also how long
	// an event that got lost, for whatever reason, can go unnoticed.
	shortestWatch, longestWatch = 5 * time.Minute, 10 * time.Minute
	// overdueAfter is how much longer a watch may last before the server, or a proxy in between, must have lost it.
	overdueAfter = 30 * time.Second
)

// errUnanswered reports that the server has not accepted a watch in time.
var errUnanswered = errors.New("the server does not answer the watch request")

// errOverdue reports that the server did not end a watch when it should have.
var errOverdue = errors.New("the server did not end the watch in time")

// watch watches the kind from the known revision until the watch ends. The result is nil if the server ended the watch
// as agreed, and otherwise a *[kube.ReadError].
func (k *watched) watch(parent context.Context) error {
	w := k.w
	ctx, cancel := context.WithCancelCause(parent)
	defer cancel(nil)
	tooSlow := time.AfterFunc(min(acceptAfter, w.cfg.Timeout), func() { cancel(errUnanswered) })
	defer tooSlow.Stop()
	lasts := (shortestWatch + rand.N(longestWatch-shortestWatch)).Truncate(time.Second)
	overdue := time.AfterFunc(lasts+overdueAfter, func() { cancel(errOverdue) })
	defer overdue.Stop()

	resp, err := w.api.Watch(ctx, parent, &k.list.resource, k.seen(), lasts)
	switch {
	case err != nil && errors.Is(context.Cause(ctx), errUnanswered):
		return errUnanswered
	case err != nil:
		return readError("watch", k.list.Name(), err)
	}
	tooSlow.Stop()
	defer func() { _ = resp.Body.Close() }()
	k.accepted()
	events := decode.NewEvents(k.list.Kind, resp.Body, w.cfg.MaxBytes)
	for {
		e, item, err := k.next(events)
		if err != nil {
			return k.watchError(ctx, parent, resp.Path, err)
		}
		k.receive(ctx, &e, item)
	}
}

// watchError explains why an accepted watch has ended. It returns nil if the server ended the watch as agreed.
func (k *watched) watchError(ctx, parent context.Context, path string, err error) error {
	if parent.Err() != nil {
		return parent.Err()
	}
	ended, bad := (*statusError)(nil), (*decode.BadEventError)(nil)
	reason := reasonConnection
	switch {
	case errors.As(err, &ended):
		reason = reasonStatus
	case errors.As(err, &bad):
		reason = reasonBody
	case errors.Is(err, io.EOF), errors.Is(context.Cause(ctx), errOverdue):
		return nil
	}
	return readError("watch", k.list.Name(), failf(reason, "request to %s: %w", path, err))
}

// next reads an event, with the item if an object was added or modified. The error is a *[statusError] if the event
// is an error that ends the watch.
func (k *watched) next(events *decode.Events) (e decode.Event, item item, err error) {
	// A panic while decoding untrusted input ends the watch, not the process.
	defer func() {
		if v := recover(); v != nil {
			err = &decode.BadEventError{Err: fmt.Errorf("panic: %v", v)}
		}
	}()
	if e, err = events.Next(); err != nil {
		return e, item, err
	}
	switch e.Type {
	case decode.Failed:
		text := fmt.Sprintf("the watch has ended, status: %d %s: %s", e.Status.Code, e.Status.Reason, oneLine(e.Status.Message))
		err = &statusError{*e.Status, text}
	case decode.Added, decode.Modified:
		item = k.list.decodeItem(e.Object, decode.MediaJSON, digest{})
		if item.Bad != nil {
			item.Bad.Ref.Name, item.Bad.Ref.Namespace = e.Name, e.Namespace // the event's name and namespace were readable
		}
		k.w.cfg.Metrics.DecodedObjects.WithLabelValues(string(k.list.Kind)).Inc()
	}
	return e, item, err
}

// receive processes an event. It ignores an event that is not newer than the known content: a list already included it, or it
// arrived twice. A modified or deleted object need not be known. receive changes nothing once the attempt was told to end.
func (k *watched) receive(ctx context.Context, e *decode.Event, item item) {
	k.w.mu.Lock()
	defer k.w.mu.Unlock()
	if ctx.Err() != nil {
		return
	}
	if e.Type != decode.Bookmark && e.Revision > k.list.seen && k.apply(e, item) {
		k.list.changed = true
		poke(k.w.dirty)
	}
	k.reached(e.Revision)
	k.back()
}

// apply applies an event to the items and reports whether the object's decoded content changed. The caller holds mu.
func (k *watched) apply(e *decode.Event, item item) (changed bool) {
	l := k.list
	i, known := findItem(l.items, kube.Ref{Kind: l.Kind, Namespace: e.Namespace, Name: e.Name})
	switch {
	case e.Type == decode.Deleted && known:
		l.items = slices.Delete(l.items, i, i+1)
		return true
	case e.Type == decode.Deleted:
		return false
	case known:
		changed = item.keep(&l.items[i])
		l.items[i] = item
		return changed
	default:
		l.items = slices.Insert(l.items, i, item)
		return true
	}
}

// seen returns the revision up to which everything is known.
func (k *watched) seen() kube.Revision {
	k.w.mu.Lock()
	defer k.w.mu.Unlock()
	return k.list.seen
}
