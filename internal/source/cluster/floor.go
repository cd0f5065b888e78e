package cluster

import (
	"context"

	"github.com/routesrv/routesrv/internal/source/cluster/internal/api"
	"github.com/routesrv/routesrv/internal/source/cluster/internal/lister"
	"github.com/routesrv/routesrv/kube"
)

// floor asks for the current revision of the cluster, with a consistent list of one object. All lists of the read
// then require a revision no older than that. Otherwise the cache of a kind without changes would stay at an old
// revision. The snapshot, which is complete only up to the oldest of its lists, could then not be ordered against a
// snapshot of another replica.
//
// The result is 0 for no floor: in a consistent read, which needs none, before the first successful read, and while
// the API server cannot honor a floor.
func (s *Source) floor(ctx context.Context, consistent bool) (kube.Revision, error) {
	l := s.lister.Lists[0]
	if consistent || l.Seen == 0 || s.lister.WithoutFloor() {
		return 0, nil
	}
	revision, err := s.lister.API.Current(ctx, &l.Resource)
	if err != nil {
		s.lister.Metrics.ReadErrors.WithLabelValues(string(l.Kind), string(api.ReasonOf(err))).Inc()
		return 0, &kube.ReadError{Verb: "list", Resource: l.Name(), Err: err}
	}
	if revision != 0 && revision < l.Seen {
		return 0, api.Errorf(api.ReasonStale, "%w: %d after %d", lister.ErrRestored, revision, l.Seen)
	}
	return revision, nil
}
