package cluster

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/routesrv/routesrv/kube"
)

// floorRetry is how long lists go without a common floor after the API server was unable to honor one.
const floorRetry = 10 * time.Minute

// LogRestored is logged as a warning when the API goes back in time because etcd was restored from a backup.
const LogRestored = "cluster went back to an older revision; reading everything again"

// errRestored reports that a consistent list returned a revision below one that was seen before.
var errRestored = errors.New("the revision is lower than one seen before")

// askFor lists one kind and compares the answer with the known content. The list is consistent, or else no older than the
// known content and the floor. askFor does not change l. The error is a *[kube.ReadError].
func (r *lister) askFor(ctx context.Context, l *list, consistent bool, floor kube.Revision, known content) (listing, error) {
	start := time.Now()
	var (
		a   listing
		err error
	)
	consistent = consistent || known.seen == 0
	if !consistent {
		a, err = r.notOlder(ctx, l, floor, known)
	}
	if consistent || needsConsistent(err) {
		a, err = r.ask(ctx, l, 0, known)
	}
	if err == nil {
		a, err = r.confirmLoss(ctx, l, a, known)
	}
	if err != nil {
		if !errors.Is(err, errRestored) { // a restore does not make the read fail
			r.cfg.Metrics.ReadErrors.WithLabelValues(string(l.Kind), string(reasonOf(err))).Inc()
		}
		return a, &kube.ReadError{Verb: "list", Resource: l.Name(), Err: err}
	}
	r.cfg.Metrics.ListDuration.WithLabelValues(string(l.Kind)).Observe(time.Since(start).Seconds())
	r.cfg.Metrics.ListObjects.WithLabelValues(string(l.Kind)).Set(float64(len(a.items)))
	return a, nil
}

// withoutFloor reports whether lists currently go without a common floor.
func (r *lister) withoutFloor() bool { return time.Since(r.noFloorSince) < floorRetry }

// notOlder lists one kind at the floor or, if the server cannot reach it, at the known revision.
func (r *lister) notOlder(ctx context.Context, l *list, floor kube.Revision, known content) (listing, error) {
	since := known.seen
	if !r.withoutFloor() { // an earlier list of this same read may have found that out
		since = max(since, floor)
	}
	a, err := r.ask(ctx, l, since, known)
	if since == known.seen || !isTooNew(err) {
		return a, err
	}
	r.noFloorSince = time.Now()
	r.cfg.Logger.Info("the API server cannot bring its caches up to a requested revision; reads are complete, but only up to a less precise revision", slog.String("kind", string(l.Kind)), slog.Any("error", err))
	return r.ask(ctx, l, known.seen, known)
}

// ask makes one request for the list, no older than since, or a consistent one if since is 0, and compares the answer
// with the known content. It does not change l.
func (r *lister) ask(ctx context.Context, l *list, since kube.Revision, known content) (a listing, err error) {
	err = r.api.get(ctx, l.List(since), func(resp *response) error {
		var wire digest
		if resp.wire != nil {
			// The bytes are identical, revision included. If the floor is above the known revision, though, a newer
			// answer is required.
			if wire = sha256.Sum256(resp.wire); wire == known.wire && known.seen >= since {
				a = listing{content: known}
				return nil
			}
		}
		m := newMatcher(l, known, resp.Media)
		revision, err := resp.list(l.Kind, m.add)
		if err != nil {
			return err
		}
		switch {
		case revision != 0 && revision < since:
			return failf(reasonStale, "answer to %s: its revision %d is older than what was asked for", resp.Path, revision)
		case revision != 0 && revision < known.seen:
			return failf(reasonStale, "%w: %d after %d", errRestored, revision, known.seen)
		case revision == 0 && since != 0:
			return failf(reasonStale, "answer to %s: %w", resp.Path, errNoRevision)
		}
		r.cfg.Metrics.DecodedObjects.WithLabelValues(string(l.Kind)).Add(float64(m.decoded))
		a = m.listing()
		a.seen, a.wire = revision, wire
		return nil
	})
	return a, err
}

// confirmedLoss is the share of known objects that a list may lack before another list has to confirm it. It equals
// the guard's default share for routes.
const confirmedLoss = 0.5

