package watch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/routesrv/routesrv/internal/source/cluster/internal/api"
	"github.com/routesrv/routesrv/internal/source/cluster/internal/decode"
	"github.com/routesrv/routesrv/internal/source/cluster/internal/lister"
	"github.com/routesrv/routesrv/kube"
)

// listEverything lists the kind at a revision no older than what is known. The caller has the turn.
func (k *watched) listEverything(ctx context.Context) error {
	k.w.mu.Lock()
	known := k.capture()
	k.w.mu.Unlock()
	since := known.Seen
	// load, not Ask, has to judge an answer that is older than what is known.
	known.Seen = 0
	a, err := k.w.lister.Ask(ctx, k.list, since, known)
	if since != 0 && api.NeedsConsistent(err) {
		a, err = k.w.lister.Ask(ctx, k.list, 0, known)
	}
	if err == nil {
		a, err = k.w.lister.ConfirmLoss(ctx, k.list, a, known)
	}
	if err == nil && a.Seen == 0 {
		err = api.ErrNoRevision
	}
	if err != nil {
		return k.readError("list", err)
	}
	k.load(ctx, lister.Sort(slices.Clone(a.Items)), a.Seen, since)
	return nil
}

// beginning reads the initial objects of a watch: objects in any order, with changes that happened meanwhile, up to
// the bookmark that ends them. It returns the revision at which they are complete, and the items in order.
func (r *reader) beginning() (kube.Revision, []lister.Item, error) {
	var items []lister.Item
	ordered := false // items are sorted, which the first change requires
	for {
		e, item, err := r.next()
		switch {
		case err != nil:
			return 0, nil, err
		case e.Loaded:
			if !ordered {
				items = lister.Sort(items)
			}
			return e.Revision, items, nil
		case e.Type == decode.Bookmark:
		case e.Type == decode.Added && !ordered:
			items = append(items, item)
		default:
			if !ordered {
				items, ordered = lister.Sort(items), true
			}
			u := r.k.update(&e, item)
			items, _ = u.to(items)
		}
	}
}

// confirm lists the kind consistently if the initial items of a watch, which are sorted, lack so many known objects
// that they may be wrong. It returns an error if they are wrong, or if confirm cannot find out.
func (k *watched) confirm(ctx context.Context, items []lister.Item, revision, since kube.Revision) error {
	k.w.mu.Lock()
	known := k.capture()
	k.w.mu.Unlock()
	known.Seen = 0
	begun := lister.Listing{Lost: lister.Lost(known.Items, items)}
	if revision < since || !begun.Suspicious(len(known.Items)) {
		return nil
	}
	release, err := k.w.awaitTurn(ctx)
	if err != nil {
		return err
	}
	defer release()
	a, err := k.w.lister.Ask(ctx, k.list, 0, known)
	switch {
	case err != nil:
		return lister.UnconfirmedLoss(begun.Lost, len(known.Items), err)
	case !a.Suspicious(len(known.Items)):
		return api.Errorf(api.ReasonBody, "the watch began without %d of %d objects, of which a consistent list lacks %d", begun.Lost,
			len(known.Items), a.Lost)
	}
	return nil
}

// load replaces what is known by the items, which are sorted and complete at the revision. since was the known
// revision when they were requested: a lower revision means that etcd was restored. load changes nothing once the
// attempt was told to end.
func (k *watched) load(ctx context.Context, items []lister.Item, revision, since kube.Revision) {
	k.w.mu.Lock()
	defer k.w.mu.Unlock()
	if ctx.Err() != nil {
		return
	}
	if revision < since {
		k.w.restored(fmt.Errorf("%s: %w: %d after %d", k.list.Name(), lister.ErrRestored, revision, since))
		return
	}
	if revision >= k.list.Seen {
		k.replace(items)
		k.listed, k.doubt = revision, false
	} // else a newer list was loaded meanwhile
	k.loaded, k.loadedAt, k.streamFailures, k.heavy = true, time.Now(), 0, heavy{}
	k.reached(revision)
	k.w.lister.Metrics.ListObjects.WithLabelValues(string(k.list.Kind)).Set(float64(len(items)))
	k.sync()
}

// replace sets the items, but keeps the known objects that did not change. The caller holds mu.
func (k *watched) replace(items []lister.Item) {
	l := k.list
	for i := range items {
		if at, known := lister.Find(l.Items, items[i].Ref()); known {
			items[i].Keep(&l.Items[at])
		}
	}
	if !lister.SameItems(l.Items, items) {
		l.Changed = true
		poke(k.w.dirty)
	}
	l.Items, l.Sorted, k.shared = items, true, false
}

// capture returns what is known, for comparison with a list. Later changes copy the items first. The caller holds mu.
func (k *watched) capture() lister.State {
	k.shared = true
	return k.list.State
}

// seen returns the revision up to which everything is known; 0 at the start of a session.
func (k *watched) seen() kube.Revision {
	k.w.mu.Lock()
	defer k.w.mu.Unlock()
	return k.list.Seen
}

// known returns the item with this name if it has this digest, so that it need not be decoded again.
func (k *watched) known(ref kube.Ref, sum lister.Digest) (lister.Item, bool) {
	k.w.mu.Lock()
	defer k.w.mu.Unlock()
	if i, ok := lister.Find(k.list.Items, ref); ok && k.list.Items[i].Sum == sum {
		return k.list.Items[i], true
	}
	return lister.Item{}, false
}

// awaitTurn waits for the turn to make a request that lists objects.
func (w *Watcher) awaitTurn(ctx context.Context) (release func(), err error) {
	release, err = w.lister.Acquire(ctx)
	if err != nil {
		return nil, fmt.Errorf("waiting for another kind to be listed: %w", err)
	}
	return release, nil
}

// readError wraps an error in a *[kube.ReadError], unless it already is one.
func readError(verb, resource string, err error) error {
	if _, ok := errors.AsType[*kube.ReadError](err); ok {
		return err
	}
	return &kube.ReadError{Verb: verb, Resource: resource, Err: err}
}
