package cluster

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/source/cluster/internal/decode"
)

// lister lists the kinds of one cluster. It is not safe for concurrent use; see [lister.acquire].
type lister struct {
	// set by newLister, read only
	cfg Config // with its defaults
	api *client

	lists       []*list // in the order of the requests
	routeGroups *list   // the list that depends on discovery; also in lists

	busy        chan struct{} // capacity 1: the holder makes requests
	warnedNoCRD bool
	absence     absence // of RouteGroups, while unconfirmed
	// noFloorSince is when the API server was last unable to bring a cache up to the floor; zero: never.
	noFloorSince time.Time
	last         *kube.Snapshot
}

// newLister checks the configuration and prepares a lister. It reads the files that the configuration names and makes no
// request.
func newLister(cfg Config) (*lister, error) {
	cfg = cfg.withDefaults()
	cfg.Logger = cfg.Logger.With("component", "source.cluster")
	client, err := newClient(cfg)
	if err != nil {
		return nil, err
	}
	r := &lister{cfg: cfg, api: client, busy: make(chan struct{}, 1), last: &kube.Snapshot{}}
	for _, res := range cfg.resources() {
		l := &list{resource: res}
		if l.Kind == kube.KindRouteGroup {
			r.routeGroups = l
		}
		r.lists = append(r.lists, l)
	}
	return r, nil
}

// acquire waits for exclusive use of the lister. Lists share their memory and run one at a time, so that a restarted API
// server does not get all of them at once. The caller calls release when it is done. The error is ctx's.
func (r *lister) acquire(ctx context.Context) (release func(), err error) {
	select {
	case r.busy <- struct{}{}:
		return func() { <-r.busy }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// drop releases all objects: the next list of each kind is decoded completely. The known revisions stay. The caller
// has the turn.
func (r *lister) drop() {
	for _, l := range r.lists {
		l.items, l.wire, l.changed = nil, digest{}, true
	}
	r.last = &kube.Snapshot{}
}

// probe requests one object of a list, or discovery if l is nil. It returns an error if the API server does not answer,
// or answers that it cannot serve: then a list would fail, too. It leaves any other problem to a list.
func (r *lister) probe(ctx context.Context, l *list) error {
	verb, resource := "get", discoveryPath
	var err error
	if l == nil {
		_, err = r.api.servesRouteGroups(ctx)
	} else {
		verb, resource = "list", l.Name()
		_, err = r.api.current(ctx, &l.resource)
	}
	if !isDown(err) {
		return nil
	}
	return &kube.ReadError{Verb: verb, Resource: resource, Err: err}
}

// list is a kind with its known content. The owner of the lister guards it.
type list struct {
	resource

	content      // from the last complete answer
	absent  bool // discovery does not find the kind; items are kept in case it returns
	changed bool // items or absent changed since the last snapshot
	bad     []kube.BadObject
}

// forget makes the next request consistent and accepts its answer, however old it is. The objects stay known.
func (l *list) forget() { l.seen, l.wire = 0, digest{} }

// setAbsent sets whether the kind is absent from the cluster.
func (l *list) setAbsent(absent bool) {
	if l.absent != absent {
		l.absent, l.changed = absent, true
	}
}

// adopt makes the answer the known content. It reports whether any object changed.
func (l *list) adopt(a listing) (changed bool) {
	changed = !sameItems(l.items, a.items)
	l.changed = l.changed || changed
	l.content = a.content
	return changed
}

// content is the known content of a list at a revision. The items are shared and must not be modified.
type content struct {
	items []item
	seen  kube.Revision // 0 if the list had none, or was not read yet
	wire  digest        // of the compressed answer, if it was compressed
}

// LogNoNamespaces is logged as a warning when namespaces may not be listed, once until they may.
const LogNoNamespaces = "namespaces cannot be listed; ignoring their annotations"

// without reports whether a read continues without the list: only if it is the list of namespaces, which is read only for
// annotations, and this process has no permission to read it. err is the result of the list request.
func (r *lister) without(l *list, err error) bool {
	if l.Kind != kube.KindNamespace {
		return false
	}
	forbidden := err != nil && reasonOf(err) == reasonForbidden
	if forbidden && !l.absent {
		r.cfg.Logger.Warn(LogNoNamespaces, "error", err)
	}
	if forbidden || err == nil {
		l.setAbsent(forbidden)
	}
	return forbidden
}

// listing is a complete answer to a list request. Items equal to items of the state it was compared with share their objects.
type listing struct {
	content
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

// collect returns the objects of the list in a new slice, and sets bad.
func collect[T kube.Object](l *list) []T {
	l.bad = nil
	if l.absent || len(l.items) == 0 {
		return nil
	}
	out := make([]T, 0, len(l.items))
	for i := range l.items {
		if o, ok := l.items[i].Object.(T); ok {
			out = append(out, o)
		} else {
			l.bad = append(l.bad, *l.items[i].Bad)
		}
	}
	return out
}

// snapshot combines the contents of the lists and reuses the slices of the previous snapshot where nothing changed.
func (r *lister) snapshot() *kube.Snapshot {
	present := slices.DeleteFunc(slices.Clone(r.lists), func(l *list) bool { return l.absent })
	compare := func(a, b *list) int { return cmp.Compare(a.seen, b.seen) }
	lowest, highest := slices.MinFunc(present, compare).seen, slices.MaxFunc(present, compare).seen
	if lowest == 0 { // a list has no revision
		highest = 0
	}
	snap := *r.last
	snap.Revision, snap.Newest = lowest, highest
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
		case kube.KindEndpoints:
			snap.Endpoints = collect[*kube.Endpoints](l)
		case kube.KindEndpointSlice:
			snap.EndpointSlices = collect[*kube.EndpointSlice](l)
		}
	}
	if !changed && lowest == r.last.Revision && highest == r.last.Newest {
		return r.last
	}
	if changed {
		snap.Bad = nil
		for _, l := range r.lists {
			snap.Bad = append(snap.Bad, l.bad...)
		}
	}
	r.last = &snap
	return r.last
}
