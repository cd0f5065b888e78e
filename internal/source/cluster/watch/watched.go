package watch

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/routesrv/routesrv/internal/source/cluster/internal/api"
	"github.com/routesrv/routesrv/internal/source/cluster/internal/lister"
	"github.com/routesrv/routesrv/kube"
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
	if o.since.IsZero() || now.Sub(o.since) < StaleAfter {
		return nil
	}
	return o.err
}

// watched is a kind that is watched. All but the first group is guarded by Watcher.mu.
type watched struct {
	w    *Watcher
	list *lister.List // its request is read only; what is known of it is guarded like the rest

	restart context.CancelFunc // ends the attempt that runs; the next one goes on from what is known
	wanted  bool               // to be watched; RouteGroups are not while discovery does not find them
	loaded  bool               // everything is known up to a revision from which a watch can go on
	synced  bool               // it was loaded in this session, and a watch was accepted: it is part of the snapshot
	shared  bool               // others look at the items: they are copied before they change

	listed         kube.Revision // of the last list or beginning of a watch
	loadedAt       time.Time     // when everything was last loaded
	streamFailures int           // of watches that begin with everything, in a row
	journals       []*journal    // what comes while lists are compared, for each of them

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

func newWatched(w *Watcher, l *lister.List) *watched {
	return &watched{w: w, list: l, restart: func() {}}
}

// reset forgets all but the objects; mu is held, and what is read from now on belongs to the next session.
func (k *watched) reset() {
	k.list.Forget()
	k.wanted = k.list != k.w.lister.RouteGroups
	k.loaded, k.synced, k.open = false, false, false
	k.stream, k.check, k.lag, k.frame, k.doubt = outage{}, outage{}, lag{}, time.Time{}, false
	k.listed, k.streamFailures, k.heavy = 0, 0, heavy{}
	for _, j := range k.journals {
		j.void = true
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

// watchAgain makes another watch go on from what is known; mu is held. What is loaded just now is not disturbed.
func (k *watched) watchAgain() {
	if k.loaded {
		k.restart()
	}
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
	k.recoverIfAlive(now)
	if err := k.stream.lasting(now); err != nil {
		return err
	}
	// Bookmarks alone show that the watch lives. Without any word from it, nothing is known if it cannot be asked for.
	if now.Sub(k.frame) > silentAfter {
		return k.check.lasting(now)
	}
	return nil
}

// recoverIfAlive ends the outage if the stream has shown that it works: it has brought something, or has stayed open for a
// while. mu is held.
func (k *watched) recoverIfAlive(now time.Time) {
	if k.stream.since.IsZero() || !k.open || !k.loaded || k.frame.Before(k.opened) && now.Sub(k.opened) < aliveAfter {
		return
	}
	k.recovered(now)
}

// recoverIfCurrent ends the outage of a kind whose stream is open, and which has shown everything that there is: then nothing
// more will come that could prove that it works. mu is held.
func (k *watched) recoverIfCurrent(now time.Time) {
	if k.w.probing > 0 && k.open && k.loaded && !k.stream.since.IsZero() {
		k.recovered(now)
	}
}

// recovered ends the outage; mu is held.
func (k *watched) recovered(now time.Time) {
	lasted := now.Sub(k.stream.since) >= StaleAfter
	k.stream = outage{}
	if k.reported {
		k.reported = false
		k.w.log.Info(MessageBack, slog.String("kind", string(k.list.Kind)))
	}
	if lasted {
		poke(k.w.dirty) // reads failed, and do not any more
	}
}

// ended notes how an attempt has ended: without an error as agreed. It returns for how long the watch was open, and whether the
// next one goes on from there.
func (k *watched) ended(err error) (lived time.Duration, goesOn bool) {
	k.w.mu.Lock()
	defer k.w.mu.Unlock()
	now := time.Now()
	if k.open {
		lived = now.Sub(k.opened)
	}
	why := "ended"
	switch {
	case err == nil:
	case k.loaded && isExpired(err):
		why = "expired"
	default:
		why = "error"
	}
	if k.open || why == "expired" {
		k.w.metrics.restarts.WithLabelValues(string(k.list.Kind), why).Inc()
	}
	if why == "error" {
		k.broken(now, err)
	} else {
		k.recoverIfAlive(now)
		if k.stream.since.IsZero() {
			k.stream.fail(k.readError("watch", errors.New("the server has ended it")))
		}
	}
	k.open = false
	k.loaded = k.loaded && !isLost(err)
	if api.ReasonOf(err) == api.ReasonNotFound && k.list == k.w.lister.RouteGroups {
		poke(k.w.look)
	}
	return lived, k.loaded
}

// broken notes that a list or a watch has failed, unless it was not even tried for a failure that is known; mu is held.
func (k *watched) broken(now time.Time, err error) {
	if errors.Is(err, k.stream.err) {
		return
	}
	k.recoverIfAlive(now)
	k.doubt = true
	k.stream.fail(err)
	k.w.lister.Metrics.ReadErrors.WithLabelValues(string(k.list.Kind), string(api.ReasonOf(err))).Inc()
	if !k.reported {
		k.reported = true
		k.w.log.Warn(MessageBroken, slog.String("kind", string(k.list.Kind)), slog.Any("error", err))
	}
	k.w.wake()
}

// accepted notes that the server has accepted a watch.
func (k *watched) accepted() {
	k.w.mu.Lock()
	defer k.w.mu.Unlock()
	k.open, k.opened = true, time.Now()
	k.sync()
	if k.opened.Sub(k.loadedAt) < aliveAfter {
		k.recoverIfCurrent(k.opened) // a list has shown everything just now
	}
	if k.doubt && k.synced && k.loaded {
		poke(k.w.look)
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

// reached notes that the watch or a list has shown everything up to a revision; mu is held.
func (k *watched) reached(revision kube.Revision) {
	k.frame = time.Now()
	k.list.Seen = max(k.list.Seen, revision)
	k.w.metrics.confirm(k.list.Kind, k.frame)
	k.recoverIfAlive(k.frame)
}
