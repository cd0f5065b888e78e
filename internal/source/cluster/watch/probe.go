package watch

import (
	"context"
	"time"
)

// probeTimeout is how long the probe of a kind that is watched may take.
const probeTimeout = 1500 * time.Millisecond

// heavy is when a kind that fails may be asked for everything again.
type heavy struct {
	delay time.Duration // before the next request, if a probe has not failed in between
	next  time.Time
	free  bool // a probe has failed since: the next one that succeeds is worth a request
}

// admit reports whether a kind whose watch is broken may be asked for everything now. A probe has to succeed, and the kind
// must not have failed just now although one did: what it fails of then is nothing that a probe can see. The caller has
// the turn.
func (k *watched) admit(ctx context.Context) error {
	w := k.w
	w.mu.Lock()
	broken := k.stream.err
	w.mu.Unlock()
	if w.probing == 0 || broken == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	err := w.lister.Probe(ctx, k.list)
	w.mu.Lock()
	defer w.mu.Unlock()
	now, h := time.Now(), &k.heavy
	switch {
	case err != nil:
		h.free = true
		return err
	case h.free || h.next.IsZero():
		h.delay = firstDelay
	case now.Before(h.next):
		return broken
	default:
		h.delay = min(2*h.delay, maxDelay)
	}
	h.free, h.next = false, now.Add(h.delay)
	return nil
}
