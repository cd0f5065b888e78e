package publish

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/routesrv/routesrv/guard"
	"github.com/routesrv/routesrv/internal/api"
	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/table"
)

// State is what is held: a table, or kept objects. The zero value means that nothing is or ever was held.
type State struct {
	Held bool
	// Reason and Detail say why; Detail is a sentence with the figures behind Reason. Like all that follows except Last, only if Held.
	Reason guard.Code
	Detail string
	// Since is when the hold started, and ReleaseAt the earliest time at which something can be released; it moves when something comes
	// back. Zero if time does not release it.
	Since, ReleaseAt time.Time
	// Digest names what is held, for an acceptance: the newest held table, or the list of the kept objects.
	Digest table.Digest
	// Revision, Routes and Bytes are those of the newest table, and Polls counts the judgements in this hold.
	Revision uint64
	Routes   int
	Bytes    int
	Polls    int

	Last *api.Decision // the last release or acceptance; nil if there was none
}

// maxKeptShown is how many kept objects a report lists.
const maxKeptShown = 1000

// Report returns the state for a status, with the kept objects if these are what is held.
func (s State) Report(kept []*Kept) api.Guard {
	r := api.Guard{Held: s.Held}
	if s.Held {
		r.Reason, r.Detail = s.Reason, s.Detail
		r.Digest, r.Revision, r.Routes = s.Digest, s.Revision, s.Routes
		r.Since, r.ReleaseAt = s.Since, s.ReleaseAt
		kept = keptList(kept).waiting()
		r.KeptCount = len(kept)
		for _, k := range kept[:min(len(kept), maxKeptShown)] {
			r.Kept = append(r.Kept, api.Kept{
				Ref: k.Ref, Reason: k.Reason, Detail: k.Detail, By: k.By, Since: k.Since, Until: k.Until, Served: k.Served(), Waits: k.Waits(),
			})
		}
	}
	if l := s.Last; l != nil {
		r.Last = &api.Release{Digest: l.Digest.String(), Reason: l.Reason, At: l.Time, Accepted: l.What == api.DecidedAccepted, By: l.By, Why: l.Why}
	}
	return r
}

// Errors of an acceptance. ErrNoDigest and ErrNotHeld come in a *HeldError.
var (
	ErrNothingHeld = errors.New("no table is held")
	ErrNoDigest    = errors.New("say which table you accept, by its digest")
	ErrNotHeld     = errors.New("another table is held")
	ErrNotKept     = errors.New("no such object is kept")
)

// HeldError says why an acceptance was refused while something is held, and what that is.
type HeldError struct {
	Err    error // ErrNoDigest or ErrNotHeld
	Digest table.Digest
	Reason guard.Code
}

// Error implements error.
func (e *HeldError) Error() string {
	if errors.Is(e.Err, ErrNoDigest) {
		return fmt.Sprintf("%v; held is %s", e.Err, e.Digest)
	}
	return fmt.Sprintf("%v: %s", e.Err, e.Digest)
}

// Unwrap returns Err.
func (e *HeldError) Unwrap() error { return e.Err }

// Acceptance is the decision of an operator to publish what is held.
type Acceptance struct {
	// Digest names it. It is required, because something else may be held since the operator looked at it.
	Digest table.Digest
	// By and Why say who decided and for what reason, in the operator's words; both may be empty. They are only stored.
	By, Why string

	// Namespaces and Objects limit an acceptance of kept objects to some of these. Both empty mean all. A held table ignores them.
	Namespaces []string
	Objects    []kube.Ref
}

// Accepts reports whether an acceptance of kept objects concerns one of them.
func (a *Acceptance) Accepts(ref kube.Ref) bool {
	return len(a.Namespaces)+len(a.Objects) == 0 || slices.Contains(a.Namespaces, ref.Namespace) || slices.Contains(a.Objects, ref)
}
