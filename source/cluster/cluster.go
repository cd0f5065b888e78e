// Package cluster reads the Kubernetes API by polling, completely or not at all.
//
// A [Source] lists Ingresses, RouteGroups (if discovery finds them), Services, and EndpointSlices or
// Endpoints. Each read makes one request per kind, one for discovery, and one for a single object, which
// returns the current revision of the cluster. The package uses no paging and compiles nothing. A [Watcher] reads the
// same objects with one watch for each kind. Both build on a lister, which compares each list with the known objects: an
// unchanged object keeps its pointer and is not even decoded.
//
// # Complete
//
// [Source.Read] fails as a whole if any list fails, if discovery answers anything but success or 404, if any body
// ends early, or if an answer is not a list of the kind: the kind, apiVersion and resourceVersion must be right, and
// the items must be present. An object that cannot be decoded affects only itself: it is in the snapshot's Bad.
//
// # Never back in time
//
// The first read is consistent. Each later read first asks for the current revision, with a consistent list of one object. Every
// list then requires a revision no older than that, so that the API server answers from its watch cache and all kinds are
// complete up to one revision. If a server cannot bring its caches up to that revision, the lists only require a revision no
// older than the list itself has seen. If it cannot prove even that, the list is repeated consistently. A consistent list below
// the last seen revision means that etcd was restored: the Source does the whole read again consistently, so that no snapshot
// mixes objects from before and after the restore.
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
// Built-in kinds arrive as protobuf, and any answer may arrive gzipped. Each item of a list is compared with the item of the
// previous read by its SHA-256, and only new items are decoded. A list whose compressed body equals the previous one is not even
// decompressed.
//
// # Caveats
//
// The snapshot's revisions compare the revisions of different kinds, for which Kubernetes uses one counter, unless some kinds are
// stored in a separate etcd. Client-go writes to klog when a token file cannot be read.
//
// Other modules should not import it: it may change with every release.
package cluster

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/routesrv/routesrv/internal/series"
	"github.com/routesrv/routesrv/kube"
)

// Source reads one cluster. It is safe for concurrent use; reads run one after the other.
type Source struct {
	*lister       // only the current read may use it and failed
	failed  *list // the list that made the last read fail; nil means discovery
}

// New checks the configuration and prepares a Source. It reads the files that the configuration names and makes no request.
func New(cfg Config) (*Source, error) {
	l, err := newLister(cfg)
	if err != nil {
		return nil, err
	}
	return &Source{lister: l}, nil
}

// Read lists everything once. The error is a *[kube.ReadError] that names the failed request, or the context's error
// if ctx ended while another Read was running. In both cases the previous snapshot stays valid. If nothing changed,
// Read returns the same objects and slices again and, if the revision is the same, the same snapshot.
func (s *Source) Read(ctx context.Context, o kube.ReadOptions) (*kube.Snapshot, error) {
	release, err := s.acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer release()

	err = s.readAll(ctx, o.Consistent)
	if errors.Is(err, errRestored) {
		s.cfg.Metrics.Restores.Inc()
		s.cfg.Logger.Warn(LogRestored, slog.Any("error", err))
		// Without a known revision, each list is read consistently and accepted, even if the rest of this read fails
		// and the next one continues.
		for _, l := range s.lists {
			l.forget()
		}
		s.noFloorSince = time.Time{} // the unreachable revision belonged to the history before the restore
		err = s.readAll(ctx, true)
	}
	if err != nil {
		return nil, err
	}
	return s.cfg.Filters(s.snapshot()), nil
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
		answer, err := s.askFor(ctx, l, consistent, floor, l.content)
		if s.without(l, err) {
			continue
		}
		if err != nil {
			return err
		}
		l.adopt(answer)
	}
	return nil
}

// Drop releases the objects, for a process that continues without reading. The next [Source.Read] costs as much as
// the first one. Drop waits for a running Read.
func (s *Source) Drop() {
	release, err := s.acquire(context.Background())
	if err != nil {
		return // unreachable: this context never ends
	}
	defer release()
	s.drop()
}

// Probe repeats the request that made the last [Source.Read] fail, for one object only. It returns an error if the
// API server does not answer, or answers that it cannot serve: then a read would fail, too. It leaves any other problem
// to a read. It fails when ctx ends while a Read is running.
func (s *Source) Probe(ctx context.Context) error {
	release, err := s.acquire(ctx)
	if err != nil {
		return err
	}
	defer release()
	return s.probe(ctx, s.failed)
}

// floor asks for the current revision of the cluster, with a consistent list of one object. All lists of the read
// then require a revision no older than that. Otherwise the cache of a kind without changes would stay at an old
// revision. The snapshot, which is complete only up to the oldest of its lists, could then not be ordered against a
// snapshot of another replica.
//
// The result is 0 for no floor: in a consistent read, which needs none, before the first successful read, and while
// the API server cannot honor a floor.
func (s *Source) floor(ctx context.Context, consistent bool) (kube.Revision, error) {
	l := s.lists[0]
	if consistent || l.seen == 0 || s.withoutFloor() {
		return 0, nil
	}
	revision, err := s.api.current(ctx, &l.resource)
	if err != nil {
		s.cfg.Metrics.ReadErrors.WithLabelValues(string(l.Kind), string(reasonOf(err))).Inc()
		return 0, &kube.ReadError{Verb: "list", Resource: l.Name(), Err: err}
	}
	if revision != 0 && revision < l.seen {
		return 0, failf(reasonStale, "%w: %d after %d", errRestored, revision, l.seen)
	}
	return revision, nil
}

// Metrics holds the measurements of reading a cluster. The label kind is the kind that was listed, or "discovery".
type Metrics struct {
	ListDuration   *prometheus.HistogramVec // kind; complete lists only
	ListObjects    *prometheus.GaugeVec     // kind; in the last complete list
	DecodedObjects *prometheus.CounterVec   // kind; objects whose bytes differ from the previous read
	ReadErrors     *prometheus.CounterVec   // kind, reason
	Restores       prometheus.Counter
	WatchRestarts  *prometheus.CounterVec // kind, reason
	WatchConfirmed *prometheus.GaugeVec   // kind
}

// NewMetrics creates the metrics and registers them with reg; with nil it registers them nowhere. It panics if they
// are already registered.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	made := series.In(reg)
	return &Metrics{
		ListDuration: made.Histograms("routesrv_source_list_duration_seconds", "Time from the request of a list to its last decoded object.",
			"kind", prometheus.ExponentialBuckets(0.005, 2, 13)), // 5 ms to 20 s
		ListObjects:    made.Gauges("routesrv_source_list_objects", "Objects in the last complete list, also undecodable ones.", "kind"),
		DecodedObjects: made.Counters("routesrv_source_decoded_objects_total", "Objects decoded because they were new or changed.", "kind"),
		ReadErrors:     made.Counters("routesrv_source_read_errors_total", "Requests that made a read fail.", "kind reason"),
		Restores:       made.Counter("routesrv_source_restores_total", "How often the cluster went back to an older revision."),
		WatchRestarts: made.Counters("routesrv_watch_restarts_total",
			"Watches that ended, and a list followed: ended (as agreed), error, or silent (it missed a change).", "kind reason"),
		WatchConfirmed: made.Gauges("routesrv_watch_confirmed_timestamp_seconds", "When a watched kind was last known to be up to date.", "kind"),
	}
}
