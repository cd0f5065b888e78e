package cluster

import (
	"context"
	"errors"
	"log/slog"
	"time"

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
	list *list // its request is read only; mu guards its state

	restart context.CancelFunc // ends the running attempt; the next one lists the kind
	wanted  bool               // should be watched; false for RouteGroups while discovery does not find them
	synced  bool               // listed and its watch accepted: part of the snapshot
	resets  int                // how often everything was forgotten

	stream   outage // of lists and watches
	open     bool   // a stream is open
	opened   time.Time
	reported bool      // the outage was logged
	frame    time.Time // when the last list, event or bookmark arrived
	check    outage    // of the requests for the current revision
	lag      lag
}

// lag is a revision that the watch has not reached.
type lag struct {
	floor kube.Revision // 0: none
	since time.Time
}

// reset forgets everything except the objects: the next list is consistent, and its answer is accepted however old it
// is. The caller holds mu.
func (k *watched) reset() {
	k.list.forget()
	k.synced, k.open = false, false
	k.stream, k.check, k.lag, k.frame = outage{}, outage{}, lag{}, time.Time{}
	k.resets++
}

// want sets whether the kind exists and should be watched. The caller holds mu.
func (k *watched) want(wanted bool) {
	if k.wanted == wanted {
		return
	}
	k.wanted, k.reported = wanted, false
	k.reset()
	if !wanted {
		k.list.setAbsent(true)
		k.restart()
		poke(k.w.dirty)
	}
	k.w.wake()
}

// waits returns the reason why a read must wait. The caller holds mu.
func (k *watched) waits() error {
	verb, missing := "list", "no complete list yet"
	if k.list.seen != 0 {
		verb, missing = "watch", "not accepted yet"
	}
	return &kube.ReadError{Verb: verb, Resource: k.list.Name(), Err: errors.New(missing)}
}

// failed returns the failure if the kind has been broken for too long. The caller holds mu.
func (k *watched) failed(now time.Time) error {
	k.backIfAlive(now)
	if err := k.stream.lasting(now); err != nil {
		return err
	}
	// Any bookmark shows that the watch works. A silent watch is not suspicious while the API server does not return the
	// current revision.
	if now.Sub(k.frame) > silentAfter {
		return k.check.lasting(now)
	}
	return nil
}

// accepted records that the server has accepted a watch. The known objects are complete up to the preceding list, so this
// ends an outage and adds the kind to the snapshot.
func (k *watched) accepted() {
	k.w.mu.Lock()
	defer k.w.mu.Unlock()
	if !k.wanted || k.list.seen == 0 {
		return // told to end a moment ago
	}
	k.open, k.opened = true, time.Now()
	if k.stream.lasting(k.opened) != nil || !k.synced {
		poke(k.w.dirty) // reads failed, and succeed again
	}
	k.stream, k.synced = outage{}, true
	k.list.setAbsent(false)
	k.w.wake()
}

// listed records that the kind was listed and is not watched, because the server does not accept watches.
func (k *watched) listed() {
	k.w.mu.Lock()
	defer k.w.mu.Unlock()
	if !k.wanted || k.list.seen == 0 {
		return // told to end a moment ago
	}
	if !k.synced {
		poke(k.w.dirty)
	}
	k.stream, k.synced = outage{}, true
	k.list.setAbsent(false)
	if !k.reported {
		k.reported = true
		k.w.cfg.Logger.Warn(LogListed, slog.String("kind", string(k.list.Kind)), slog.Duration("every", listEvery))
	}
	k.w.wake()
}

// backIfAlive is back for a watch that has stayed open for a while. The caller holds mu.
func (k *watched) backIfAlive(now time.Time) {
	if now.Sub(k.opened) >= aliveAfter {
		k.back()
	}
}

// back reports that a broken watch works again, once it has shown that: by an event, or by staying open. The caller holds mu.
func (k *watched) back() {
	if k.reported && k.open {
		k.reported = false
		k.w.cfg.Logger.Info(LogBack, slog.String("kind", string(k.list.Kind)))
	}
}

// ended records how an attempt has ended; a nil error means as agreed. It returns how long the watch was open.
func (k *watched) ended(err error) (lived time.Duration) {
	k.w.mu.Lock()
	defer k.w.mu.Unlock()
	kind := string(k.list.Kind)
	if k.open {
		lived = time.Since(k.opened)
		k.w.cfg.Metrics.WatchRestarts.WithLabelValues(kind, map[bool]string{true: "ended", false: "error"}[err == nil]).Inc()
	}
	k.backIfAlive(time.Now())
	k.open = false
	if err == nil {
		return lived
	}
	k.stream.fail(err)
	k.w.cfg.Metrics.ReadErrors.WithLabelValues(kind, string(reasonOf(err))).Inc()
	if !k.reported {
		k.reported = true
		k.w.cfg.Logger.Warn(LogBroken, slog.String("kind", kind), slog.Any("error", err))
	}
	k.w.wake()
	return lived
}

// reached records that the watch or a list has shown everything up to a revision. The caller holds mu.
func (k *watched) reached(revision kube.Revision) {
	k.frame = time.Now()
	k.list.seen = max(k.list.seen, revision)
	k.confirmed(k.frame)
}

// confirmed records when the kind was known to be up to date.
func (k *watched) confirmed(at time.Time) {
	k.w.cfg.Metrics.WatchConfirmed.WithLabelValues(string(k.list.Kind)).Set(float64(at.UnixMilli()) / 1000)
}
