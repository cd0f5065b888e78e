package cluster

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/routesrv/routesrv/kube"
)

// Limits of a [Watcher].
const (
	// StaleAfter is how long the watch of a kind may be broken before reads fail and the table counts as stale.
	StaleAfter = 30 * time.Second
	// quietTime and busyTime bound how long events are gathered: until no event arrives for quietTime, and never
	// longer than busyTime.
	quietTime, busyTime = 50 * time.Millisecond, 500 * time.Millisecond
)

// Log messages of a [Watcher].
const (
	LogBroken = "watch is broken; keeping the last known objects"
	LogListed = "watch request gets no answer, perhaps because a proxy buffers it; falling back to lists"
	LogBack   = "watch recovered"
	LogSilent = "watch does not deliver the latest changes; restarting it"
)

// Watcher reads one cluster by watching it, with one list and one watch for each kind. Reads return what the watches
// have shown and cost next to nothing. It is a source and a follower for package poller.
//
// A watch never resumes. Each one starts at the revision of a list, and ends after some minutes at the latest. So the next list
// shows whatever a watch has missed, and every failure is recovered from in the same way. A kind whose watch is broken keeps its
// objects; after [StaleAfter], reads fail and name the kind and the reason.
//
// Reads succeed only while [Watcher.Run] runs. Run may be called again after it has returned; unchanged objects keep their
// pointers. The other methods are safe for concurrent use.
//
// # Up to which revision
//
// Events and bookmarks of a kind arrive in the order of their revisions. So a kind is complete up to the last one
// that arrived, and has nothing newer. The snapshot is complete up to the lowest of these revisions and has nothing
// above the highest. A kind without writes gets a bookmark about once a minute: Revision lags by that much, as it does
// for lists from the API server's cache.
//
// A watch from a revision that the server has not reached, because etcd was restored, is silent. Therefore the Watcher requests
// the current revision of each kind every [checkInterval]. If that revision is below the watch's, etcd was restored: the Watcher
// lists everything again, consistently, before the next read succeeds. If the watch does not reach the revision within
// [silentAfter], the Watcher restarts it. A consistent read waits briefly for each watch to reach the current revision, and lists
// its kind otherwise.
//
// Kinds arrive independently: an Ingress that refers to a new Service can appear some milliseconds before the Service. Gathering
// events briefly hides that, unless the API server's caches lag behind each other.
type Watcher struct {
	// set by New, read only
	*lister            // mu guards its lists and last snapshot; its turn guards the rest
	kinds   []*watched // in the order of Lists
	changed chan struct{}

	dirty   chan struct{} // capacity 1: a change waits to be gathered
	filters sync.Mutex    // held while Config.Filters runs

	mu        sync.Mutex    // guards the fields below, and all of kinds
	moved     chan struct{} // closed and replaced when a kind becomes ready or fails
	active    bool          // Run runs
	discovery outage
	asked     bool // discovery has answered in this run
}

// errNotRunning reports that Run is not running.
var errNotRunning = errors.New("the watch is not running")

// NewWatcher checks the configuration and prepares a Watcher. It reads the files that the configuration names, makes no
// request and starts nothing.
func NewWatcher(cfg Config) (*Watcher, error) {
	l, err := newLister(cfg)
	if err != nil {
		return nil, err
	}
	w := &Watcher{
		lister:  l,
		changed: make(chan struct{}, 1), dirty: make(chan struct{}, 1), moved: make(chan struct{}),
	}
	for _, l := range l.lists {
		w.kinds = append(w.kinds, &watched{w: w, list: l, restart: func() {}})
	}
	return w, nil
}

// Changed delivers a value when a read would return something new: after events have been gathered briefly, or when a
// broken kind has recovered. The channel holds at most one value.
func (w *Watcher) Changed() <-chan struct{} { return w.changed }

// Run watches until ctx ends and returns nil once everything that it started has ended. It returns an error if it is
// already running.
func (w *Watcher) Run(ctx context.Context) error {
	w.mu.Lock()
	if w.active {
		w.mu.Unlock()
		return errors.New("the watch is already running")
	}
	w.cfg.Logger.Info("watching")
	w.active, w.asked, w.discovery = true, false, outage{}
	for _, k := range w.kinds {
		k.reset()
		k.wanted, k.reported = k.list != w.routeGroups, false
	}
	w.mu.Unlock()

	var group sync.WaitGroup
	group.Go(func() { w.gather(ctx) })
	group.Go(func() { w.checkLoop(ctx) })
	for _, k := range w.kinds {
		group.Go(func() { k.follow(ctx) })
	}
	group.Wait()

	w.mu.Lock()
	defer w.mu.Unlock()
	w.active = false
	w.wake()
	return nil
}

