package cluster

import (
	"context"
	"log/slog"
	"time"

	"github.com/routesrv/routesrv/kube"
)

// lister lists the kinds of one cluster. It is not safe for concurrent use; see [lister.acquire].
type lister struct {
	// set by newLister, read only
	cfg     Config // with its defaults
	api     *client
	log     *slog.Logger
	metrics *Metrics

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
	r := &lister{
		cfg: cfg, api: client, metrics: cfg.Metrics, log: cfg.Logger,
		busy: make(chan struct{}, 1), last: &kube.Snapshot{},
	}
	for _, res := range cfg.resources() {
		l := &list{resource: res}
		if l.Kind == kube.KindRouteGroup {
			r.routeGroups = l
		}
		r.lists = append(r.lists, l)
	}
	return r, nil
}

// acquire waits for the turn to make requests for lists. Lists share their memory and run one at a time, so that a
// restarted API server does not get all of them at once. The caller calls release when it is done. The error is the
// one of ctx.
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
		l.items, l.wire, l.changed = nil, wireDigest{}, true
	}
	r.last = &kube.Snapshot{}
}

// probe asks for one object of a list, or for discovery if l is nil. It returns an error if the API server does not
// answer, or answers that it cannot serve: a list would fail as well. It ignores any other problem and leaves it to a
// list.
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
