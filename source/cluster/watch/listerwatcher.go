package watch

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/source/cluster/api"
	"github.com/routesrv/routesrv/source/cluster/lister"
)

// listerWatcher makes the requests of a reflector, for one session.
type listerWatcher struct {
	k *watched
	s *session
}

// objectList is a list as a reflector takes it.
type objectList struct {
	metav1.TypeMeta
	metav1.ListMeta
	Items []runtime.Object
}

// DeepCopyObject implements runtime.Object. What is in the list never changes.
func (l *objectList) DeepCopyObject() runtime.Object {
	c := *l
	return &c
}

// IsWatchListSemanticsUnSupported tells the reflector to list custom resources: they come as JSON, which costs more as a
// stream.
func (l *listerWatcher) IsWatchListSemanticsUnSupported() bool { return l.k.list.Custom() }

// List implements cache.ListerWatcher.
func (l *listerWatcher) List(o metav1.ListOptions) (runtime.Object, error) {
	return l.ListWithContext(context.Background(), o)
}

// Watch implements cache.ListerWatcher.
func (l *listerWatcher) Watch(o metav1.ListOptions) (watch.Interface, error) {
	return l.WatchWithContext(context.Background(), o)
}

// ListWithContext lists everything, however large a page was asked for: not older than the revision, or consistently if
// there is none. One kind is listed at a time.
func (l *listerWatcher) ListWithContext(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
	if !l.s.begin() {
		return nil, context.Canceled
	}
	defer l.s.calls.Done()
	k := l.k
	release, err := k.w.take(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	if err := k.admit(ctx); err != nil {
		k.refused(ctx, "list", err)
		return nil, err
	}
	k.w.mu.Lock()
	known, since := k.capture(), k.notOlder(o.ResourceVersion)
	k.asked = k.list.Seen
	k.w.mu.Unlock()
	// What is older than what was seen is for the store to judge: here it is compared for the objects alone.
	known.Seen, known.Wire = 0, lister.Digest{}
	a, err := k.w.lister.Ask(ctx, k.list, since, known)
	if since != 0 && api.NeedsConsistent(err) {
		a, err = k.w.lister.Ask(ctx, k.list, 0, known)
	}
	if err == nil {
		a, err = k.w.lister.ConfirmLoss(ctx, k.list, a, known)
	}
	if err != nil {
		if ctx.Err() == nil {
			k.fail("list", err)
			k.lookIfMissing(err)
		}
		return nil, err
	}
	k.w.mu.Lock()
	k.confirmed = a.Seen
	k.w.mu.Unlock()
	out := &objectList{Items: make([]runtime.Object, len(a.Items))}
	out.ResourceVersion = strconv.FormatUint(uint64(a.Seen), 10)
	for i := range a.Items {
		ref := a.Items[i].Ref()
		e := &entry{item: a.Items[i]}
		e.Name, e.Namespace = ref.Name, ref.Namespace
		out.Items[i] = e
	}
	return out, nil
}

// WatchWithContext opens a stream. One that begins with everything that there is waits until no other kind is listed.
func (l *listerWatcher) WatchWithContext(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	k := l.k
	r := api.WatchOptions{Initial: o.SendInitialEvents != nil && *o.SendInitialEvents}
	if o.TimeoutSeconds != nil {
		r.Seconds = *o.TimeoutSeconds
	}
	loaded := func() {}
	if r.Initial {
		if err := k.rest(ctx); err != nil {
			return nil, err
		}
		release, err := k.w.take(ctx)
		if err != nil {
			return nil, err
		}
		if err := k.admit(ctx); err != nil {
			release()
			k.refused(ctx, "watch", err)
			return nil, errors.New(err.Error()) // as below
		}
		loaded = release
	}
	k.w.mu.Lock()
	r.Since = k.notOlder(o.ResourceVersion)
	if r.Initial {
		k.asked = k.list.Seen
	}
	k.w.mu.Unlock()
	w, err := k.openStream(ctx, l.s, r, loaded)
	switch {
	case err == nil:
		return w, nil
	case ctx.Err() != nil:
		return nil, err
	case !r.Initial:
		k.fail("watch", err)
		k.lookIfMissing(err)
		return nil, err
	case apierrors.IsResourceExpired(err), apierrors.IsGone(err), api.IsTooNew(err):
		return nil, err // asked again without a revision
	default:
		// The reflector lists instead. It must not see that the connection was refused, or that there were too many
		// requests: it would wait, and not notice that it is to end.
		return nil, errors.New(err.Error())
	}
}

// refused notes why a request is not made, unless that is known.
func (k *watched) refused(ctx context.Context, verb string, err error) {
	k.w.mu.Lock()
	defer k.w.mu.Unlock()
	if ctx.Err() == nil && !errors.Is(err, k.stream.err) {
		k.broken(readError(verb, k.list.Name(), err))
	}
}

// notOlder is the revision to ask for: what the reflector has seen, or what a list has shown meanwhile. 0 is a consistent
// request; so is the reflector's "0", which would take whatever is in a cache. mu is held.
func (k *watched) notOlder(version string) kube.Revision {
	n, err := strconv.ParseUint(version, 10, 64)
	if err != nil || n == 0 {
		return 0
	}
	return max(kube.Revision(n), k.list.Seen)
}

// capture gives what is known, to be compared with a list: the items are copied before they change. mu is held.
func (k *watched) capture() lister.State {
	k.shared = true
	return k.list.State
}

// rest waits if everything was asked for just now: a reflector does so at once if the stream breaks before it has all.
func (k *watched) rest(ctx context.Context) error {
	k.w.mu.Lock()
	wait := time.Until(k.began.Add(firstBackoff + rand.N(firstBackoff)))
	k.w.mu.Unlock()
	if wait > 0 {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	k.w.mu.Lock()
	defer k.w.mu.Unlock()
	k.began = time.Now()
	return nil
}

// lookIfMissing asks discovery soon if the kind was not found.
func (k *watched) lookIfMissing(err error) {
	if api.ReasonOf(err) == api.ReasonNotFound && k.list == k.w.lister.RouteGroups {
		poke(k.w.look)
	}
}

// take waits for the turn to make a request that lists objects.
func (w *Watcher) take(ctx context.Context) (release func(), err error) {
	release, err = w.lister.Acquire(ctx)
	if err != nil {
		return nil, fmt.Errorf("waiting for another kind to be listed: %w", err)
	}
	return release, nil
}
