package cluster

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/routesrv/routesrv/kube"
)

const (
	// firstDelay and maxDelay bound the delay before the next attempt, to which jitter of up to the same length is
	// added.
	firstDelay, maxDelay = 500 * time.Millisecond, 10 * time.Second
	// aliveAfter is how long a watch has to stay open to count as working.
	aliveAfter = 5 * time.Second
	// downDelay is the delay while the server does not even answer a probe, and probeTimeout limits the probe.
	downDelay, probeTimeout = 500 * time.Millisecond, 1500 * time.Millisecond
)

// downError is the failure of a probe: nothing that costs the server anything was requested.
type downError struct{ error }

// Unwrap returns why the probe failed.
func (e downError) Unwrap() error { return e.error }

// follow keeps the kind up to date until ctx ends. Each attempt lists the kind, and then watches it from there until
// the watch ends.
func (k *watched) follow(ctx context.Context) {
	delay := firstDelay
	for ctx.Err() == nil {
		if !k.awaitWanted(ctx) {
			return
		}
		once, cancel := k.beginAttempt(ctx)
		err := k.load(once)
		if err == nil {
			err = k.watch(once) // nil if the server ended the watch as agreed
		}
		restarted := once.Err() != nil
		cancel()
		if restarted { // or ctx has ended
			continue
		}
		wait := delay
		switch lived := k.ended(err); {
		case err == nil && lived >= aliveAfter:
			wait, delay = 0, firstDelay
		case probeFailed(err):
			wait = downDelay
		case lived >= aliveAfter:
			wait, delay = firstDelay, 2*firstDelay
		default:
			delay = min(2*delay, maxDelay)
		}
		pause(ctx, max(wait, min(retryAfter(err), maxDelay)))
	}
}

// probeFailed reports whether the server did not answer a probe. One that is overloaded is left alone for longer.
func probeFailed(err error) bool {
	_, down := errors.AsType[downError](err)
	return down && statusCode(err) != http.StatusTooManyRequests
}

// pause waits for d, with jitter of up to the same again, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	if d > 0 {
		d += rand.N(d)
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
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
		cancel() // the kind disappeared a moment ago
	}
	return once, cancel
}

// load lists the kind. After a failure, the server first has to answer a request for one object, so that a server that
// is down or overloaded gets no lists.
func (k *watched) load(ctx context.Context) error {
	release, err := k.w.acquire(ctx)
	if err != nil {
		return err
	}
	defer release()
	k.w.mu.Lock()
	failing := k.stream.err != nil
	k.w.mu.Unlock()
	if failing {
		probe, cancel := context.WithTimeout(ctx, probeTimeout)
		defer cancel()
		if err := k.w.probe(probe, k.list); err != nil {
			return downError{err}
		}
	}
	return k.listAndAdopt(ctx, false)
}

// listAndAdopt lists the kind and replaces what is known by the list. The caller has the turn.
func (k *watched) listAndAdopt(ctx context.Context, consistent bool) error {
	k.w.mu.Lock()
	k.shared = true
	known, reset := k.list.state, k.resets
	k.w.mu.Unlock()
	a, err := k.w.askFor(ctx, k.list, consistent, 0, known)
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
	// The watch finds objects by their order. The bytes of the list will no longer match what is known.
	a.items, a.wire = sortItems(a.items), wireDigest{}
	if k.list.adopt(a) {
		poke(k.w.dirty)
	}
	k.shared = false
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
