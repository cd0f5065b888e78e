// Package watch reads a cluster by watching it: a stream for each kind brings changes as they happen, and a read takes what the
// streams have brought, without a request.
//
// What a watch claims is not believed blindly. A first list that loses more than half of a kind is confirmed by a consistent list,
// everything is listed again at every reconcile interval, and a watch that is silent has to prove itself. A watch that stays broken
// makes reads fail, so that the table counts as stale.
//
// A [Watcher] is a source and a follower for package poller. Its methods are safe for concurrent use.
package watch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/routesrv/routesrv/internal/source/cluster/internal/api"
	"github.com/routesrv/routesrv/internal/source/cluster/internal/lister"
	"github.com/routesrv/routesrv/kube"
)

// Defaults and limits of a [Watcher].
const (
	// DefaultReconcileInterval is how often everything is listed although nothing should have been missed.
	DefaultReconcileInterval = 10 * time.Minute
	// StaleAfter is how long the watch of a kind may be broken until reads fail and the table counts as stale.
	StaleAfter = 30 * time.Second
	// quiet and busy bound how long events are gathered: until none came for quiet, and no longer than busy.
	quietTime, busyTime = 50 * time.Millisecond, 500 * time.Millisecond
)

// Messages of a [Watcher].
const (
	MessageBroken         = "watch is broken; what was seen last is kept"
	MessageBack           = "watch is back"
	MessageDiffers        = "reconcile found differences: the watch missed changes; the listed objects are taken"
	MessageSilent         = "watch misses changes; it is started again"
	MessageRunning        = "watching"
	MessageReconcileFails = "reconcile cannot list"
)

// Config is what a [Watcher] needs.
type Config struct {
	api.Config
	// ReconcileInterval is the time between two complete lists that must find no difference; default
	// [DefaultReconcileInterval].
	ReconcileInterval time.Duration
	// ProbeInterval is how often an API server that does not answer is asked for one object of each kind, so that
	// everything goes on as soon as it does. Lists and watches that begin with everything wait for such an answer. 0 means
	// that they are tried again after growing delays of up to 20 s.
	ProbeInterval time.Duration
	// WatchMetrics is filled; nil means that nobody looks.
	WatchMetrics *Metrics
}

// Watcher reads one cluster by watching it: one list and one watch for each kind. Reads give what the watches have shown
// and cost next to nothing.
//
// [Watcher.Run] has to run for reads to succeed. It may be called again after it has returned, and begins anew then;
// objects that did not change in between keep their pointers. The other methods are safe for concurrent use.
//
// # Complete
//
// A read waits until every kind was listed and its watch accepted, or fails. A kind whose watch is broken keeps its
// objects; when that lasts for [StaleAfter] reads fail and say which kind it is and why. Objects that cannot be
// decoded are in the snapshot's Bad, as in package cluster.
//
// # Up to which revision
//
// Events and bookmarks of a kind come in the order of their revisions, so that a kind is complete up to the last one that
// came, and has nothing newer. The snapshot is complete up to the lowest of these and has nothing above the highest. A
// kind to which nobody writes gets a bookmark about once a minute: Revision lags that much behind, as it does for lists
// from the API server's cache. Events up to a revision that a list has shown meanwhile are passed over.
//
// A watch from a revision that the server has not reached, because etcd was restored, is silent: it brings no event and no
// error. So every [checkInterval] each kind is asked for its current revision, by a consistent list of one object. If that
// is below what the watch has shown, etcd was restored: everything is listed anew, consistently, before the next read
// succeeds. If the watch does not reach it within [silentAfter], the kind is listed; and if that finds a change, the watch
// has missed it and is started again. A kind is also listed after its watch broke and went on: a restored etcd may have
// overtaken the revision by then.
//
// A consistent read asks for the current revision of each kind and waits a moment for the watch to reach it. What does
// not is listed consistently.
//
// # Reconcile
//
// Every ReconcileInterval all kinds are listed, decoded and compared with what the watches have shown. A list is compared
// only when the watch has reached its revision, together with the events that came after it, so that a watch which merely
// lags is no difference. A difference is logged, counted and the list is right.
//
// # Caveats
//
// Kinds arrive independently. An Ingress that refers to a new Service can be seen some milliseconds before the Service,
// which lists that are read one after the other rule out, mostly; events are gathered for a moment, which hides all of this
// unless the API server's caches lag behind each other.
type Watcher struct {
	// set by New, read only
	lister    *lister.Lister // its lists and last snapshot are guarded by mu here, the rest by its turn
	log       *slog.Logger
	metrics   *Metrics
	reconcile time.Duration
	probing   time.Duration // 0: there are no probes
	kinds     []*watched    // in the order of lister.Lists
	changed   chan struct{}

	running chan struct{} // capacity 1: Run holds it
	dirty   chan struct{} // capacity 1: there is something to gather
	look    chan struct{} // capacity 1: discovery and revisions are to be looked at soon

	mu        sync.Mutex    // guards what follows, and all of kinds
	moved     chan struct{} // closed and replaced when a kind becomes ready or fails
	session   *session      // nil while Run does not run
	discovery outage
	asked     bool // discovery was answered in this session
}

// session is the time between two starts from nothing.
type session struct {
	stop     context.CancelFunc
	restored bool // guarded by Watcher.mu
}

// errNotRunning says that nobody runs the Watcher.
var errNotRunning = errors.New("the watch does not run")

