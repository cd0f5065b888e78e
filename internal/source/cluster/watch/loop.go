package watch

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/routesrv/routesrv/internal/source/cluster/internal/api"
	"github.com/routesrv/routesrv/internal/source/cluster/internal/decode"
)

const (
	// firstDelay and maxDelay bound the delay before the next attempt, to which jitter of up to the same length is
	// added.
	firstDelay, maxDelay = 500 * time.Millisecond, 10 * time.Second
	// aliveAfter is how long a stream without events has to stay open to count as working.
	aliveAfter = 5 * time.Second
	// calmAfter is how long a kind has to be watched before everything may be requested again without a longer delay.
	calmAfter = 2 * time.Minute
	// streamAttempts is how many streams that begin with all objects may fail in a row before the kind is listed
	// instead.
	streamAttempts = 3
)

// follow keeps the kind up to date until ctx ends. Each attempt loads everything, unless the objects are already
// known, and then watches from there. After an attempt that has lost its place, follow loads everything again; after
// any other, the next watch resumes from what is known.
func (k *watched) follow(ctx context.Context) {
	p := newPace(k.w.probing)
	for ctx.Err() == nil {
		if !k.awaitWanted(ctx) {
			return
		}
		once, cancel := k.beginAttempt(ctx)
		err := k.attempt(once)
		restarted := once.Err() != nil
		cancel()
		if restarted { // or ctx has ended
			continue
		}
		lived, goesOn := k.ended(err)
		pause(ctx, p.delay(err, lived, goesOn))
	}
}

// awaitWanted waits until the kind should be watched. It returns false when ctx has ended.
func (k *watched) awaitWanted(ctx context.Context) bool {
	for {
		k.w.mu.Lock()
		wanted, moved := k.wanted, k.w.moved
		k.w.mu.Unlock()
		if wanted {
			return true
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return false
		}
	}
}

// beginAttempt returns the context of the next attempt, which restart cancels.
func (k *watched) beginAttempt(ctx context.Context) (context.Context, context.CancelFunc) {
	once, cancel := context.WithCancel(ctx)
	k.w.mu.Lock()
	defer k.w.mu.Unlock()
	k.restart, k.open = cancel, false
	if !k.wanted {
		cancel() // the kind disappeared a moment ago
	}
	return once, cancel
}

// attempt loads everything, unless it is already known, and watches the kind until the watch ends. It returns nil if
// the server ended the watch as agreed.
func (k *watched) attempt(ctx context.Context) error {
	if k.isLoaded() {
		return k.watch(ctx, nil)
	}
	release, err := k.w.awaitTurn(ctx)
	if err != nil {
		return err
	}
	release = sync.OnceFunc(release)
	defer release()
	if err := k.admit(ctx); err != nil {
		return err
	}
	if k.streamsEverything() {
		err := k.watch(ctx, release)
		if !api.IsUnsupported(err) {
			k.countStream(err)
			return err
		}
	}
	if err := k.listEverything(ctx); err != nil {
		return err
	}
	release()
	return k.watch(ctx, nil)
}

// isLoaded reports whether a watch can resume from what is known.
func (k *watched) isLoaded() bool {
	k.w.mu.Lock()
	defer k.w.mu.Unlock()
	return k.loaded
}

// streamsEverything reports whether to load all objects by a watch that begins with them. Custom resources arrive as
// JSON, which costs more as a stream. If such watches repeatedly fail to deliver all initial objects, a list may
// succeed.
func (k *watched) streamsEverything() bool {
	k.w.mu.Lock()
	defer k.w.mu.Unlock()
	return !k.list.Custom() && k.streamFailures < streamAttempts
}

// countStream counts consecutive watches that ended before they had delivered all initial objects. A server that does
// not know such watches never marks the end of the initial objects, so trying again would not help.
func (k *watched) countStream(err error) {
	k.w.mu.Lock()
	defer k.w.mu.Unlock()
	switch {
	case k.loaded:
	case api.ReasonOf(err) == api.ReasonTimeout:
		k.streamFailures = streamAttempts
	default:
		k.streamFailures++
	}
}

// pace is the delay between attempts of one kind.
type pace struct {
	next    time.Duration // the next delay, if the server answers
	probing time.Duration // delay while the server does not answer at all; 0 means like any other
}

// newPace returns the delays for an API server that is probed at this interval when it does not answer; 0 means no
// probes.
func newPace(probing time.Duration) pace { return pace{next: firstDelay, probing: probing / 2} }

// delay returns how long to wait after an attempt that ended with err and whose watch was open for lived. The delay
// doubles until an attempt has worked for a while: a short while if the next attempt resumes from there, a longer one
// if it requests everything. A server that is down is asked at the pace of probes, which cost it nothing. One that answers
// would never be left alone in this way, if it answers every watch with an error.
func (p *pace) delay(err error, lived time.Duration, goesOn bool) time.Duration {
	if lived >= calmAfter || lived >= aliveAfter && goesOn {
		p.next = firstDelay
		if err == nil {
			return 0
		}
	}
	d := p.next
	if p.probing > 0 && api.IsDown(err) && api.StatusCode(err) != http.StatusTooManyRequests {
		d = p.probing
	} else {
		p.next = min(2*p.next, maxDelay)
	}
	d = max(d, min(retryAfter(err), maxDelay))
	return d + rand.N(d) // jitter adds up to the same again
}

// pause waits for d or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// isExpired reports whether the server no longer has the revision from which a watch should resume.
func isExpired(err error) bool {
	if ended, ok := errors.AsType[*endedError](err); ok {
		s := ended.status
		return s.Code == http.StatusGone || s.Reason == metav1.StatusReasonExpired || s.Reason == metav1.StatusReasonGone
	}
	return api.IsGone(err)
}

// isLost reports whether a watch that ended with err cannot resume where it was: the server no longer has the
// revision or rejects it, failed on an event, or sent something that cannot be decoded and would be sent again.
func isLost(err error) bool {
	if ended, ok := errors.AsType[*endedError](err); ok {
		return ended.status.Code != http.StatusTooManyRequests
	}
	if _, ok := errors.AsType[*decode.BadEventError](err); ok {
		return true
	}
	return isExpired(err) || api.IsUnsupported(err)
}

// retryAfter returns how long the server asks to wait.
func retryAfter(err error) time.Duration {
	if ended, ok := errors.AsType[*endedError](err); ok && ended.status.Details != nil {
		return time.Duration(ended.status.Details.RetryAfterSeconds) * time.Second
	}
	return api.RetryAfter(err)
}
