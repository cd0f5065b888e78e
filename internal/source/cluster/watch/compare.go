package watch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/routesrv/routesrv/internal/source/cluster/internal/lister"
	"github.com/routesrv/routesrv/kube"
)

// differences are the objects whose state in a list differs from the one that the watch has shown.
type differences struct {
	refs []kube.Ref
	// proven says that the watch had reached the revision of the list, so it will no longer deliver these changes.
	proven bool
}

func (d differences) String() string {
	var names []string
	for i, ref := range d.refs {
		if i == namedDifferences {
			names = append(names, fmt.Sprintf("and %d more", len(d.refs)-i))
			break
		}
		names = append(names, ref.String())
	}
	return strings.Join(names, ", ")
}

// comparison says how to compare a kind.
type comparison struct {
	consistent bool
	floor      kube.Revision // the list must not be older; consistent lists need none
	deep       bool          // every object is decoded, whether its bytes are known or not
	patience   time.Duration // how long the watch may take to reach the revision of the list
}

// compare lists a kind and adopts the list together with the events that arrived after it.
func (w *Watcher) compare(ctx context.Context, k *watched, c comparison) (differences, error) {
	release, err := w.awaitTurn(ctx)
	if err != nil {
		return differences{}, readError("list", k.list.Name(), err)
	}
	released := false
	free := func() {
		if !released {
			released = true
			release()
		}
	}
	defer free()
	w.mu.Lock()
	if !k.synced {
		w.mu.Unlock()
		return differences{}, nil // an attempt is about to load it anyway
	}
	known, came := k.capture(), &journal{}
	k.journals = append(k.journals, came)
	if c.deep {
		known.ForgetBytes()
	}
	w.mu.Unlock()
	defer func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		k.journals = slices.DeleteFunc(k.journals, func(j *journal) bool { return j == came })
	}()
	a, err := w.lister.AskFor(ctx, k.list, c.consistent, c.floor, known)
	free()
	if err != nil {
		if errors.Is(err, lister.ErrRestored) {
			w.mu.Lock()
			w.restored(err)
			w.mu.Unlock()
		}
		return differences{}, err
	}
	w.await(ctx, k, a.Seen, c.patience)
	w.mu.Lock()
	defer w.mu.Unlock()
	return k.adopt(a, came), ctx.Err()
}

// await waits until the watch of a kind has reached the revision, but no longer than patience.
func (w *Watcher) await(ctx context.Context, k *watched, revision kube.Revision, patience time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	tick := time.NewTicker(max(time.Millisecond, patience/50))
	defer tick.Stop()
	for {
		w.mu.Lock()
		reached := k.list.Seen >= revision
		w.mu.Unlock()
		if reached {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// adopt replaces what is known by a list and the events that arrived after it. The caller holds mu.
func (k *watched) adopt(a lister.Listing, came *journal) differences {
	if came.void || !k.synced || a.Seen < k.listed {
		return differences{} // a newer list came first, and events up to that one were ignored
	}
	k.listed = a.Seen
	d := differences{proven: k.list.Seen >= a.Seen}
	items := lister.Sort(slices.Clone(a.Items))
	for i := range came.updates {
		if u := &came.updates[i]; u.revision > a.Seen {
			items, _ = u.to(items)
		}
	}
	d.refs = keepItems(k.list.Items, items)
	if len(d.refs) > 0 {
		k.list.Changed = true
		poke(k.w.dirty)
	}
	// No Wire: events follow, so the bytes of the list no longer match what is known.
	k.list.State = lister.State{Items: items, Sorted: true, Seen: max(k.list.Seen, a.Seen)}
	k.shared = false
	return d
}

// keepItems returns the objects in which two sorted lists differ. In items, it replaces objects that do not differ by
// the known ones.
func keepItems(known, items []lister.Item) (differ []kube.Ref) {
	i, j := 0, 0
	for i < len(known) || j < len(items) {
		order := 0
		switch {
		case i == len(known):
			order = 1
		case j == len(items):
			order = -1
		default:
			order = lister.CompareKeys(known[i].Ref(), items[j].Ref())
		}
		switch {
		case order < 0:
			differ = append(differ, known[i].Ref())
			i++
		case order > 0:
			differ = append(differ, items[j].Ref())
			j++
		default:
			if items[j].Keep(&known[i]) {
				differ = append(differ, items[j].Ref())
			}
			i++
			j++
		}
	}
	return differ
}
