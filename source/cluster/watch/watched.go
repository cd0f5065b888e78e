package watch

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/source/cluster/api"
	"github.com/routesrv/routesrv/source/cluster/lister"
)

const (
	// aliveAfter is how long a stream has to stay open without a word to count as one that works.
	aliveAfter = 5 * time.Second
	// The delay before a kind is listed again; it doubles with each failure, and is spread over as much again.
	firstBackoff, maxBackoff, resetBackoff = 500 * time.Millisecond, 10 * time.Second, 2 * time.Minute
)

// outage is a failure that lasts until what failed has succeeded.
type outage struct {
	since time.Time // zero: there is none
	last  time.Time // when it failed last
	err   error     // why, a *kube.ReadError
}

func (o *outage) fail(err error) {
	o.last, o.err = time.Now(), err
	if o.since.IsZero() {
		o.since = o.last
	}
}

// lasting gives the failure if it has lasted for too long.
func (o *outage) lasting(now time.Time) error {
	if o.since.IsZero() || now.Sub(o.since) < WatchStaleAfter {
		return nil
	}
	return o.err
}

// watched is a kind that is watched. It is the store of a reflector. All but the first group is guarded by Watcher.mu.
type watched struct {
	w    *Watcher
	list *lister.List // its request is read only; what is known of it is guarded like the rest

	restart context.CancelFunc // of the reflector that runs
	life    context.Context    // of the reflector that runs: what it stores has none of its own
	wanted  bool               // to be watched; RouteGroups are not while discovery does not find them
	loaded  bool               // listed as a whole in this session
	synced  bool               // loaded, and the watch was accepted
	shared  bool               // others look at the items: they are copied before they change
	asked   kube.Revision      // what was known when the reflector last asked for everything
	listed  kube.Revision      // of the last list or beginning of a watch
	// listedAt is when a reflector last got everything that there is.
	listedAt time.Time
	// confirmed is the revision of the last list of a reflector, which was confirmed where it lacked much.
	confirmed kube.Revision
	began     time.Time  // when a stream of everything was last asked for
	logs      []*changes // what comes while lists are compared, for each of them

	stream   outage // of lists and watches
	open     bool   // a stream is open
	opened   time.Time
	reported bool      // the outage was logged
	frame    time.Time // when the last event or bookmark came
	check    outage    // of the questions for the revision
	lag      lag
	doubt    bool // the watch broke: it is not certain that it goes on in the same history
	heavy    heavy
}

// lag is a revision that the watch has not reached.
type lag struct {
	floor kube.Revision // 0: none
	since time.Time
}

// changes are what came while a list was compared.
type changes struct {
	all  []change
	void bool // the session has ended: there is nothing left to compare
}

// change is one event.
type change struct {
	ref      kube.Ref
	revision kube.Revision
	item     lister.Item
	deleted  bool
}

func newWatched(w *Watcher, l *lister.List) *watched {
	return &watched{w: w, list: l, restart: func() {}}
}

// begin forgets all but the objects; mu is held, and no reflector runs.
func (k *watched) begin() {
	k.list.Forget()
	k.wanted = k.list != k.w.lister.RouteGroups
	k.loaded, k.synced, k.open = false, false, false
	k.stream, k.check, k.lag, k.frame, k.doubt = outage{}, outage{}, lag{}, time.Time{}, false
	k.asked, k.listed, k.confirmed, k.heavy = 0, 0, 0, heavy{}
	for _, log := range k.logs {
		log.void = true
	}
}

// run lists and watches the kind whenever it is wanted, until ctx ends.
func (k *watched) run(ctx context.Context, s *session) {
	for ctx.Err() == nil {
		once, cancel := context.WithCancel(ctx)
		k.w.mu.Lock()
		k.restart, k.life = cancel, once
		wanted, moved := k.wanted, k.w.moved
		k.open = false
		k.loaded = k.loaded && k.synced
		k.w.mu.Unlock()
		if wanted {
			k.reflect(once, s)
		} else {
			select {
			case <-moved:
			case <-ctx.Done():
			}
		}
		cancel()
	}
}

// reflect runs a reflector until ctx ends. It lists or streams the objects, watches from there on, and lists again when the
// watch cannot go on, after a growing delay with jitter.
func (k *watched) reflect(ctx context.Context, s *session) {
	silent := klog.Logger{} // what fails is logged here, once per change
	first, most := firstBackoff, maxBackoff
	if k.w.probing > 0 {
		first, most = min(first, k.w.probing), k.w.probing/2 // with jitter up to twice as much
	}
	r := cache.NewReflectorWithOptions(&listerWatcher{k, s}, nil, k, cache.ReflectorOptions{
		Name: k.list.Name(), TypeDescription: string(k.list.Kind), Logger: &silent,
		Backoff: &wait.Backoff{Duration: min(first, most), Cap: most, Factor: 2, Jitter: 1, Steps: 10},
	})
	ctx = klog.NewContext(ctx, silent)
	for delay := min(first, most); ; delay = min(2*delay, most) {
		began := time.Now()
		_ = r.ListAndWatchWithContext(ctx) // the lister has said what fails
		if time.Since(began) > resetBackoff {
			delay = min(first, most)
		}
		timer := time.NewTimer(delay + rand.N(delay))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
	}
}

