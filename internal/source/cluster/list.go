package cluster

import (
	"errors"
	"slices"

	"github.com/routesrv/routesrv/internal/source/cluster/internal/decode"
	"github.com/routesrv/routesrv/kube"
)

// list is a kind with what is known of it. The owner of the lister guards it.
type list struct {
	resource

	state       // from the last complete answer
	absent bool // discovery does not find the kind; items are kept in case it returns
}

// forget makes the next request consistent and accepts its answer, however old it is. The objects stay known.
func (l *list) forget() { l.seen, l.wire = 0, wireDigest{} }

// adopt makes the answer the known state. It reports whether any object changed.
func (l *list) adopt(a listing) (changed bool) {
	changed = !sameItems(l.items, a.items)
	l.state = a.state
	return changed
}

// state is what is known of a list at a revision. The items are shared: nobody may modify them.
type state struct {
	items []item
	seen  kube.Revision // 0 if the list had none, or was not read yet
	wire  wireDigest    // of the compressed answer, if it was compressed
}

// listing is a complete answer to a list request. Items that equal those of the state it was compared with share
// their objects.
type listing struct {
	state
	lost int // how many known objects it lacks
}

// decodeItem returns an item for raw with its digest: the decoded object, or the reason why it cannot be decoded.
func (l *list) decodeItem(raw []byte, media string, sum digest) item {
	obj, err := decode.Object(l.Kind, media, raw)
	if err == nil {
		return item{sum: sum, Object: obj}
	}
	bad := &kube.BadObject{Ref: kube.Ref{Kind: l.Kind}, Err: err}
	if d, ok := errors.AsType[*kube.DecodeError](err); ok {
		bad.Ref = d.Ref
	}
	return item{sum: sum, Bad: bad}
}

// snapshot combines the contents of the lists. It reuses the slices of the previous snapshot in which no object changed, and that snapshot if
// no revision changed either.
func (r *lister) snapshot() *kube.Snapshot {
	next := new(kube.Snapshot)
	for _, l := range r.lists {
		for i := range l.items {
			switch it := &l.items[i]; {
			case l.absent:
			case it.Bad != nil:
				next.Bad = append(next.Bad, *it.Bad)
			default:
				next.Add(it.Object)
			}
		}
	}
	share(&next.Ingresses, r.last.Ingresses)
	share(&next.RouteGroups, r.last.RouteGroups)
	share(&next.Services, r.last.Services)
	share(&next.Namespaces, r.last.Namespaces)
	share(&next.Orders, r.last.Orders)
	share(&next.Endpoints, r.last.Endpoints)
	share(&next.EndpointSlices, r.last.EndpointSlices)
	next.Revision, next.Newest = r.revisions()
	if !next.SameObjects(r.last) || next.Revision != r.last.Revision || next.Newest != r.last.Newest {
		r.last = next
	}
	return r.last
}

// share replaces a slice by one with the same elements.
func share[T comparable](now *[]T, before []T) {
	if slices.Equal(*now, before) {
		*now = before
	}
}

// revisions returns the lowest and the highest revision of the lists that were read. Both are 0 if a list has no
// revision.
func (r *lister) revisions() (lowest, highest kube.Revision) {
	first := true
	for _, l := range r.lists {
		switch {
		case l.absent:
			continue
		case l.seen == 0:
			return 0, 0
		case first || l.seen < lowest:
			lowest = l.seen
		}
		first, highest = false, max(highest, l.seen)
	}
	return lowest, highest
}