// New checks the configuration and prepares a Watcher. It reads the files that the configuration names, makes no
// request and starts nothing.
func New(cfg Config) (*Watcher, error) {
	switch {
	case cfg.ReconcileInterval < 0:
		return nil, fmt.Errorf("reconcile interval %v: want a positive duration", cfg.ReconcileInterval)
	case cfg.ReconcileInterval == 0:
		cfg.ReconcileInterval = DefaultReconcileInterval
	}
	if cfg.ProbeInterval < 0 {
		return nil, fmt.Errorf("probe interval %v: want no negative duration", cfg.ProbeInterval)
	}
	l, err := lister.New(cfg.Config)
	if err != nil {
		return nil, err
	}
	if cfg.WatchMetrics == nil {
		cfg.WatchMetrics = NewMetrics(nil)
	}
	w := &Watcher{
		lister: l, log: l.Log, metrics: cfg.WatchMetrics, reconcile: cfg.ReconcileInterval,
		probing: cfg.ProbeInterval,
		changed: make(chan struct{}, 1), running: make(chan struct{}, 1), dirty: make(chan struct{}, 1),
		look: make(chan struct{}, 1), moved: make(chan struct{}),
	}
	l.Metrics.Reading("watch")
	for _, l := range l.Lists {
		w.kinds = append(w.kinds, newWatched(w, l))
		w.metrics.show(l.Kind)
	}
	return w, nil
}

// Changed gives a value when there is something to read: events that were gathered for a moment, or a kind that was broken
// and is back. It holds one value at most.
func (w *Watcher) Changed() <-chan struct{} { return w.changed }

// Run watches until ctx ends and everything that it started has ended. It returns nil then, and an error if it runs
// already.
func (w *Watcher) Run(ctx context.Context) error {
	select {
	case w.running <- struct{}{}:
		defer func() { <-w.running }()
	default:
		return errors.New("the watch runs already")
	}
	w.log.Info(MessageRunning, slog.Duration("reconcile_interval", w.reconcile))
	for ctx.Err() == nil {
		w.runSession(ctx)
	}
	return nil
}

// Drop lets go of the objects. It does nothing while the Watcher runs; the next run begins with nothing anyway.
func (w *Watcher) Drop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.session == nil {
		w.lister.Drop()
	}
}

// runSession lists and watches everything, from nothing, until ctx ends or etcd turns out to be restored.
func (w *Watcher) runSession(parent context.Context) {
	ctx, stop := context.WithCancel(parent)
	defer stop()
	s := &session{stop: stop}
	w.mu.Lock()
	w.session, w.asked, w.discovery = s, false, outage{}
	for _, k := range w.kinds {
		k.reset()
	}
	w.mu.Unlock()

	var group sync.WaitGroup
	group.Go(func() { w.gather(ctx) })
	group.Go(func() { w.checkLoop(ctx) })
	group.Go(func() { w.reconcileLoop(ctx) })
	for _, k := range w.kinds {
		group.Go(func() { k.follow(ctx) })
	}
	group.Wait()

	w.mu.Lock()
	defer w.mu.Unlock()
	w.session = nil
	w.wake()
}

// restored ends the session: the cluster went back in time, and nothing of what is known may be mixed with what is now.
// mu is held.
func (w *Watcher) restored(err error) {
	s := w.session
	if s == nil || s.restored {
		return
	}
	s.restored = true
	w.lister.Metrics.Restores.Inc()
	w.log.Warn(lister.MessageRestored, slog.Any("error", err))
	for _, k := range w.kinds {
		k.reset() // no read succeeds before the next session has listed everything
	}
	s.stop()
}

// wake tells reads that wait to look again; mu is held.
func (w *Watcher) wake() {
	close(w.moved)
	w.moved = make(chan struct{})
}

// gather passes on that there is something new, when no more came for a moment.
func (w *Watcher) gather(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.dirty:
		}
		limit := time.NewTimer(busyTime)
		quiet := time.NewTimer(quietTime)
		for gathering := true; gathering; {
			select {
			case <-ctx.Done():
				gathering = false
			case <-w.dirty:
				quiet.Reset(quietTime)
			case <-quiet.C:
				gathering = false
			case <-limit.C:
				gathering = false
			}
		}
		limit.Stop()
		quiet.Stop()
		poke(w.changed)
	}
}

// poke puts a value into a channel of capacity 1, unless there is one.
func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Read gives what the watches have shown. It waits until every kind was listed, no longer than for the time limit of a
// request, and fails when a kind cannot be. The error is a *[kube.ReadError] that names the kind, or that of ctx. When
// nothing changed, the same objects, slices and, if the revisions are the same, the same snapshot are returned again.
func (w *Watcher) Read(parent context.Context, o kube.ReadOptions) (*kube.Snapshot, error) {
	ctx, cancel := context.WithTimeout(parent, w.lister.Config.Timeout)
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
			defer w.mu.Unlock()
			return w.lister.Snapshot(), nil
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

// ready says why a read has to wait, or must fail; mu is held. A failure from before the read began is no reason to fail
// as long as it may pass.
func (w *Watcher) ready(began time.Time) (wait, err error) {
	now := time.Now()
	if w.session == nil {
		return &kube.ReadError{Verb: "watch", Resource: w.kinds[0].list.Name(), Err: errNotRunning}, nil
	}
	if failed := w.discovery.lasting(now); failed != nil {
		return nil, failed
	}
	if !w.asked {
		if w.discovery.err != nil && w.discovery.last.After(began) {
			return nil, w.discovery.err
		}
		wait = &kube.ReadError{Verb: "get", Resource: api.DiscoveryPath, Err: errors.New("no answer yet")}
	}
	for _, k := range w.kinds {
		if k.list.Absent && !k.wanted {
			continue
		}
		switch failed := k.failed(now); {
		case failed != nil:
			return nil, failed
		case k.synced || k.list.Absent: // one that was installed just now is taken when it is complete
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
