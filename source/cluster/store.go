package cluster

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/routesrv/routesrv/kube"
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
	revision, err := parseRevision(version)
	if err != nil {
		return err
	}
	k.w.metrics.events.WithLabelValues(string(k.list.kind), "bookmark").Inc()
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
	k.w.metrics.events.WithLabelValues(string(k.list.kind), verb).Inc()
	k.w.mu.Lock()
	defer k.w.mu.Unlock()
	if e.revision <= k.list.seen {
		k.word(e.revision)
		return nil // a list has shown it, or what came after it
	}
	c := change{e.ref(k.list.kind), e.revision, e.item, verb == "deleted"}
	changed := k.apply(&c)
	for _, log := range k.logs {
		log.all = append(log.all, c)
	}
	k.word(e.revision)
	if changed {
		k.list.changed = true
		poke(k.w.dirty)
	}
	return nil
}

// apply puts the change into the items and reports whether what is read of the object is another. It makes the item of the
// change the one that was kept; mu is held.
func (k *watched) apply(c *change) (changed bool) {
	l := k.list
	if k.shared {
		l.items, k.shared = slices.Clone(l.items), false
	}
	l.items, changed = c.to(l.items)
	l.wire = digest{} // the next list has to be looked at
	return changed
}

// to makes the change in sorted items, and reports whether what is read of the object is another.
func (c *change) to(items []item) (_ []item, changed bool) {
	i, known := findItem(items, c.ref)
	switch {
	case c.deleted && known:
		return slices.Delete(items, i, i+1), true
	case c.deleted:
		return items, false
	case known:
		changed = c.item.keep(&items[i])
		items[i] = c.item
		return items, changed
	default:
		return slices.Insert(items, i, c.item), true
	}
}

// Replace takes everything that there is at a revision, which a list or the beginning of a watch has shown.
func (k *watched) Replace(all []any, version string) error {
	revision, err := parseRevision(version)
	if err != nil {
		k.fail("list", err)
		return err
	}
	items := make([]item, 0, len(all))
	for _, o := range all {
		e, ok := o.(*entry)
		if !ok {
			return fmt.Errorf("a %T in the list", o)
		}
		items = append(items, e.item)
	}
	if !inOrder(items) {
		slices.SortFunc(items, func(a, b item) int { return compareKeys(a.ref(), b.ref()) })
	}
	if err := k.confirm(items, revision); err != nil {
		k.fail("list", err)
		return err
	}
	k.w.mu.Lock()
	defer k.w.mu.Unlock()
	if revision < k.asked {
		k.w.restored(fmt.Errorf("%s: %w: %d after %d", k.list.name(), errRestored, revision, k.asked))
		return nil
	}
	if revision >= k.list.seen {
		k.replace(items)
		k.listed, k.doubt = revision, false
	} // else another list has overtaken it
	k.loaded, k.heavy, k.listedAt = true, heavy{}, time.Now()
	k.word(revision)
	k.w.source.metrics.ListObjects.WithLabelValues(string(k.list.kind)).Set(float64(len(items)))
	k.sync()
	return nil
}

// confirm lists the kind consistently if the items, which are sorted and from the beginning of a watch, lack so much of what
// is known that they may be wrong. The error says that they are, or that this cannot be found out.
func (k *watched) confirm(items []item, revision kube.Revision) error {
	k.w.mu.Lock()
	known, ctx := k.capture(), k.life
	done := k.confirmed == revision || revision < k.asked
	k.w.mu.Unlock()
	known.seen, known.wire = 0, digest{}
	stream := listAnswer{lost: lostItems(known.items, items)}
	if done || !stream.suspicious(len(known.items)) {
		return nil
	}
	release, err := k.w.take(ctx)
	if err != nil {
		return err
	}
	defer release()
	a, err := k.w.source.ask(ctx, k.list, 0, known)
	switch {
	case err != nil:
		return unconfirmedLoss(stream.lost, len(known.items), err)
	case !a.suspicious(len(known.items)):
		return fail(reasonBody, "the watch began without %d of %d objects, of which a consistent list lacks %d", stream.lost,
			len(known.items), a.lost)
	}
	return nil
}

// replace makes these the items, with the objects that are known where they did not change; mu is held.
func (k *watched) replace(items []item) {
	l := k.list
	for i := range items {
		if at, known := findItem(l.items, items[i].ref()); known {
			items[i].keep(&l.items[at])
		}
	}
	if !sameItems(l.items, items) {
		l.changed = true
		poke(k.w.dirty)
	}
	l.items, l.sorted, l.wire, k.shared = items, true, digest{}, false
}

// known gives the item with the name if its bytes are these, so that they need not be decoded again.
func (k *watched) known(ref kube.Ref, sum digest) (item, bool) {
	k.w.mu.Lock()
	defer k.w.mu.Unlock()
	if i, ok := findItem(k.list.items, ref); ok && k.list.items[i].sum == sum {
		return k.list.items[i], true
	}
	return item{}, false
}

// parseRevision reads a resourceVersion as a number. A watch that cannot be ordered is of no use.
func parseRevision(version string) (kube.Revision, error) {
	n, err := strconv.ParseUint(version, 10, 64)
	if err != nil || n == 0 {
		return 0, fmt.Errorf("resourceVersion %q: want a number", version)
	}
	return kube.Revision(n), nil
}
