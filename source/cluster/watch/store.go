package watch

import (
	"fmt"
	"slices"
	"time"

	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/source/cluster/api"
	"github.com/routesrv/routesrv/source/cluster/decode"
	"github.com/routesrv/routesrv/source/cluster/lister"
)

// Add takes an object that is new. The reflector calls it, and what follows.
func (k *watched) Add(o any) error { return k.event(o, "added") }

// Update takes an object that has changed.
func (k *watched) Update(o any) error { return k.event(o, "modified") }

// Delete takes the last state of an object that is gone.
func (k *watched) Delete(o any) error { return k.event(o, "deleted") }

// Resync does nothing: there is nothing that could be out of step.
func (k *watched) Resync() error { return nil }

// Bookmark takes the revision that the watch has reached.
func (k *watched) Bookmark(version string) error {
	revision, err := decode.Revision(version)
	if err != nil {
		return err
	}
	k.w.metrics.events.WithLabelValues(string(k.list.Kind), "bookmark").Inc()
	k.w.mu.Lock()
	defer k.w.mu.Unlock()
	k.word(revision)
	return nil
}

// event takes a change of one object.
func (k *watched) event(o any, verb string) error {
	e, ok := o.(*entry)
	if !ok {
		return fmt.Errorf("a %T in the stream", o)
	}
	k.w.metrics.events.WithLabelValues(string(k.list.Kind), verb).Inc()
	k.w.mu.Lock()
	defer k.w.mu.Unlock()
	if e.revision <= k.list.Seen {
		k.word(e.revision)
		return nil // a list has shown it, or what came after it
	}
	c := change{e.ref(k.list.Kind), e.revision, e.item, verb == "deleted"}
	changed := k.apply(&c)
	for _, log := range k.logs {
		log.all = append(log.all, c)
	}
	k.word(e.revision)
	if changed {
		k.list.Changed = true
		poke(k.w.dirty)
	}
	return nil
}

// apply puts the change into the items and reports whether what is read of the object is another. It makes the item of the
// change the one that was kept; mu is held.
func (k *watched) apply(c *change) (changed bool) {
	l := k.list
	if k.shared {
		l.Items, k.shared = slices.Clone(l.Items), false
	}
	l.Items, changed = c.to(l.Items)
	l.Wire = lister.Digest{} // the next list has to be looked at
	return changed
}

// to makes the change in sorted items, and reports whether what is read of the object is another.
func (c *change) to(items []lister.Item) (_ []lister.Item, changed bool) {
	i, known := lister.Find(items, c.ref)
	switch {
	case c.deleted && known:
		return slices.Delete(items, i, i+1), true
	case c.deleted:
		return items, false
	case known:
		changed = c.item.Keep(&items[i])
		items[i] = c.item
		return items, changed
	default:
		return slices.Insert(items, i, c.item), true
	}
}

// Replace takes everything that there is at a revision, which a list or the beginning of a watch has shown.
func (k *watched) Replace(all []any, version string) error {
	revision, err := decode.Revision(version)
	if err != nil {
		k.fail("list", err)
		return err
	}
	items := make([]lister.Item, 0, len(all))
	for _, o := range all {
		e, ok := o.(*entry)
		if !ok {
			return fmt.Errorf("a %T in the list", o)
		}
		items = append(items, e.item)
	}
	lister.Sort(items)
	if err := k.confirm(items, revision); err != nil {
		k.fail("list", err)
		return err
	}
	k.w.mu.Lock()
	defer k.w.mu.Unlock()
	if revision < k.asked {
		k.w.restored(fmt.Errorf("%s: %w: %d after %d", k.list.Name(), lister.ErrRestored, revision, k.asked))
		return nil
	}
	if revision >= k.list.Seen {
		k.replace(items)
		k.listed, k.doubt = revision, false
	} // else another list has overtaken it
	k.loaded, k.heavy, k.listedAt = true, heavy{}, time.Now()
	k.word(revision)
	k.w.lister.Metrics.ListObjects.WithLabelValues(string(k.list.Kind)).Set(float64(len(items)))
	k.sync()
	return nil
}

// confirm lists the kind consistently if the items, which are sorted and from the beginning of a watch, lack so much of what
// is known that they may be wrong. The error says that they are, or that this cannot be found out.
func (k *watched) confirm(items []lister.Item, revision kube.Revision) error {
	k.w.mu.Lock()
	known, ctx := k.capture(), k.life
	done := k.confirmed == revision || revision < k.asked
	k.w.mu.Unlock()
	known.Seen, known.Wire = 0, lister.Digest{}
	stream := lister.Answer{Lost: lister.Lost(known.Items, items)}
	if done || !stream.Suspicious(len(known.Items)) {
		return nil
	}
	release, err := k.w.take(ctx)
	if err != nil {
		return err
	}
	defer release()
	a, err := k.w.lister.Ask(ctx, k.list, 0, known)
	switch {
	case err != nil:
		return lister.UnconfirmedLoss(stream.Lost, len(known.Items), err)
	case !a.Suspicious(len(known.Items)):
		return api.Errorf(api.ReasonBody, "the watch began without %d of %d objects, of which a consistent list lacks %d", stream.Lost,
			len(known.Items), a.Lost)
	}
	return nil
}

// replace makes these the items, with the objects that are known where they did not change; mu is held.
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
	l.Items, l.Sorted, l.Wire, k.shared = items, true, lister.Digest{}, false
}

// known gives the item with the name if its bytes are these, so that they need not be decoded again.
func (k *watched) known(ref kube.Ref, sum lister.Digest) (lister.Item, bool) {
	k.w.mu.Lock()
	defer k.w.mu.Unlock()
	if i, ok := lister.Find(k.list.Items, ref); ok && k.list.Items[i].Sum == sum {
		return k.list.Items[i], true
	}
	return lister.Item{}, false
}
