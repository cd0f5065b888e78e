package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/routesrv/routesrv/kube"
)

const (
	// checkInterval is how often to check discovery and the revisions, and checkTimeout limits each request.
	checkInterval, checkTimeout = 10 * time.Second, 10 * time.Second
	// retryInterval is how often to check while discovery fails.
	retryInterval = time.Second
	// silentAfter is how long a watch may stay below a revision that the kind has reached. Bookmarks arrive once a
	// minute.
	silentAfter = 75 * time.Second
	// consistentPatience is how long a consistent read waits for a watch before it lists the kind.
	consistentPatience = 100 * time.Millisecond
)

// checkLoop checks discovery and the revisions until ctx ends.
func (w *Watcher) checkLoop(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		wait := checkInterval
		if w.checkDiscovery(ctx) != nil {
			wait = retryInterval
		}
		for _, k := range w.kinds {
			w.checkKind(ctx, k)
		}
		// Jitter keeps replicas that started together from checking together.
		timer.Reset(wait - wait/10 + rand.N(wait/5))
	}
}

// checkDiscovery finds out whether the cluster has RouteGroups. A failure changes nothing until it has lasted too
// long.
func (w *Watcher) checkDiscovery(parent context.Context) error {
	ctx, cancel := context.WithTimeout(parent, checkTimeout)
	defer cancel()
	release, err := w.acquire(ctx)
	found := false
	if err == nil {
		w.mu.Lock()
		l := w.routeGroups
		served := !l.absent && len(l.items) > 0
		w.mu.Unlock()
		found, err = w.discover(ctx, served)
		release()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if parent.Err() != nil {
		return parent.Err()
	}
	if err != nil {
		if w.discovery.since.IsZero() {
			w.log.Warn(LogBroken, slog.String("kind", "discovery"), slog.Any("error", err))
		}
		w.discovery.fail(readError("get", discoveryPath, err))
		w.wake()
		return w.discovery.err
	}
	if !w.discovery.since.IsZero() {
		w.log.Info(LogBack, slog.String("kind", "discovery"))
	}
	if w.discovery.lasting(time.Now()) != nil {
		poke(w.dirty) // reads failed, and succeed again
	}
	w.discovery = outage{}
	for _, k := range w.kinds {
		if k.list != w.routeGroups {
			continue
		}
		if !found && !k.list.absent {
			k.list.setAbsent(true)
			poke(w.dirty)
		}
		k.want(found)
	}
	if !w.asked {
		w.asked = true
		w.wake()
	}
	return nil
}

// currentOf asks for the current revision of a kind. If that is below what the watch had shown before the request, etcd
// was restored, and everything is listed again.
func (w *Watcher) currentOf(ctx context.Context, k *watched) (current kube.Revision, err error) {
	release, err := w.acquire(ctx)
	if err != nil {
		return 0, readError("list", k.list.Name(), err)
	}
	defer release()
	before := k.seen()
	current, err = w.api.current(ctx, &k.list.resource)
	if err == nil && current == 0 {
		err = errNoRevision
	}
	if err != nil {
		return 0, readError("list", k.list.Name(), err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if current < before && k.list.seen >= before { // else everything was just forgotten
		err := fmt.Errorf("%s: %w: %d after %d", k.list.Name(), errRestored, current, before)
		w.restored(err)
		return 0, readError("list", k.list.Name(), err)
	}
	return current, nil
}

// checkKind asks for the current revision of a kind and compares it with what the watch has shown. A watch that has been
// behind for too long is started again, with a list.
func (w *Watcher) checkKind(parent context.Context, k *watched) {
	if !k.isSynced() {
		return
	}
	ctx, cancel := context.WithTimeout(parent, checkTimeout)
	defer cancel()
	floor, err := w.currentOf(ctx, k)
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	switch {
	case parent.Err() != nil:
		return
	case err != nil:
		w.metrics.ReadErrors.WithLabelValues(string(k.list.Kind), string(reasonOf(err))).Inc()
		k.check.fail(err)
		return
	case k.check.lasting(now) != nil:
		poke(w.dirty) // reads may have failed
	}
	k.check = outage{}
	k.backIfAlive(now)
	switch {
	case k.list.seen >= floor:
		k.lag = lag{}
		k.confirmed(now)
	case k.lag.floor == 0 || k.list.seen >= k.lag.floor:
		k.lag = lag{floor, now}
	case now.Sub(k.lag.since) >= silentAfter && k.open:
		k.lag = lag{}
		w.log.Warn(LogSilent, slog.String("kind", string(k.list.Kind)), slog.Uint64("revision", uint64(k.list.seen)))
		w.metrics.WatchRestarts.WithLabelValues(string(k.list.Kind), "silent").Inc()
		k.restart()
	}
}

// isSynced reports whether the kind is part of the snapshot.
func (k *watched) isSynced() bool {
	k.w.mu.Lock()
	defer k.w.mu.Unlock()
	return k.synced
}

// catchUp brings all kinds up to what was written before it was called.
func (w *Watcher) catchUp(ctx context.Context) error {
	if err := w.checkDiscovery(ctx); err != nil {
		return err
	}
	for _, k := range w.kinds {
		// If etcd turns out to be restored, the kind is listed consistently before the read continues.
		if err := w.catchUpKind(ctx, k); err != nil && !errors.Is(err, errRestored) {
			return err
		}
	}
	return nil
}

// catchUpKind waits a moment for the watch of a kind to show the current revision, and lists the kind otherwise.
func (w *Watcher) catchUpKind(ctx context.Context, k *watched) error {
	if !k.isSynced() {
		return nil // Read waits for it, or the cluster does not have it
	}
	current, err := w.currentOf(ctx, k)
	if err != nil || w.await(ctx, k, current, consistentPatience) {
		return err
	}
	release, err := w.acquire(ctx)
	if err != nil {
		return readError("list", k.list.Name(), err)
	}
	defer release()
	return k.listAndAdopt(ctx, true)
}

// await waits until the watch of a kind has reached the revision, but no longer than patience. It reports whether the
// watch is there.
func (w *Watcher) await(ctx context.Context, k *watched, revision kube.Revision, patience time.Duration) bool {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	tick := time.NewTicker(max(time.Millisecond, patience/50))
	defer tick.Stop()
	for k.seen() < revision {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return false
		}
	}
	return true
}
