package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/routesrv/routesrv/kube"
)

const (
	// A kind that is gone is believed to be gone after so many reads in so much time, all of which found that.
	confirmingReads = 3
	confirmingTime  = 10 * time.Second

	// confirmedLoss is the share of its objects that a list may lack before another one has to confirm it. It is the
	// default of the guard's share for routes.
	confirmedLoss = 0.5

	groupsPath = "/apis"
)

// MessageUnconfirmed is logged as a warning when a list lacks objects that a consistent list of the same moment has.
const MessageUnconfirmed = "a list lacked objects that a consistent list has; the API server, or something in front of it, answers wrongly"

// errUnconfirmed says that a kind seems to be gone, and that it is not certain yet.
var errUnconfirmed = errors.New("the cluster does not seem to have RouteGroups any more")

// absence is what speaks for RouteGroups being gone.
type absence struct {
	since time.Time // of the first read that found it; zero: none did
	reads int       // in a row
}

// confirm counts a read that finds no RouteGroups although some are served. It returns nil when enough reads have found
// that for long enough. A 404 is not evidence enough: an API server that has just started, or an aggregated one behind it,
// answers so for a moment. So the list of all groups has to agree with it.
func (s *Source) confirm(ctx context.Context, groupFound bool) error {
	listed, err := s.groupListed(ctx)
	switch {
	case err != nil:
		return &kube.ReadError{Verb: "get", Resource: groupsPath, Err: err}
	case listed != groupFound:
		s.absence = absence{}
		return &kube.ReadError{Verb: "get", Resource: discoveryPath, Err: fail(reasonBody,
			"%w, but %s and %s contradict each other (%s is listed: %t): the old RouteGroups are kept",
			errUnconfirmed, discoveryPath, groupsPath, routeGroupVersion, listed)}
	}
	now := time.Now()
	if s.absence.reads == 0 {
		s.absence.since = now
	}
	s.absence.reads++
	lasted := now.Sub(s.absence.since)
	if s.absence.reads >= confirmingReads && lasted >= confirmingTime {
		return nil
	}
	return &kube.ReadError{Verb: "get", Resource: discoveryPath, Err: fail(reasonNotFound,
		"%w: found by %d reads in %v, and taken for certain after %d reads in %v; until then the old ones are kept",
		errUnconfirmed, s.absence.reads, lasted.Round(time.Millisecond), confirmingReads, confirmingTime)}
}

// groupListed reports whether the list of all API groups has that of RouteGroups.
func (s *Source) groupListed(ctx context.Context) (bool, error) {
	body, err := s.getJSON(ctx, groupsPath)
	if err != nil {
		return false, err
	}
	var list struct {
		Kind   string `json:"kind"`
		Groups []struct {
			Versions []struct {
				GroupVersion string `json:"groupVersion"`
			} `json:"versions"`
		} `json:"groups"`
	}
	if err := json.Unmarshal(body, &list); err != nil {
		return false, fail(reasonBody, "answer to %s: %w", groupsPath, err)
	}
	if list.Kind != "APIGroupList" || len(list.Groups) == 0 {
		return false, fail(reasonBody, "answer to %s: it is a %.40q with %d groups, want an APIGroupList with some",
			groupsPath, list.Kind, len(list.Groups))
	}
	for _, g := range list.Groups {
		for _, v := range g.Versions {
			if v.GroupVersion == routeGroupVersion {
				return true, nil
			}
		}
	}
	return false, nil
}

// confirmLoss makes another, consistent request if the answer lacks so much of what is known that it may be wrong: all
// objects of the kind, or most of them. The second answer counts.
func (s *Source) confirmLoss(ctx context.Context, l *list, a listAnswer, known listState) (listAnswer, error) {
	if !a.suspicious(len(known.items)) {
		return a, nil
	}
	again, err := s.ask(ctx, l, 0, known)
	if err != nil {
		return again, unconfirmedLoss(a.lost, len(known.items), err)
	}
	if again.lost < a.lost {
		s.cfg.Logger.Warn(MessageUnconfirmed, slog.String("kind", string(l.kind)), slog.Int("objects", a.lost-again.lost))
	}
	return again, nil
}

// suspicious reports whether the answer lacks so many of the known objects that it has to be confirmed.
func (a listAnswer) suspicious(known int) bool {
	return a.lost > 0 && (a.lost == known || float64(a.lost) > confirmedLoss*float64(known))
}

func unconfirmedLoss(lost, known int, err error) error {
	return fmt.Errorf("confirm by a consistent list that %d of %d objects are gone: %w", lost, known, err)
}

// lostItems returns how many of the known items are not among others. Both are sorted.
func lostItems(known, others []item) int {
	lost := 0
	for i := range known {
		if _, found := slices.BinarySearchFunc(others, known[i].ref(), func(i item, ref kube.Ref) int {
			return compareKeys(i.ref(), ref)
		}); !found {
			lost++
		}
	}
	return lost
}
