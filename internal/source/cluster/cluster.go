// Package cluster reads the Kubernetes API by polling, completely or not at all.
//
// A [Source] lists Ingresses, RouteGroups (if discovery finds them), Services, EndpointSlices or Endpoints and, if asked,
// Secrets: one request per kind and read, one more for discovery and one for a single object, which tells the revision
// at which the cluster is. It knows no paging and compiles nothing. What it rests on is in the packages below: decode
// makes objects of bytes, api makes the requests, and lister compares the lists with what is known. Package watch reads the
// same by a watch for each kind.
//
// # Complete
//
// [Source.Read] fails as a whole if any list fails, if discovery answers anything but success or 404, if any body ends
// early, or if an answer is not a list of the kind: with its kind, apiVersion and resourceVersion, and with items. An object
// that cannot be decoded is a problem of that object only: it stands in the snapshot's Bad.
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
// # Caveats
//
// The revisions of different kinds are compared with each other for the revisions of the snapshot; Kubernetes counts
// them by one counter unless some kinds live in an etcd of their own. A list that is served from the watch cache has the
// revision of the last write to its kind, so that [kube.Snapshot.Revision], the lowest of all lists, stays behind for as
// long as one kind is not written to; see [kube.Snapshot.Newest].
package cluster

import (
	"context"
	"errors"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/routesrv/routesrv/internal/source/cluster/internal/api"
	"github.com/routesrv/routesrv/internal/source/cluster/internal/lister"
	"github.com/routesrv/routesrv/kube"
)

// Config says which cluster is read, and what of it.
type Config = api.Config

// Metrics is what reading a cluster measures, by polls or by watches.
type Metrics = api.Metrics

// NewMetrics makes the metrics and registers them with reg; nil registers nowhere. It panics if they are registered already.
func NewMetrics(reg prometheus.Registerer) *Metrics { return api.NewMetrics(reg) }

// Source reads one cluster. It is safe for concurrent use; reads run one after the other.
type Source struct {
	lister *lister.Lister // whoever has its turn owns it, and failed
	failed *lister.List   // the one that made the last read fail; nil is discovery
}

// New checks the configuration and prepares a Source. It reads the files that the configuration names and makes no
// request.
func New(cfg Config) (*Source, error) {
	l, err := lister.New(cfg)
	if err != nil {
		return nil, err
	}
	l.Metrics.Reading("poll")
	return &Source{lister: l}, nil
}

// Read lists everything once. The error is a *[kube.ReadError] that names the request which failed, or the context's if
// ctx ended while another Read was running. The snapshot before stays valid either way. When nothing changed, the same
// objects, slices and, if the revision is the same, the same snapshot are returned again.
func (s *Source) Read(ctx context.Context, o kube.ReadOptions) (*kube.Snapshot, error) {
	release, err := s.lister.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer release()

	err = s.readAll(ctx, o.Consistent)
	if errors.Is(err, lister.ErrRestored) {
		s.lister.Metrics.Restores.Inc()
		s.lister.Log.Warn(lister.MessageRestored, slog.Any("error", err))
		// Without a revision to hold on to, each list is read consistently and believed, also if the rest of this read
		// fails and the next one goes on.
		s.lister.Restored()
		err = s.readAll(ctx, true)
	}
	if err != nil {
		return nil, err
	}
	return s.lister.Snapshot(), nil
}

func (s *Source) readAll(ctx context.Context, consistent bool) error {
	s.failed = s.lister.Lists[0]
	floor, err := s.floor(ctx, consistent)
	if err != nil {
		return err
	}
	for _, l := range s.lister.Lists {
		if l == s.lister.RouteGroups {
			s.failed = nil
			found, err := s.lister.Discover(ctx, !l.Absent && len(l.Items) > 0)
			if err != nil {
				return err
			}
			l.SetAbsent(!found)
			if !found {
				continue
			}
		}
		s.failed = l
		if err := s.lister.Read(ctx, l, consistent, floor); err != nil {
			return err
		}
	}
	return nil
}

// Drop lets go of the objects, for a process that goes on without reading. The next [Source.Read] costs what the first did. It waits
// for a Read that is running.
func (s *Source) Drop() {
	release, err := s.lister.Acquire(context.Background())
	if err != nil {
		return // it has no end
	}
	defer release()
	s.lister.Drop()
}

// Probe repeats the request that made the last [Source.Read] fail, for one object only. It returns an error if the API
// server does not answer, or answers that it cannot: a read would fail as well. Anything else is for a read to find out,
// and no error here. It fails when ctx ends while a Read is running.
func (s *Source) Probe(ctx context.Context) error {
	release, err := s.lister.Acquire(ctx)
	if err != nil {
		return err
	}
	defer release()
	return s.lister.Probe(ctx, s.failed)
}
