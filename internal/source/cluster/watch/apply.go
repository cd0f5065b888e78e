package watch

import (
	"context"
	"slices"

	"github.com/routesrv/routesrv/internal/source/cluster/internal/decode"
	"github.com/routesrv/routesrv/internal/source/cluster/internal/lister"
	"github.com/routesrv/routesrv/kube"
)

// update is the content of an event about one object.
type update struct {
	ref      kube.Ref
	revision kube.Revision
	item     lister.Item // the current object, unless it was deleted
	deleted  bool
}

// journal collects the updates that arrive while a list is compared.
type journal struct {
	updates []update
	void    bool // the session has ended: nothing is left to compare
}

// eventNames are the types of events in the metrics.
var eventNames = map[decode.EventType]string{
	decode.Added: "added", decode.Modified: "modified", decode.Deleted: "deleted", decode.Bookmark: "bookmark",
}

// update returns the content of an event about an object.
func (k *watched) update(e *decode.Event, item lister.Item) update {
	ref := kube.Ref{Kind: k.list.Kind, Namespace: e.Namespace, Name: e.Name}
	return update{ref, e.Revision, item, e.Type == decode.Deleted}
}

// receive processes an event. It ignores an event that is not newer than what is known: a list has already shown it,
// or it arrived twice. An object may be modified or deleted without being known. receive changes nothing once the
// attempt was told to end.
func (k *watched) receive(ctx context.Context, e *decode.Event, item lister.Item) {
	k.w.metrics.events.WithLabelValues(string(k.list.Kind), eventNames[e.Type]).Inc()
	k.w.mu.Lock()
	defer k.w.mu.Unlock()
	if ctx.Err() != nil {
		return
	}
	if e.Type != decode.Bookmark && e.Revision > k.list.Seen {
		u := k.update(e, item)
		changed := k.apply(&u)
		for _, j := range k.journals {
			j.updates = append(j.updates, u)
		}
		if changed {
			k.list.Changed = true
			poke(k.w.dirty)
		}
	}
	k.reached(e.Revision)
}

// apply applies the update to the items and reports whether the object's decoded content changed. Afterwards u.item
// is the item that was kept. The caller holds mu.
func (k *watched) apply(u *update) (changed bool) {
	l := k.list
	if k.shared {
		l.Items, k.shared = slices.Clone(l.Items), false
	}
	l.Items, changed = u.to(l.Items)
	return changed
}

// to applies the update to sorted items and reports whether the object's decoded content changed.
func (u *update) to(items []lister.Item) (_ []lister.Item, changed bool) {
	i, known := lister.Find(items, u.ref)
	switch {
	case u.deleted && known:
		return slices.Delete(items, i, i+1), true
	case u.deleted:
		return items, false
	case known:
		changed = u.item.Keep(&items[i])
		items[i] = u.item
		return items, changed
	default:
		return slices.Insert(items, i, u.item), true
	}
}
