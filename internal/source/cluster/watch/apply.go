package watch

import (
	"context"
	"slices"

	"github.com/routesrv/routesrv/internal/source/cluster/internal/decode"
	"github.com/routesrv/routesrv/internal/source/cluster/internal/lister"
	"github.com/routesrv/routesrv/kube"
)

// update is what an event says about one object.
type update struct {
	ref      kube.Ref
	revision kube.Revision
	item     lister.Item // as it is now, unless it was deleted
	deleted  bool
}

// journal is what came while a list was compared.
type journal struct {
	updates []update
	void    bool // the session has ended: there is nothing left to compare
}

// eventNames are the types of events in the metrics.
var eventNames = map[decode.EventType]string{
	decode.Added: "added", decode.Modified: "modified", decode.Deleted: "deleted", decode.Bookmark: "bookmark",
}

// update gives what an event about an object says.
func (k *watched) update(e *decode.Event, item lister.Item) update {
	ref := kube.Ref{Kind: k.list.Kind, Namespace: e.Namespace, Name: e.Name}
	return update{ref, e.Revision, item, e.Type == decode.Deleted}
}

// receive takes in an event. One that is not newer than what is known was shown by a list, or has come twice. An object need not
// be known to be modified, or to be deleted. An attempt that was told to end changes nothing.
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

// apply puts the update into the items and reports whether what is read of the object is another. It makes the item of the
// update the one that was kept; mu is held.
func (k *watched) apply(u *update) (changed bool) {
	l := k.list
	if k.shared {
		l.Items, k.shared = slices.Clone(l.Items), false
	}
	l.Items, changed = u.to(l.Items)
	return changed
}

// to makes the update in sorted items, and reports whether what is read of the object is another.
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