// want says whether the kind is there to be watched; mu is held.
func (k *watched) want(wanted bool) {
	if k.wanted == wanted {
		return
	}
	k.wanted = wanted
	if k.reported = false; wanted {
		k.stream = outage{}
	} else {
		k.list.SetAbsent(true)
		k.list.Forget()
		k.loaded, k.synced, k.open = false, false, false
		k.restart()
		poke(k.w.dirty)
	}
	k.w.wake()
}

// waits says what a read waits for; mu is held.
func (k *watched) waits() error {
	verb, missing := "list", "no complete list yet"
	if k.loaded {
		verb, missing = "watch", "not accepted yet"
	}
	return &kube.ReadError{Verb: verb, Resource: k.list.Name(), Err: errors.New(missing)}
}

// failed gives the failure if the kind was broken for too long; mu is held.
func (k *watched) failed(now time.Time) error {
	k.settle(now)
	if err := k.stream.lasting(now); err != nil {
		return err
	}
	// Bookmarks alone show that the watch lives. Without any word from it, nothing is known if it cannot be asked for.
	if now.Sub(k.frame) > silentAfter {
		return k.check.lasting(now)
	}
	return nil
}

// settle ends the outage when the stream has proved that it works; mu is held.
func (k *watched) settle(now time.Time) {
	if k.stream.since.IsZero() || !k.open || !k.loaded || k.frame.Before(k.opened) && now.Sub(k.opened) < aliveAfter {
		return
	}
	k.recovered(now)
}

// proved ends the outage of a kind whose stream is open, and which has shown everything that there is: then nothing more
// will come that could prove it. mu is held.
func (k *watched) proved(now time.Time) {
	if k.w.probing > 0 && k.open && k.loaded && !k.stream.since.IsZero() {
		k.recovered(now)
	}
}

// recovered ends the outage; mu is held.
func (k *watched) recovered(now time.Time) {
	lasted := now.Sub(k.stream.since) >= WatchStaleAfter
	k.stream = outage{}
	if k.reported {
		k.reported = false
		k.w.log.Info(MessageWatchBack, slog.String("kind", string(k.list.Kind)))
	}
	if lasted {
		poke(k.w.dirty) // reads failed, and do not any more
	}
}

// fail notes that a list or a watch has failed.
func (k *watched) fail(verb string, err error) {
	k.w.mu.Lock()
	defer k.w.mu.Unlock()
	k.broken(&kube.ReadError{Verb: verb, Resource: k.list.Name(), Err: err})
}

// broken is fail; mu is held.
func (k *watched) broken(err error) {
	k.settle(time.Now())
	k.open, k.doubt = false, true
	k.stream.fail(err)
	k.w.lister.Metrics.ReadErrors.WithLabelValues(string(k.list.Kind), string(api.ReasonOf(err))).Inc()
	if !k.reported {
		k.reported = true
		k.w.log.Warn(MessageWatchBroken, slog.String("kind", string(k.list.Kind)), slog.Any("error", err))
	}
	k.w.wake()
}

// accepted notes that the server has accepted a watch.
func (k *watched) accepted() {
	k.w.mu.Lock()
	defer k.w.mu.Unlock()
	k.open, k.opened = true, time.Now()
	k.sync()
	if k.opened.Sub(k.listedAt) < aliveAfter {
		k.proved(k.opened) // a list has shown everything just now
	}
	if k.doubt && k.synced {
		poke(k.w.look)
	}
}

// closed notes that the stream has ended. Without an error it ended as agreed, and the next one follows at once.
func (k *watched) closed(err error) {
	k.w.mu.Lock()
	defer k.w.mu.Unlock()
	ended, why := (*endedError)(nil), "ended"
	switch {
	case errors.As(err, &ended) && ended.expired():
		why, err = "expired", nil // it is listed again
	case err != nil:
		why = "error"
	}
	k.w.metrics.restarts.WithLabelValues(string(k.list.Kind), why).Inc()
	if err != nil {
		k.broken(&kube.ReadError{Verb: "watch", Resource: k.list.Name(), Err: err})
		return
	}
	k.settle(time.Now())
	k.open = false
	if k.stream.since.IsZero() {
		k.stream.fail(&kube.ReadError{Verb: "watch", Resource: k.list.Name(), Err: errors.New("the server has ended it")})
	}
}

// sync makes the kind part of the snapshot once it is complete and followed; mu is held.
func (k *watched) sync() {
	if k.synced || !k.loaded || !k.open || !k.wanted || k.w.session == nil || k.w.session.restored {
		return
	}
	k.synced = true
	k.list.SetAbsent(false)
	poke(k.w.dirty)
	k.w.wake()
}

// word notes that the watch has shown a revision; mu is held.
func (k *watched) word(revision kube.Revision) {
	k.frame = time.Now()
	k.list.Seen = max(k.list.Seen, revision)
	k.w.metrics.confirm(k.list.Kind, k.frame)
	k.settle(k.frame)
}
