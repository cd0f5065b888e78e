// Package lister lists what is read of a cluster, and compares each answer with what it knows: an object that did not change
// keeps its pointer and is not even decoded. Polling and watching both rest on it.
//
// # Confirmed
//
// What was there does not disappear because of one answer. RouteGroups that discovery does not find any more are gone
// after three reads in ten seconds that found the same, with a list of API groups that agrees; until then reads fail. A
// list without all known objects of a kind, or without more than half of them, is repeated consistently at once, and the
// second answer counts.
//
// # Cheap when nothing changed
//
// Built-in kinds come as protobuf, everything may come gzipped. Each item of a list is compared with the item of the
// read before by its digest, and only what is new is decoded; what was seen keeps its pointer. Objects are written by many
// hands, and whoever could make two versions of one collide could hide the second; so the digest is a universal hash with
// a key that nobody knows (GMAC), against which there is no better way than luck. A list whose compressed body is that of
// the read before, by its SHA-256, is not even inflated.
//
// No body is in memory as a whole but in its compressed form, which is a fifteenth of it: items are hashed in a window
// that moves over the body while it is inflated. The memory of both is kept from read to read, so that an unchanged list
// costs a fixed number of allocations, however many objects it has; crypto/tls adds one for each record.
package lister

import (
	"context"
	"log/slog"
	"time"

	"github.com/routesrv/routesrv/internal/source/cluster/internal/api"
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
	RouteGroups *List   // one of them: the one that depends on discovery

	busy        chan struct{} // capacity 1: who has put a value in makes requests
	warnedNoCRD bool
	absence     absence // of RouteGroups, while it is not certain
	// noFloorSince is when the API server last could not bring a cache up to the floor; zero: never.
	noFloorSince time.Time
	last         *kube.Snapshot
}

// New checks the configuration and prepares a Lister. It reads the files that the configuration names and makes no
// request.
func New(cfg api.Config) (*Lister, error) {
	cfg, err := cfg.WithDefaults()
	if err != nil {
		return nil, err
	}
	cfg.Logger = cfg.Logger.With("component", "source.cluster")
	client, err := api.NewClient(cfg)
	if err != nil {
		return nil, err
	}
	hash, err := newHasher()
	if err != nil {
		return nil, err
	}
	r := &Lister{
		Config: cfg, API: client, Metrics: cfg.Metrics, Log: cfg.Logger,
		busy: make(chan struct{}, 1), last: &kube.Snapshot{},
	}
	for _, resource := range cfg.Resources() {
		l := &List{Resource: resource, hash: hash, State: State{Sorted: true}}
		if l.Kind == kube.KindRouteGroup {
			r.RouteGroups = l
		}
		r.Lists = append(r.Lists, l)
	}
	return r, nil
}

// Acquire waits for the turn to make requests for lists, which share their memory: one at a time, so that a restart of the
// API server does not meet them all at once. The caller calls release when it is done. The error is that of ctx.
func (r *Lister) Acquire(ctx context.Context) (release func(), err error) {
	select {
	case r.busy <- struct{}{}:
		return func() { <-r.busy }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Drop lets go of all objects: the next list of each kind is decoded as a whole. What is known of revisions stays. The caller has the
// turn.
func (r *Lister) Drop() {
	for _, l := range r.Lists {
		l.Items, l.Wire, l.Sorted, l.Changed = nil, Digest{}, true, true
	}
	r.last = &kube.Snapshot{}
}

// Restored makes the next lists consistent ones that are believed, however old they are: etcd was restored. The caller has
// the turn.
func (r *Lister) Restored() {
	for _, l := range r.Lists {
		l.Forget()
	}
	r.noFloorSince = time.Time{} // what the server could not reach was the future of another history
}

// Probe asks for one object of a list, or for discovery if l is nil. It returns an error if the API server does not answer, or
// answers that it cannot: a list would fail as well. Anything else is for a list to find out, and no error here.
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
