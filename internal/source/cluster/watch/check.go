package watch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/routesrv/routesrv/internal/source/cluster/internal/api"
	"github.com/routesrv/routesrv/internal/source/cluster/internal/lister"
	"github.com/routesrv/routesrv/kube"
)

const (
	// checkInterval is how often to check discovery and the revisions, and checkTimeout limits each request.
	checkInterval, checkTimeout = 10 * time.Second, 10 * time.Second
	// silentAfter is how long a watch may stay below a revision that the kind has reached. Bookmarks arrive once a
	// minute.
	silentAfter = 75 * time.Second
	// consistentPatience is how long a consistent read waits for a watch; reconcilePatience is how long a reconcile
	// waits.
	consistentPatience, reconcilePatience = 100 * time.Millisecond, 10 * time.Second
	// namedDifferences is how many objects the log message of a reconcile names.
	namedDifferences = 5
)

// checkLoop checks discovery and the revisions until ctx ends.
func (w *Watcher) checkLoop(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.look:
		case <-timer.C:
		}
		w.checkAll(ctx)
		wait := checkInterval
		switch err := w.discoveryFails(); {
		case errors.Is(err, lister.ErrUnconfirmed):
			wait = lister.ConfirmingTime / lister.ConfirmingReads
		case err != nil && w.probing > 0:
			wait = w.probing
		}
		// Jitter keeps replicas that started together from checking together.
		timer.Reset(wait - wait/10 + rand.N(wait/5))
	}
}

// discoveryFails returns why the last check of discovery failed, or nil.
func (w *Watcher) discoveryFails() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.discovery.err
}

func (w *Watcher) checkAll(ctx context.Context) {
	if w.lister.RouteGroups != nil {
		w.checkDiscovery(ctx)
	}
	for _, k := range w.kinds {
		w.mu.Lock()
		synced := k.synced
		w.mu.Unlock()
		if synced {
			w.checkKind(ctx, k)
		}
	}
}

