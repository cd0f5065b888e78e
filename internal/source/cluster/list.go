package cluster

import (
	"errors"

	"github.com/routesrv/routesrv/internal/source/cluster/internal/decode"
	"github.com/routesrv/routesrv/kube"
)

// list is a kind with what is known of it. The owner of the lister guards it.
type list struct {
	resource

	state        // from the last complete answer
	absent  bool // discovery does not find the kind; items are kept in case it returns
	changed bool // items or absent changed since the last snapshot
}

// forget makes the next request consistent and accepts its answer, however old it is. The objects stay known.
func (l *list) forget() { l.seen, l.wire = 0, wireDigest{} }

// setAbsent sets whether the kind is absent from the cluster.
func (l *list) setAbsent(absent bool) {
	if l.absent != absent {
		l.absent, l.changed = absent, true
	}
}

// adopt makes the answer the known state. It reports whether any object changed.
func (l *list) adopt(a listing) (changed bool) {
	changed = !sameItems(l.items, a.items)
	l.changed = l.changed || changed
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

// collect returns the objects of the list in a new slice.
func collect[T kube.Object](l *list) []T {
	if l.absent || len(l.items) == 0 {
		return nil
	}
	out := make([]T, 0, len(l.items))
	for i := range l.items {
		if o, ok := l.items[i].Object.(T); ok {
			out = append(out, o)
		}
	}
	return out
}

func (l *list) appendBad(bad []kube.BadObject) []kube.BadObject {
	if l.absent {
		return bad
	}
	for i := range l.items {
		if b := l.items[i].Bad; b != nil {
			bad = append(bad, *b)
		}
	}
	return bad
}

// snapshot combines the contents of the lists and reuses the slices of the previous snapshot where nothing changed.
func (r *lister) snapshot() *kube.Snapshot {
	snap := *r.last
	snap.Revision, snap.Newest = r.revisions()
	changed := false
	for _, l := range r.lists {
		if !l.changed {
			continue
		}
		changed, l.changed = true, false
		switch l.Kind {
		case kube.KindIngress:
			snap.Ingresses = collect[*kube.Ingress](l)
		case kube.KindRouteGroup:
			snap.RouteGroups = collect[*kube.RouteGroup](l)
		case kube.KindService:
			snap.Services = collect[*kube.Service](l)
		case kube.KindNamespace:
			snap.Namespaces = collect[*kube.Namespace](l)
		case kube.KindConfigMap:
			snap.Orders = collect[*kube.ConfigMap](l)
		case kube.KindEndpoints:
			snap.Endpoints = collect[*kube.Endpoints](l)
		case kube.KindEndpointSlice:
			snap.EndpointSlices = collect[*kube.EndpointSlice](l)
		}
	}
	if !changed && snap.Revision == r.last.Revision && snap.Newest == r.last.Newest {
		return r.last
	}
	if changed {
		snap.Bad = nil
		for _, l := range r.lists {
			snap.Bad = l.appendBad(snap.Bad)
		}
	}
	r.last = &snap
	return r.last
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
