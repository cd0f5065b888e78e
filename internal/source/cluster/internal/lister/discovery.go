package lister

import (
	"context"
	"errors"
	"time"

	"github.com/routesrv/routesrv/internal/source/cluster/internal/api"
	"github.com/routesrv/routesrv/kube"
)

// RouteGroups count as removed once this many reads over this much time have all found none.
const (
	confirmingReads = 3
	confirmingTime  = 10 * time.Second
)

// LogNoCRD is logged as a warning when the RouteGroup API is missing, once until it has been seen again.
const LogNoCRD = "RouteGroups CRD is not installed in the cluster.\n" +
	"See: https://opensource.zalando.com/skipper/kubernetes/routegroups/#installation"

// errUnconfirmed reports that RouteGroups seem to have been removed, but that this is not confirmed yet.
var errUnconfirmed = errors.New("the cluster does not seem to have RouteGroups any more")

// absence is the evidence that RouteGroups were removed.
type absence struct {
	since time.Time // time of the first read that found none; zero: no such read
	reads int       // consecutive
}

// confirm counts a read that finds no RouteGroups although some are served. It returns nil when enough reads have
// found none for long enough. A 404 alone is not enough evidence: an API server that has just started, or an
// aggregated one behind it, returns it for a moment. So the list of all groups has to agree as well.
func (r *Lister) confirm(ctx context.Context, groupFound bool) error {
	listed, err := r.API.ListsRouteGroups(ctx)
	switch {
	case err != nil:
		return &kube.ReadError{Verb: "get", Resource: api.GroupsPath, Err: err}
	case listed != groupFound:
		r.absence = absence{}
		return &kube.ReadError{Verb: "get", Resource: api.DiscoveryPath, Err: api.Errorf(api.ReasonBody,
			"%w, but %s and %s contradict each other (%s is listed: %t): the old RouteGroups are kept",
			errUnconfirmed, api.DiscoveryPath, api.GroupsPath, api.RouteGroupVersion, listed)}
	}
	now := time.Now()
	if r.absence.reads == 0 {
		r.absence.since = now
	}
	r.absence.reads++
	lasted := now.Sub(r.absence.since)
	if r.absence.reads >= confirmingReads && lasted >= confirmingTime {
		return nil
	}
	return &kube.ReadError{Verb: "get", Resource: api.DiscoveryPath, Err: api.Errorf(api.ReasonNotFound,
		"%w: found by %d reads in %v, and taken for certain after %d reads in %v; until then the old ones are kept",
		errUnconfirmed, r.absence.reads, lasted.Round(time.Millisecond), confirmingReads, confirmingTime)}
}

// Discover reports whether the cluster has RouteGroups. If some are served, it takes several calls before it reports
// that none exist any longer; until then it fails.
func (r *Lister) Discover(ctx context.Context, served bool) (bool, error) {
	found, err := r.API.ServesRouteGroups(ctx)
	missing := api.IsNotFound(err)
	if missing {
		err = nil
	}
	if err != nil {
		err = &kube.ReadError{Verb: "get", Resource: api.DiscoveryPath, Err: err}
	} else if !found && served {
		err = r.confirm(ctx, !missing)
	}
	if err != nil {
		r.Metrics.ReadErrors.WithLabelValues("discovery", string(api.ReasonOf(err))).Inc()
		return false, err
	}
	r.absence = absence{}
	if missing && !r.warnedNoCRD {
		r.Log.Warn(LogNoCRD)
	}
	if found || missing {
		r.warnedNoCRD = missing
	}
	return found, nil
}
