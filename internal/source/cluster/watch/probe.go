package watch

import (
	"context"
	"time"
)

// probeTimeout limits the probe of a kind that is watched.
const probeTimeout = 1500 * time.Millisecond

// heavy decides when a failing kind may request everything again.
type heavy struct {
	delay time.Duration // before the next request, if a probe has not failed in between
	next  time.Time
	free  bool // a probe has failed since: the next success justifies a request
}

// admit returns nil if a kind whose watch is broken may request everything now. A probe has to succeed. In addition,
// the kind must not have failed just now although a probe succeeded: a probe cannot see the cause of such a failure.
// The caller has the turn.
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
