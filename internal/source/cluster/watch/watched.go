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

// outage is a failure that lasts until the failed operation succeeds.
type outage struct {
	since time.Time // zero: no outage
	last  time.Time // when the last failure occurred
	err   error     // why, a *kube.ReadError
}

func (o *outage) fail(err error) {
	o.last, o.err = time.Now(), err
	if o.since.IsZero() {
		o.since = o.last
	}
}

// lasting returns the failure if it has lasted too long.
func (o *outage) lasting(now time.Time) error {
	if o.since.IsZero() || now.Sub(o.since) < StaleAfter {
		return nil
	}
	return o.err
}

// watched is a kind that is watched. Watcher.mu guards everything except the first group.
type watched struct {
	w    *Watcher
	list *lister.List // its request is read only; mu guards its state

	restart context.CancelFunc // ends the running attempt; the next one resumes from what is known
	wanted  bool               // should be watched; false for RouteGroups while discovery does not find them
	loaded  bool               // everything is known up to a revision from which a watch can resume
	synced  bool               // loaded in this session and its watch accepted: part of the snapshot
	shared  bool               // others read the items: copy them before a change

	listed         kube.Revision // of the last list or the last initial objects of a watch
	loadedAt       time.Time     // when everything was last loaded
	streamFailures int           // consecutive failures of watches that begin with all objects
	journals       []*journal    // updates that arrive during a comparison, one journal for each

	stream   outage // of lists and watches
	open     bool   // a stream is open
	opened   time.Time
	reported bool      // the outage was logged
	frame    time.Time // when the last event or bookmark arrived
	check    outage    // of the requests for the current revision
	lag      lag
	doubt    bool // the watch broke: it may have resumed in another history
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

// reset forgets everything except the objects; what is read from now on belongs to the next session. The caller holds
// mu.
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

// want sets whether the kind exists and should be watched. The caller holds mu.
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

// watchAgain starts another watch, which resumes from what is known. It does not disturb a load in progress. The
// caller holds mu.
func (k *watched) watchAgain() {
	if k.loaded {
		k.restart()
	}
}

// waits returns what a read waits for. The caller holds mu.
func (k *watched) waits() error {
	verb, missing := "list", "no complete list yet"
	if k.loaded {
		verb, missing = "watch", "not accepted yet"
	}
	return &kube.ReadError{Verb: verb, Resource: k.list.Name(), Err: errors.New(missing)}
}

// failed returns the failure if the kind has been broken for too long. The caller holds mu.
func (k *watched) failed(now time.Time) error {
	k.recoverIfAlive(now)
	if err := k.stream.lasting(now); err != nil {
		return err
	}
	// Any bookmark shows that the watch works. A silent watch proves nothing while the API server cannot be asked for
	// the revision.
	if now.Sub(k.frame) > silentAfter {
		return k.check.lasting(now)
	}
	return nil
}

// recoverIfAlive ends the outage if the stream has proved that it works: it has delivered something, or has stayed
// open for a while. The caller holds mu.
func (k *watched) recoverIfAlive(now time.Time) {
	if k.stream.since.IsZero() || !k.open || !k.loaded || k.frame.Before(k.opened) && now.Sub(k.opened) < aliveAfter {
		return
	}
	k.recovered(now)
}

// recoverIfCurrent ends the outage of a kind whose stream is open and which is already complete: nothing else may
// arrive that could prove that the stream works. The caller holds mu.
func (k *watched) recoverIfCurrent(now time.Time) {
	if k.w.probing > 0 && k.open && k.loaded && !k.stream.since.IsZero() {
		k.recovered(now)
	}
}

// recovered ends the outage. The caller holds mu.
func (k *watched) recovered(now time.Time) {
	lasted := now.Sub(k.stream.since) >= StaleAfter
	k.stream = outage{}
	if k.reported {
		k.reported = false
		k.w.log.Info(LogBack, slog.String("kind", string(k.list.Kind)))
	}
	if lasted {
		poke(k.w.dirty) // reads failed, and succeed again
	}
}

// ended records how an attempt has ended; a nil error means as agreed. It returns how long the watch was open, and
// whether the next one resumes from there.
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

// broken records that a list or a watch has failed, unless the attempt was skipped because of a known failure. The
// caller holds mu.
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
		k.w.log.Warn(LogBroken, slog.String("kind", string(k.list.Kind)), slog.Any("error", err))
	}
	k.w.wake()
}

// accepted records that the server has accepted a watch.
func (k *watched) accepted() {
	k.w.mu.Lock()
	defer k.w.mu.Unlock()
	k.open, k.opened = true, time.Now()
	k.sync()
	if k.opened.Sub(k.loadedAt) < aliveAfter {
		k.recoverIfCurrent(k.opened) // a list has just shown everything
	}
	if k.doubt && k.synced && k.loaded {
		poke(k.w.look)
	}
}

// sync adds the kind to the snapshot once it is complete and watched. The caller holds mu.
func (k *watched) sync() {
	if k.synced || !k.loaded || !k.open || !k.wanted || k.w.session == nil || k.w.session.restored {
		return
	}
	k.synced = true
	k.list.SetAbsent(false)
	poke(k.w.dirty)
	k.w.wake()
}

// reached records that the watch or a list has shown everything up to a revision. The caller holds mu.
func (k *watched) reached(revision kube.Revision) {
	k.frame = time.Now()
	k.list.Seen = max(k.list.Seen, revision)
	k.w.metrics.confirm(k.list.Kind, k.frame)
	k.recoverIfAlive(k.frame)
}
