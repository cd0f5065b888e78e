// Package cluster reads the Kubernetes API, completely or not at all.
//
// A [Source] lists Ingresses, RouteGroups (if discovery finds them), Services, EndpointSlices or Endpoints and, if asked,
// Secrets: one request per kind and read, one more for discovery and one for a single object, which tells the revision
// at which the cluster is. A [Watcher] reads the same by a watch for each kind. Neither knows paging or compiles anything.
// What follows is about lists; for watches see there.
//
// # Complete
//
// [Source.Read] fails as a whole if any list fails, if discovery answers anything but success or 404, if any body ends
// early, or if an answer is not a list of the kind: with its kind, apiVersion and resourceVersion, and with items. An object
// that cannot be decoded is a problem of that object only: it stands in the snapshot's Bad.
//
// # Confirmed
//
// What was there does not disappear because of one answer. RouteGroups that discovery does not find any more are gone
// after three reads in ten seconds that found the same, with a list of API groups that agrees; until then reads fail. A
// list without all known objects of a kind, or without more than half of them, is repeated consistently at once, and the
// second answer counts.
//
// # Never back in time
//
// The first read is a consistent one. Later ones begin by asking for the current revision, with a consistent list of one
// object, and every list then asks for what is not older than that, so that the API server answers from its watch cache
// and all kinds are known to be complete up to one revision. A server that cannot bring its caches there is asked for
// what is not older than the list itself has seen. Where it cannot prove even that (410, or a resourceVersion that is
// too large for it) the list is repeated consistently, at once and once. A consistent list below the revision seen last
// means that etcd was restored: that is believed, logged and counted, and the whole read is done again consistently, so
// that no snapshot mixes what was before the restore with what came after.
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
//
// # Caveats
//
// The revisions of different kinds are compared with each other for the revisions of the snapshot; Kubernetes counts
// them by one counter unless some kinds live in an etcd of their own. A list that is served from the watch cache has the
// revision of the last write to its kind, so that [kube.Snapshot.Revision], the lowest of all lists, stays behind for as
// long as one kind is not written to; see [kube.Snapshot.Newest].
//
// Lists are asked for over HTTP/1.1 and read with pauses of some milliseconds, both of which cost less; watches share a
// connection of HTTP/2 if the server has it.
// client-go writes to klog when a token file cannot be read.
package cluster

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"time"

	"github.com/routesrv/routesrv/kube"
)

// MessageNoCRD is logged as a warning when the RouteGroup API is not there, once until it has been seen again.
const MessageNoCRD = "RouteGroups CRD is not installed in the cluster.\n" +
	"See: https://opensource.zalando.com/skipper/kubernetes/routegroups/#installation"

// MessageRestored is logged as a warning when the API goes back in time: its etcd was restored from a backup.
const MessageRestored = "cluster went back to an older revision; reading everything again"

// Source reads one cluster. It is safe for concurrent use; reads run one after the other.
type Source struct {
	// set by New, read only
	cfg     Config
	client  *http.Client
	base    *url.URL
	metrics *Metrics

	busy chan struct{} // capacity 1: who has put a value in owns what follows

	lists       []*list // in the order of the requests
	routeGroups *list   // one of them: the one that depends on discovery
	warnedNoCRD bool
	absence     absence // of RouteGroups, while it is not certain
	failed      *list   // the one that made the last read fail; nil is discovery
	// noFloorSince is when the API server last could not bring a cache up to the floor; zero: never.
	noFloorSince time.Time
	bodies       bodies
	last         *kube.Snapshot
}

// New checks the configuration and prepares a Source. It reads the files that the configuration names and makes no
// request.
func New(cfg Config) (*Source, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	client, base, err := cfg.connect(true)
	if err != nil {
		return nil, err
	}
	s := &Source{
		cfg: cfg, client: client, base: base, metrics: cfg.Metrics,
		busy: make(chan struct{}, 1),
		last: &kube.Snapshot{},
	}
	s.cfg.Logger = cfg.Logger.With("component", "source.cluster")
	s.metrics.reading("poll")
	hash, err := newHasher()
	if err != nil {
		return nil, err
	}
	for _, r := range resources {
		if !r.wanted(&cfg) {
			continue
		}
		l := newList(r, &cfg, hash)
		if r.kind == kube.KindRouteGroup {
			s.routeGroups = l
		}
		s.lists = append(s.lists, l)
	}
	return s, nil
}

// Read lists everything once. The error is a *[kube.ReadError] that names the request which failed, or the context's if
// ctx ended while another Read was running. The snapshot before stays valid either way. When nothing changed, the same
// objects, slices and, if the revision is the same, the same snapshot are returned again.
func (s *Source) Read(ctx context.Context, o kube.ReadOptions) (*kube.Snapshot, error) {
	select {
	case s.busy <- struct{}{}:
		defer func() { <-s.busy }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}

	err := s.readAll(ctx, o.Consistent)
	if errors.Is(err, errRestored) {
		s.metrics.Restores.Inc()
		s.cfg.Logger.Warn(MessageRestored, slog.Any("error", err))
		// Without a revision to hold on to, each list is read consistently and believed, also if the rest of this read
		// fails and the next one goes on.
		for _, l := range s.lists {
			l.forget()
		}
		s.noFloorSince = time.Time{} // what the server could not reach was the future of another history
		err = s.readAll(ctx, true)
	}
	if err != nil {
		return nil, err
	}
	return s.snapshot(), nil
}

func (s *Source) readAll(ctx context.Context, consistent bool) error {
	s.failed = s.lists[0]
	floor, err := s.floor(ctx, consistent)
	if err != nil {
		return err
	}
	for _, l := range s.lists {
		if l == s.routeGroups {
			s.failed = nil
			found, err := s.discover(ctx, !l.absent && len(l.items) > 0)
			if err != nil {
				return err
			}
			l.setAbsent(!found)
			if !found {
				continue
			}
		}
		s.failed = l
		if err := s.readList(ctx, l, consistent, floor); err != nil {
			return err
		}
	}
	return nil
}

// snapshot puts together what the lists hold, with the slices of the snapshot before where nothing changed.
func (s *Source) snapshot() *kube.Snapshot {
	snap := *s.last
	snap.Revision, snap.Newest = s.revisions()
	changed := false
	for _, l := range s.lists {
		if !l.changed {
			continue
		}
		changed, l.changed = true, false
		switch l.kind {
		case kube.KindIngress:
			snap.Ingresses = collect[*kube.Ingress](l)
		case kube.KindRouteGroup:
			snap.RouteGroups = collect[*kube.RouteGroup](l)
		case kube.KindService:
			snap.Services = collect[*kube.Service](l)
		case kube.KindEndpoints:
			snap.Endpoints = collect[*kube.Endpoints](l)
		case kube.KindEndpointSlice:
			snap.EndpointSlices = collect[*kube.EndpointSlice](l)
		case kube.KindSecret:
			snap.Secrets = collect[*kube.Secret](l)
		}
	}
	if !changed && snap.Revision == s.last.Revision && snap.Newest == s.last.Newest {
		return s.last
	}
	if changed {
		snap.Bad = nil
		for _, l := range s.lists {
			snap.Bad = l.appendBad(snap.Bad)
		}
	}
	s.last = &snap
	return s.last
}

// revisions are the lowest and the highest of the lists that were made. Both are 0 if one does not know its own.
func (s *Source) revisions() (lowest, highest kube.Revision) {
	first := true
	for _, l := range s.lists {
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
