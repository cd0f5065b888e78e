package watch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/routesrv/routesrv/internal/source/cluster/internal/api"
	"github.com/routesrv/routesrv/internal/source/cluster/internal/decode"
	"github.com/routesrv/routesrv/internal/source/cluster/internal/lister"
	"github.com/routesrv/routesrv/kube"
)

const (
	// shortestWatch and longestWatch bound the time after which the server should end a watch. The time is random so
	// that the watches of replicas that started together do not end together.
	shortestWatch, longestWatch = 5 * time.Minute, 10 * time.Minute
	// overdueAfter is how much longer a watch may last before the server, or a proxy on the way, must have forgotten
	// it.
	overdueAfter = 30 * time.Second
)

// errOverdue reports that the server did not end a watch when it should have.
var errOverdue = errors.New("the watch is overdue")

// endedError is the status with which the server ended a watch.
type endedError struct{ status *metav1.Status }

func (e *endedError) Error() string {
	return fmt.Sprintf("the watch has ended, status: %d %s: %s", e.status.Code, e.status.Reason, api.OneLine(e.status.Message))
}

// watch watches the kind from what is known until the watch ends. If loaded is not nil, the watch begins with all
// objects and calls loaded when they have arrived; they have to arrive within the time limit of a request. The result
// is nil if the server ended the watch as agreed, and otherwise a *[kube.ReadError].
func (k *watched) watch(parent context.Context, loaded func()) error {
	w := k.w
	ctx, cancel := context.WithCancelCause(parent)
	defer cancel(nil)
	limit := w.lister.Config.Timeout
	tooSlow := time.AfterFunc(limit, func() {
		cancel(fmt.Errorf("no complete answer within %v: %w", limit, context.DeadlineExceeded))
	})
	defer tooSlow.Stop()
	lasts := (shortestWatch + rand.N(longestWatch-shortestWatch)).Truncate(time.Second)
	overdue := time.AfterFunc(lasts+overdueAfter, func() { cancel(errOverdue) })
	defer overdue.Stop()

	since := k.seen()
	o := api.WatchOptions{Since: since, Initial: loaded != nil, Seconds: int64(lasts / time.Second)}
	resp, err := w.lister.API.Watch(ctx, parent, &k.list.Resource, o)
	if o.Initial && since != 0 && api.NeedsConsistent(err) {
		o.Since = 0
		resp, err = w.lister.API.Watch(ctx, parent, &k.list.Resource, o)
	}
	if err != nil {
		return k.readError("watch", err)
	}
	defer func() { _ = resp.Body.Close() }()
	k.accepted()
	in := &reader{
		k: k, hash: k.list.NewHasher(), media: resp.Media,
		events: decode.NewEvents(k.list.Type, resp.Media, resp.Body, w.lister.Config.MaxBytes),
	}
	if loaded != nil {
		at, items, err := in.beginning()
		if err != nil {
			return k.watchError(ctx, parent, resp.Path, err, true)
		}
		tooSlow.Stop()
		loaded()
		if err := k.confirm(ctx, items, at, since); err != nil {
			return k.readError("list", err)
		}
		k.load(ctx, items, at, since)
	} else {
		tooSlow.Stop()
	}
	for {
		e, item, err := in.next()
		if err != nil {
			return k.watchError(ctx, parent, resp.Path, err, false)
		}
		k.receive(ctx, &e, item)
	}
}

// watchError explains why an accepted watch has ended. It returns nil if the server ended the watch as agreed.
// loading says that the watch had not yet delivered all initial objects.
func (k *watched) watchError(ctx, parent context.Context, path string, err error, loading bool) error {
	if parent.Err() != nil {
		return parent.Err()
	}
	ended, bad := (*endedError)(nil), (*decode.BadEventError)(nil)
	cause := context.Cause(ctx)
	reason := api.ReasonConnection
	switch {
	case errors.As(err, &ended):
		reason = api.ReasonStatus
	case errors.As(err, &bad):
		reason = api.ReasonBody
	case errors.Is(cause, context.DeadlineExceeded):
		reason, err = api.ReasonTimeout, cause
	case errors.Is(err, io.EOF) && loading:
		err = errors.New("the watch has ended before it had shown everything")
	case errors.Is(err, io.EOF), errors.Is(cause, errOverdue):
		return nil
	}
	return k.readError("watch", api.Errorf(reason, "request to %s: %w", path, err))
}

// readError wraps an error in a *[kube.ReadError], unless it already is one.
func (k *watched) readError(verb string, err error) error { return readError(verb, k.list.Name(), err) }

// reader reads the events of a watch and decodes their objects.
type reader struct {
	k       *watched
	hash    *lister.Hasher
	media   string
	events  *decode.Events
	decoder decode.Decoder
}

// next reads an event, with the item if an object was added or modified. The error is an *[endedError] if the event
// says why the watch ends.
func (r *reader) next() (e decode.Event, item lister.Item, err error) {
	// A panic while decoding untrusted input ends the watch, not the process.
	defer func() {
		if v := recover(); v != nil {
			err = &decode.BadEventError{Err: fmt.Errorf("panic: %v", v)}
		}
	}()
	if e, err = r.events.Next(); err != nil {
		return e, item, err
	}
	switch e.Type {
	case decode.Failed:
		err = &endedError{e.Status}
	case decode.Added, decode.Modified:
		item = r.item(&e)
	}
	return e, item, err
}

// item decodes the object of an event, unless it is known.
func (r *reader) item(e *decode.Event) lister.Item {
	l := r.k.list
	sum := r.hash.Sum(e.Object)
	if item, known := r.k.known(kube.Ref{Kind: l.Kind, Namespace: e.Namespace, Name: e.Name}, sum); known {
		return item
	}
	item := l.Decode(&r.decoder, e.Object, r.media, sum)
	if item.Bad != nil {
		item.Bad.Ref.Name, item.Bad.Ref.Namespace = e.Name, e.Namespace // the event's name and namespace were readable
	}
	r.k.w.lister.Metrics.DecodedObjects.WithLabelValues(string(l.Kind)).Inc()
	return item
}
