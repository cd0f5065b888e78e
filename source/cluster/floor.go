package cluster

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/routesrv/routesrv/kube"
)

// floorRetry is how long lists go without a common floor after the API server could not hold to one.
const floorRetry = 10 * time.Minute

// MessageNoFloor is logged when the API server cannot bring its caches up to a revision of another kind.
const MessageNoFloor = "the API server does not bring its caches up to a given revision; reads are complete, but how far is known less exactly"

// floor asks for the revision at which the cluster is now, by a consistent list of one object. All lists of the read then
// ask for what is not older. Without that the cache of a kind in which nothing happens stays at an old revision, and the
// snapshot, which is complete only up to the oldest of its lists, could not be ordered against that of another replica.
// One object, because an API server that cannot answer a consistent list from its cache reads etcd for it.
//
// The result is 0 if there is to be no floor: in a consistent read, which needs none, and while the API server cannot
// hold to one.
func (s *Source) floor(ctx context.Context, consistent bool) (kube.Revision, error) {
	l := s.lists[0]
	if consistent || l.seen == 0 || s.withoutFloor() {
		return 0, nil
	}
	revision, err := s.current(ctx, l)
	if err != nil {
		s.metrics.ReadErrors.WithLabelValues(string(l.kind), string(reasonOf(err))).Inc()
		return 0, &kube.ReadError{Verb: "list", Resource: l.name(), Err: err}
	}
	if revision != 0 && revision < l.seen {
		return 0, fail(reasonStale, "%w: %d after %d", errRestored, revision, l.seen)
	}
	return revision, nil
}

// current gives the revision of a consistent list, of which it asks for one object.
func (s *Source) current(ctx context.Context, l *list) (kube.Revision, error) {
	r := l.request
	r.query = floorQuery
	var head listHead
	err := s.get(ctx, r, func(resp *response) error {
		err := resp.open()
		if err == nil {
			head, err = walkPage(resp.media, resp.body, &l.resource, func([]byte) {})
		}
		return err
	})
	return head.revision(), err
}

const floorQuery = "limit=1"

func (s *Source) withoutFloor() bool { return time.Since(s.noFloorSince) < floorRetry }

// notOlder lists one kind at the floor, or, if that cannot be had, at what is known of it.
func (s *Source) notOlder(ctx context.Context, l *list, floor kube.Revision, known listState) (listAnswer, error) {
	since := known.seen
	if !s.withoutFloor() { // it may have turned out in this very read
		since = max(since, floor)
	}
	a, err := s.ask(ctx, l, since, known)
	if since == known.seen || !isTooNewError(err) {
		return a, err
	}
	s.noFloorSince = time.Now()
	s.cfg.Logger.Info(MessageNoFloor, slog.String("kind", string(l.kind)), slog.Any("error", err))
	return s.ask(ctx, l, known.seen, known)
}

func isTooNewError(err error) bool {
	e, ok := errors.AsType[*statusError](err)
	return ok && e.tooNew
}
