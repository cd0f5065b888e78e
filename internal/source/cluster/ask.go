package cluster

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/routesrv/routesrv/kube"
)

// floorRetry is how long lists go without a common floor after the API server was unable to honor one.
const floorRetry = 10 * time.Minute

// LogNoFloor is logged when the API server cannot bring its caches up to a revision of another kind.
const LogNoFloor = "the API server does not bring its caches up to a given revision; reads are complete, but how far is known less exactly"

// LogRestored is logged as a warning when the API goes back in time because etcd was restored from a backup.
const LogRestored = "cluster went back to an older revision; reading everything again"

// errRestored reports that a consistent list returned a revision below one that was seen before.
var errRestored = errors.New("the revision is lower than one seen before")

// askFor lists one kind and compares the answer with what is known. The list is consistent, or else no older than the
// known state and the floor. askFor does not change l. The error is a *[kube.ReadError].
func (r *lister) askFor(ctx context.Context, l *list, consistent bool, floor kube.Revision, known state) (listing, error) {
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
			r.metrics.ReadErrors.WithLabelValues(string(l.Kind), string(reasonOf(err))).Inc()
		}
		return a, &kube.ReadError{Verb: "list", Resource: l.Name(), Err: err}
	}
	r.metrics.ListDuration.WithLabelValues(string(l.Kind)).Observe(time.Since(start).Seconds())
	r.metrics.ListObjects.WithLabelValues(string(l.Kind)).Set(float64(len(a.items)))
	return a, nil
}

// withoutFloor reports whether lists currently go without a common floor.
func (r *lister) withoutFloor() bool { return time.Since(r.noFloorSince) < floorRetry }

// notOlder lists one kind at the floor or, if the server cannot reach it, at the known revision.
func (r *lister) notOlder(ctx context.Context, l *list, floor kube.Revision, known state) (listing, error) {
	since := known.seen
	if !r.withoutFloor() { // an earlier list of this same read may have found that out
		since = max(since, floor)
	}
	a, err := r.ask(ctx, l, since, known)
	if since == known.seen || !isTooNew(err) {
		return a, err
	}
	r.noFloorSince = time.Now()
	r.log.Info(LogNoFloor, slog.String("kind", string(l.Kind)), slog.Any("error", err))
	return r.ask(ctx, l, known.seen, known)
}

// ask makes one request for the list, no older than since, or a consistent one if since is 0, and compares the answer
// with what is known. It does not change l.
func (r *lister) ask(ctx context.Context, l *list, since kube.Revision, known state) (a listing, err error) {
	err = r.api.get(ctx, l.List(since), func(resp *response) error {
		var wire wireDigest
		if resp.wire != nil {
			// The bytes are identical, revision included. If the floor is above the known revision, though, a newer
			// answer is required.
			if wire = sha256.Sum256(resp.wire); wire == known.wire && known.seen >= since {
				a = listing{state: known}
				return nil
			}
		}
		m := newMatcher(l, known, resp.Media)
		revision, err := resp.list(l.Type, m.add)
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
		r.metrics.DecodedObjects.WithLabelValues(string(l.Kind)).Add(float64(m.decoded))
		a = m.listing()
		a.seen, a.wire = revision, wire
		return nil
	})
	return a, err
}

// confirmedLoss is the share of known objects that a list may lack before another list has to confirm it. It equals
// the guard's default share for routes.
const confirmedLoss = 0.5

// LogUnconfirmed is logged as a warning when a list lacks objects that a consistent list made right after it has.
const LogUnconfirmed = "a list lacked objects that a consistent list has; the API server, or something in front of it, answers wrongly"

// confirmLoss makes a second, consistent request if the answer lacks so many known objects that it may be wrong: all
// objects of the kind, or most of them. The second answer counts.
func (r *lister) confirmLoss(ctx context.Context, l *list, a listing, known state) (listing, error) {
	if !a.suspicious(len(known.items)) {
		return a, nil
	}
	again, err := r.ask(ctx, l, 0, known)
	if err != nil {
		return again, fmt.Errorf("confirm by a consistent list that %d of %d objects are gone: %w", a.lost, len(known.items), err)
	}
	if again.lost < a.lost {
		r.log.Warn(LogUnconfirmed, slog.String("kind", string(l.Kind)), slog.Int("objects", a.lost-again.lost))
	}
	return again, nil
}

// suspicious reports whether the answer lacks so many of the known objects that another list has to confirm it.
func (a listing) suspicious(known int) bool {
	return a.lost > 0 && (a.lost == known || float64(a.lost) > confirmedLoss*float64(known))
}
