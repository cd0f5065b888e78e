package lister

import (
	"context"
	"errors"
	"time"

	"github.com/routesrv/routesrv/internal/source/cluster/internal/api"
	"github.com/routesrv/routesrv/kube"
)

// A kind that is gone is believed to be gone after so many reads in so much time, all of which found that.
const (
	ConfirmingReads = 3
	ConfirmingTime  = 10 * time.Second
)

// MessageNoCRD is logged as a warning when the RouteGroup API is not there, once until it has been seen again.
const MessageNoCRD = "RouteGroups CRD is not installed in the cluster.\n" +
	"See: https://opensource.zalando.com/skipper/kubernetes/routegroups/#installation"

// ErrUnconfirmed says that a kind seems to be gone, and that it is not certain yet.
var ErrUnconfirmed = errors.New("the cluster does not seem to have RouteGroups any more")

// absence is what speaks for RouteGroups being gone.
type absence struct {
	since time.Time // of the first read that found it; zero: none did
	reads int       // in a row
}

// confirm counts a read that finds no RouteGroups although some are served. It returns nil when enough reads have found
// that for long enough. A 404 is not evidence enough: an API server that has just started, or an aggregated one behind it,
// answers so for a moment. So the list of all groups has to agree with it.
func (r *Lister) confirm(ctx context.Context, groupFound bool) error {
	listed, err := r.API.ListsRouteGroups(ctx)
	switch {
	case err != nil:
		return &kube.ReadError{Verb: "get", Resource: api.GroupsPath, Err: err}
	case listed != groupFound:
		r.absence = absence{}
		return &kube.ReadError{Verb: "get", Resource: api.DiscoveryPath, Err: api.Errorf(api.ReasonBody,
			"%w, but %s and %s contradict each other (%s is listed: %t): the old RouteGroups are kept",
			ErrUnconfirmed, api.DiscoveryPath, api.GroupsPath, api.RouteGroupVersion, listed)}
	}
	now := time.Now()
	if r.absence.reads == 0 {
		r.absence.since = now
	}
	r.absence.reads++
	lasted := now.Sub(r.absence.since)
	if r.absence.reads >= ConfirmingReads && lasted >= ConfirmingTime {
		return nil
	}
	return &kube.ReadError{Verb: "get", Resource: api.DiscoveryPath, Err: api.Errorf(api.ReasonNotFound,
		"%w: found by %d reads in %v, and taken for certain after %d reads in %v; until then the old ones are kept",
		ErrUnconfirmed, r.absence.reads, lasted.Round(time.Millisecond), ConfirmingReads, ConfirmingTime)}
}

// Discover reports whether the cluster has RouteGroups. If some are served it takes several calls until it reports that
// there are none any more; until then it fails.
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
		r.Log.Warn(MessageNoCRD)
	}
	if found || missing {
		r.warnedNoCRD = missing
	}
	return found, nil
}