// confirmLoss makes a second, consistent request if the answer lacks so many known objects that it may be wrong: all
// objects of the kind, or most of them. The second answer counts.
func (r *lister) confirmLoss(ctx context.Context, l *list, a listing, known content) (listing, error) {
	if !a.suspicious(len(known.items)) {
		return a, nil
	}
	again, err := r.ask(ctx, l, 0, known)
	if err != nil {
		return again, fmt.Errorf("confirm with a consistent list that %d of %d objects were removed: %w", a.lost, len(known.items), err)
	}
	if again.lost < a.lost {
		r.cfg.Logger.Warn("a list lacked objects that a consistent list has; the API server, or a proxy in front of it, returns wrong answers", slog.String("kind", string(l.Kind)), slog.Int("objects", a.lost-again.lost))
	}
	return again, nil
}

// suspicious reports whether the answer lacks so many of the known objects that another list has to confirm it.
func (a listing) suspicious(known int) bool {
	return a.lost > 0 && (a.lost == known || float64(a.lost) > confirmedLoss*float64(known))
}

const (
	// checkInterval is how often to check discovery and the revisions, and checkTimeout limits each request.
	checkInterval, checkTimeout = 10 * time.Second, 10 * time.Second
	// retryInterval is how often to check while discovery fails.
	retryInterval = time.Second
	// silentAfter is how long a watch may stay below a revision that the kind has reached. Bookmarks arrive once a minute.
	silentAfter = 75 * time.Second
	// consistentPatience is how long a consistent read waits for a watch before it lists the kind.
	consistentPatience = 100 * time.Millisecond
)

// checkLoop checks discovery and the revisions until ctx ends.
func (w *Watcher) checkLoop(ctx context.Context) {
	for ctx.Err() == nil {
		wait := checkInterval
		if w.checkDiscovery(ctx) != nil {
			wait = retryInterval
		}
		for _, k := range w.kinds {
			w.checkKind(ctx, k)
		}
		// Jitter keeps replicas that started together from checking together.
		sleep(ctx, wait-wait/10+rand.N(wait/5))
	}
}

// checkDiscovery determines whether the cluster has RouteGroups. It tolerates failures until they have lasted too long.
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
			w.cfg.Logger.Warn(LogBroken, slog.String("kind", "discovery"), slog.Any("error", err))
		}
		w.discovery.fail(readError("get", discoveryPath, err))
		w.wake()
		return w.discovery.err
	}
	if !w.discovery.since.IsZero() {
		w.cfg.Logger.Info(LogBack, slog.String("kind", "discovery"))
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

// currentOf requests the current revision of a kind. If it is below the revision that the watch had reached before the
// request, etcd was restored, and everything is listed again.
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

// checkKind requests the current revision of a kind and compares it with the revision of the watch. It restarts a watch
// that has been behind for too long, with a list.
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
		w.cfg.Metrics.ReadErrors.WithLabelValues(string(k.list.Kind), string(reasonOf(err))).Inc()
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
		w.cfg.Logger.Warn(LogSilent, slog.String("kind", string(k.list.Kind)), slog.Uint64("revision", uint64(k.list.seen)))
		w.cfg.Metrics.WatchRestarts.WithLabelValues(string(k.list.Kind), "silent").Inc()
		k.restart()
	}
}

// isSynced reports whether the kind is part of the snapshot.
func (k *watched) isSynced() bool {
	k.w.mu.Lock()
	defer k.w.mu.Unlock()
	return k.synced && !k.list.absent
}

// catchUp brings all kinds up to the revision of the cluster at the time of the call.
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

// catchUpKind waits briefly for the watch of a kind to reach the current revision, and otherwise lists the kind.
func (w *Watcher) catchUpKind(ctx context.Context, k *watched) error {
	if !k.isSynced() {
		return nil // Read waits for it, or the cluster does not have it
	}
	current, err := w.currentOf(ctx, k)
	if err != nil || w.await(ctx, k, current) {
		return err
	}
	release, err := w.acquire(ctx)
	if err != nil {
		return readError("list", k.list.Name(), err)
	}
	defer release()
	return k.listAndAdopt(ctx, true)
}

// await waits until the watch of a kind has reached the revision, but at most consistentPatience. It reports whether the
// watch has reached it.
func (w *Watcher) await(ctx context.Context, k *watched, revision kube.Revision) bool {
	ctx, cancel := context.WithTimeout(ctx, consistentPatience)
	defer cancel()
	for k.seen() < revision {
		if ctx.Err() != nil {
			return false
		}
		sleep(ctx, consistentPatience/50)
	}
	return true
}