// checkDiscovery finds out whether the cluster has RouteGroups. A failure changes nothing until it has lasted too
// long.
func (w *Watcher) checkDiscovery(parent context.Context) {
	ctx, cancel := context.WithTimeout(parent, checkTimeout)
	defer cancel()
	release, err := w.awaitTurn(ctx)
	found := false
	if err == nil {
		w.mu.Lock()
		l := w.lister.RouteGroups
		served := !l.Absent && len(l.Items) > 0
		w.mu.Unlock()
		found, err = w.lister.Discover(ctx, served)
		release()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if parent.Err() != nil {
		return
	}
	if err != nil {
		if w.discovery.since.IsZero() {
			w.log.Warn(LogBroken, slog.String("kind", "discovery"), slog.Any("error", err))
		}
		w.discovery.fail(readError("get", api.DiscoveryPath, err))
		w.wake()
		return
	}
	if !w.discovery.since.IsZero() {
		w.log.Info(LogBack, slog.String("kind", "discovery"))
	}
	if w.discovery.lasting(time.Now()) != nil {
		poke(w.dirty) // reads failed, and succeed again
	}
	w.discovery = outage{}
	for _, k := range w.kinds {
		if k.list != w.lister.RouteGroups {
			continue
		}
		if !found && !k.list.Absent {
			k.list.SetAbsent(true)
			poke(w.dirty)
		}
		k.want(found)
	}
	if !w.asked {
		w.asked = true
		w.wake()
	}
}

// currentOf asks for the current revision of a kind and ends the session if it shows that etcd was restored: that is,
// if it is below what the watch had shown before the request.
func (w *Watcher) currentOf(ctx context.Context, k *watched) (current kube.Revision, err error) {
	release, err := w.awaitTurn(ctx)
	if err != nil {
		return 0, readError("list", k.list.Name(), err)
	}
	defer release()
	w.mu.Lock()
	before := k.list.Seen
	w.mu.Unlock()
	current, err = w.lister.API.Current(ctx, &k.list.Resource)
	if err == nil && current == 0 {
		err = api.ErrNoRevision
	}
	if err != nil {
		return 0, readError("list", k.list.Name(), err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	// Compare only with what this session has shown, not with a previous session.
	if current < before && k.list.Seen >= before {
		err := fmt.Errorf("%s: %w: %d after %d", k.list.Name(), lister.ErrRestored, current, before)
		w.restored(err)
		return 0, readError("list", k.list.Name(), err)
	}
	return current, nil
}

// checkKind asks for the current revision of a kind and compares it with what the watch has shown.
func (w *Watcher) checkKind(parent context.Context, k *watched) {
	ctx, cancel := context.WithTimeout(parent, checkTimeout)
	defer cancel()
	floor, err := w.currentOf(ctx, k)
	if parent.Err() != nil {
		return
	}
	w.mu.Lock()
	if err != nil {
		w.lister.Metrics.ReadErrors.WithLabelValues(string(k.list.Kind), string(api.ReasonOf(err))).Inc()
		k.check.fail(err)
		w.mu.Unlock()
		return
	}
	now := time.Now()
	if k.check.lasting(now) != nil {
		poke(w.dirty) // reads may have failed
	}
	k.check = outage{}
	switch {
	case k.list.Seen >= floor:
		k.lag = lag{}
		w.metrics.confirm(k.list.Kind, now)
		k.recoverIfCurrent(now)
	case k.lag.floor == 0 || k.list.Seen >= k.lag.floor:
		k.lag = lag{floor, now}
	}
	silent := k.lag.floor != 0 && now.Sub(k.lag.since) >= silentAfter
	doubt := k.doubt && k.open && k.loaded // a load in progress removes the doubt by itself
	w.mu.Unlock()
	if !silent && !doubt {
		return
	}
	missed, err := w.compare(parent, k, comparison{floor: floor})
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case err != nil && parent.Err() == nil:
		k.check.fail(err)
	case err == nil:
		k.lag, k.doubt = lag{}, k.doubt && !doubt
		w.metrics.confirm(k.list.Kind, time.Now())
		if len(missed.refs) > 0 {
			w.log.Warn(LogSilent, slog.String("kind", string(k.list.Kind)), slog.String("objects", missed.String()))
			w.metrics.restarts.WithLabelValues(string(k.list.Kind), "silent").Inc()
			k.loadedAt = time.Now() // the list has shown everything, so the next watch may deliver nothing that proves it works
			k.watchAgain()
		} else {
			k.recoverIfCurrent(time.Now())
		}
	}
}

// catchUp brings all kinds up to what was written before it was called.
func (w *Watcher) catchUp(ctx context.Context) error {
	if w.lister.RouteGroups != nil {
		w.checkDiscovery(ctx)
		w.mu.Lock()
		err := w.discovery.err
		w.mu.Unlock()
		if err != nil {
			return err
		}
	}
	for _, k := range w.kinds {
		// If etcd turns out to be restored, the next session lists the kind consistently before the read continues.
		if err := w.catchUpKind(ctx, k); err != nil && !errors.Is(err, lister.ErrRestored) {
			return err
		}
	}
	return nil
}

func (w *Watcher) catchUpKind(ctx context.Context, k *watched) error {
	w.mu.Lock()
	synced := k.synced
	w.mu.Unlock()
	if !synced {
		return nil // Read waits for it, or the cluster does not have it
	}
	current, err := w.currentOf(ctx, k)
	if err != nil {
		return err
	}
	w.await(ctx, k, current, consistentPatience)
	for {
		w.mu.Lock()
		reached := k.list.Seen >= current || !k.synced
		w.mu.Unlock()
		if reached {
			return nil
		}
		// Repeat if a newer list was adopted meanwhile.
		if _, err := w.compare(ctx, k, comparison{consistent: true}); err != nil {
			return err
		}
	}
}

// reconcileLoop lists everything at every reconcile interval until ctx ends.
func (w *Watcher) reconcileLoop(ctx context.Context) {
	for {
		timer := time.NewTimer(w.reconcile - w.reconcile/10 + rand.N(w.reconcile/5+1))
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
		for _, k := range w.kinds {
			w.reconcileKind(ctx, k)
		}
	}
}

// reconcileKind lists a kind and checks that the list agrees with what the watch has shown.
func (w *Watcher) reconcileKind(ctx context.Context, k *watched) {
	w.mu.Lock()
	synced := k.synced
	w.mu.Unlock()
	if !synced {
		return
	}
	d, err := w.compare(ctx, k, comparison{deep: true, patience: reconcilePatience})
	if err != nil {
		if ctx.Err() == nil {
			w.log.Warn(LogReconcileFails, slog.String("kind", string(k.list.Kind)), slog.Any("error", err))
			w.metrics.reconciles.WithLabelValues(string(k.list.Kind), "error").Inc()
		}
		return
	}
	w.metrics.reconciles.WithLabelValues(string(k.list.Kind), "ok").Inc()
	if len(d.refs) == 0 || !d.proven {
		return
	}
	w.log.Error(LogDiffers, slog.String("kind", string(k.list.Kind)), slog.Int("differences", len(d.refs)),
		slog.String("objects", d.String()))
	w.metrics.differences.WithLabelValues(string(k.list.Kind)).Add(float64(len(d.refs))) // after the log line, so that an alert finds the line
	w.mu.Lock()
	defer w.mu.Unlock()
	w.metrics.restarts.WithLabelValues(string(k.list.Kind), "missed").Inc()
	k.watchAgain()
}
