package cluster

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/routesrv/routesrv/kube"
)

// Probe repeats the request that made the last [Source.Read] fail, for one object only. It returns an error if the API
// server does not answer, or answers that it cannot: a read would fail as well. Anything else is for a read to find out,
// and no error here. It fails when ctx ends while a Read is running.
func (s *Source) Probe(ctx context.Context) error {
	select {
	case s.busy <- struct{}{}:
		defer func() { <-s.busy }()
	case <-ctx.Done():
		return ctx.Err()
	}
	return s.probe(ctx, s.failed)
}

// probe is Probe for a list, or for discovery. The caller owns busy.
func (s *Source) probe(ctx context.Context, l *list) error {
	verb, resource := "get", discoveryPath
	var err error
	if l == nil {
		_, err = s.askDiscovery(ctx)
	} else {
		verb, resource = "list", l.name()
		_, err = s.current(ctx, l)
	}
	if !isDown(err) {
		return nil
	}
	return &kube.ReadError{Verb: verb, Resource: resource, Err: err}
}

// isDown reports whether the error says that the API server is not there, or not able to answer.
func isDown(err error) bool {
	if err == nil {
		return false
	}
	if e, ok := errors.AsType[*statusError](err); ok {
		return e.code >= http.StatusInternalServerError || e.code == http.StatusTooManyRequests
	}
	switch reasonOf(err) {
	case reasonConnection, reasonTimeout, reasonCanceled:
		return true
	}
	return false
}

// watchProbeTimeout is how long the probe of a kind that is watched may take.
const watchProbeTimeout = 1500 * time.Millisecond

// heavy is when a kind that fails may be asked for everything again.
type heavy struct {
	delay time.Duration // before the next request, if a probe has not failed in between
	next  time.Time
	free  bool // a probe has failed since: the next one that succeeds is worth a request
}

// admit reports whether a kind whose watch is broken may be asked for everything now. A probe has to succeed, and the kind
// must not have failed just now although one did: what it fails of then is nothing that a probe can see. The caller owns
// the source's busy.
func (k *watched) admit(ctx context.Context) error {
	w := k.w
	w.mu.Lock()
	broken := k.stream.err
	w.mu.Unlock()
	if w.probing == 0 || broken == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, watchProbeTimeout)
	defer cancel()
	err := w.source.probe(ctx, k.list)
	w.mu.Lock()
	defer w.mu.Unlock()
	now, h := time.Now(), &k.heavy
	switch {
	case err != nil:
		h.free = true
		return err
	case h.free || h.next.IsZero():
		h.delay = firstBackoff
	case now.Before(h.next):
		return broken
	default:
		h.delay = min(2*h.delay, maxBackoff)
	}
	h.free, h.next = false, now.Add(h.delay)
	return nil
}