// Drop releases the objects. It does nothing while the Watcher runs. The next run lists everything.
func (w *Watcher) Drop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.active {
		w.drop()
	}
}

// restored forgets all revisions because the cluster went back in time: objects from before the restore must not mix
// with objects from after it, so no read succeeds before everything has been listed. The caller holds mu.
func (w *Watcher) restored(err error) {
	w.cfg.Metrics.Restores.Inc()
	w.cfg.Logger.Warn(LogRestored, slog.Any("error", err))
	for _, k := range w.kinds {
		k.reset()
		k.restart()
	}
}

// wake makes waiting reads check again. The caller holds mu.
func (w *Watcher) wake() {
	close(w.moved)
	w.moved = make(chan struct{})
}

// gather signals Changed once no event has arrived for quietTime, and after busyTime at the latest.
func (w *Watcher) gather(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.dirty:
		}
		limit, cancel := context.WithTimeout(ctx, busyTime)
		for limit.Err() == nil {
			select {
			case <-w.dirty:
			case <-time.After(quietTime):
				cancel()
			case <-limit.Done():
			}
		}
		cancel()
		poke(w.changed)
	}
}

// poke sends on a channel of capacity 1, unless the channel is full.
func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Read returns the objects as seen by the watches. It waits until every kind has been listed, at most for the time limit of a
// request, and fails when a kind cannot be listed. The error is a *[kube.ReadError] that names the kind, or the error of ctx.
// If nothing changed, Read returns the same objects and slices again and, if the revisions are the same, the same snapshot.
func (w *Watcher) Read(parent context.Context, o kube.ReadOptions) (*kube.Snapshot, error) {
	ctx, cancel := context.WithTimeout(parent, w.cfg.Timeout)
	defer cancel()
	began := time.Now()
	caughtUp := !o.Consistent
	for {
		w.mu.Lock()
		wait, err := w.ready(began)
		switch {
		case err != nil:
			w.mu.Unlock()
			return nil, err
		case wait == nil && caughtUp:
			s := w.snapshot()
			w.mu.Unlock()
			w.filters.Lock()
			defer w.filters.Unlock()
			return w.cfg.Filters(s), nil
		}
		moved := w.moved
		w.mu.Unlock()
		if wait == nil {
			if err := w.catchUp(ctx); err != nil {
				return nil, err
			}
			caughtUp = true
			continue
		}
		select {
		case <-moved:
		case <-ctx.Done():
			if err := parent.Err(); err != nil {
				return nil, err
			}
			return nil, wait
		}
	}
}

// ready returns why a read must wait, or must fail. The caller holds mu. A failure from before the read began does not
// fail the read as long as it may still recover.
func (w *Watcher) ready(began time.Time) (wait, err error) {
	now := time.Now()
	if !w.active {
		return &kube.ReadError{Verb: "watch", Resource: w.kinds[0].list.Name(), Err: errNotRunning}, nil
	}
	if failed := w.discovery.lasting(now); failed != nil {
		return nil, failed
	}
	if !w.asked {
		if w.discovery.err != nil && w.discovery.last.After(began) {
			return nil, w.discovery.err
		}
		wait = &kube.ReadError{Verb: "get", Resource: discoveryPath, Err: errors.New("no answer yet")}
	}
	for _, k := range w.kinds {
		if k.list.absent && !k.wanted {
			continue
		}
		if k.stream.err != nil && w.without(k.list, k.stream.err) {
			continue
		}
		switch failed := k.failed(now); {
		case failed != nil:
			return nil, failed
		case k.synced || k.list.absent: // a kind that was just installed joins the snapshot once it is complete
		case k.stream.err != nil && k.stream.last.After(began):
			return nil, k.stream.err
		case wait == nil || k.stream.err != nil:
			if wait = k.stream.err; wait == nil {
				wait = k.waits()
			}
		}
	}
	return wait, nil
}
