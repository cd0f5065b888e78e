// Package lister lists the kinds of a cluster and compares each answer with what it knows: an object that did not
// change keeps its pointer and is not even decoded. Polling and watching both build on it.
//
// # Confirmed
//
// One answer is not enough to remove objects in bulk. If discovery no longer finds RouteGroups, they count as removed
// only after at least three reads over at least ten seconds agree, together with a list of API groups that agrees;
// until then reads fail. A list that lacks all known objects of a kind, or more than half of them, is repeated
// consistently at once, and the second answer counts.
//
// # Cheap when nothing changed
//
// Built-in kinds arrive as protobuf, and any answer may arrive gzipped. Each item of a list is compared with the item
// of the previous read by its SHA-256, and only new items are decoded; known items keep their pointers. A list whose
// compressed body equals the previous one is not even decompressed.
package lister

import (
	"context"
	"log/slog"
	"time"

	"github.com/routesrv/routesrv/internal/source/cluster/internal/api"
	"github.com/routesrv/routesrv/internal/source/cluster/internal/decode"
	"github.com/routesrv/routesrv/kube"
)

// Lister lists the kinds of one cluster. It is not safe for concurrent use; see [Lister.Acquire].
type Lister struct {
	// set by New, read only
	Config  api.Config // with its defaults
	API     *api.Client
	Log     *slog.Logger
	Metrics *api.Metrics

	Lists       []*List // in the order of the requests
	RouteGroups *List   // the list that depends on discovery; also in Lists

	busy        chan struct{} // capacity 1: the holder makes requests
	warnedNoCRD bool
	absence     absence // of RouteGroups, while unconfirmed
	// noFloorSince is when the API server was last unable to bring a cache up to the floor; zero: never.
	noFloorSince time.Time
	last         *kube.Snapshot
}

// New checks the configuration and prepares a Lister. It reads the files that the configuration names and makes no
// request.
func New(cfg api.Config) (*Lister, error) {
	cfg = cfg.WithDefaults()
	cfg.Logger = cfg.Logger.With("component", "source.cluster")
	client, err := api.NewClient(cfg)
	if err != nil {
		return nil, err
	}
	r := &Lister{
		Config: cfg, API: client, Metrics: cfg.Metrics, Log: cfg.Logger,
		busy: make(chan struct{}, 1), last: &kube.Snapshot{},
	}
	decoder := new(decode.Decoder) // one for all, since they take turns
	for _, resource := range cfg.Resources() {
		l := &List{Resource: resource, decoder: decoder, State: State{Sorted: true}}
		if l.Kind == kube.KindRouteGroup {
			r.RouteGroups = l
		}
		r.Lists = append(r.Lists, l)
	}
	return r, nil
}

// Acquire waits for the turn to make requests for lists. Lists share their memory and run one at a time, so that a
// restarted API server does not get all of them at once. The caller calls release when it is done. The error is the
// one of ctx.
func (r *Lister) Acquire(ctx context.Context) (release func(), err error) {
	select {
	case r.busy <- struct{}{}:
		return func() { <-r.busy }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Drop releases all objects: the next list of each kind is decoded completely. The known revisions stay. The caller
// has the turn.
func (r *Lister) Drop() {
	for _, l := range r.Lists {
		l.Items, l.Wire, l.Sorted, l.Changed = nil, WireDigest{}, true, true
	}
	r.last = &kube.Snapshot{}
}

// Restored makes the next lists consistent and accepts them, however old they are, because etcd was restored. The
// caller has the turn.
func (r *Lister) Restored() {
	for _, l := range r.Lists {
		l.Forget()
	}
	r.noFloorSince = time.Time{} // the unreachable revision belonged to the history before the restore
}

// Probe asks for one object of a list, or for discovery if l is nil. It returns an error if the API server does not
// answer, or answers that it cannot serve: a list would fail as well. It ignores any other problem and leaves it to a
// list.
func (r *Lister) Probe(ctx context.Context, l *List) error {
	verb, resource := "get", api.DiscoveryPath
	var err error
	if l == nil {
		_, err = r.API.ServesRouteGroups(ctx)
	} else {
		verb, resource = "list", l.Name()
		_, err = r.API.Current(ctx, &l.Resource)
	}
	if !api.IsDown(err) {
		return nil
	}
	return &kube.ReadError{Verb: verb, Resource: resource, Err: err}
}
