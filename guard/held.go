package guard

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/table"
)

// The words about what waits, for those who hold it and those who show it.

// Verdict says why something is held.
type Verdict struct {
	Reason Code
	// Detail is a sentence with the figures behind Reason.
	Detail string
	// Since is when the hold started.
	Since time.Time
	// ReleaseAt is the earliest time at which the hold can be released; it moves when something comes back. Zero if time does not
	// release it.
	ReleaseAt time.Time
}

// Release records how a held table, or kept objects, were released.
type Release struct {
	Digest   table.Digest // of the table that was published then
	Reason   Code
	Since    time.Time // when the hold started
	At       time.Time
	Accepted bool // by an operator; otherwise by time
	// By and Why are copied from the acceptance; empty if the operator gave none.
	By, Why string
}

// State is what is held: a table, or kept objects. The zero value means that nothing is or ever was held.
type State struct {
	Held    bool
	Verdict Verdict // only if Held
	// Digest names what is held, for an acceptance: the newest held table, or the list of the kept objects. Only if Held.
	Digest table.Digest
	// Revision, Routes and Bytes are those of the newest table, and Polls counts the judgements in this hold. Only if Held.
	Revision uint64
	Routes   int
	Bytes    int
	Polls    int
	Last     *Release // the last release; nil if there was none
}

// Errors of an acceptance. The last two come in a *HeldError.
var (
	ErrNothingHeld = errors.New("no table is held")
	ErrNoDigest    = errors.New("say which table you accept, by its digest")
	ErrNotHeld     = errors.New("another table is held")
)

// HeldError says why an acceptance was refused while something is held, and what that is.
type HeldError struct {
	Err    error // ErrNoDigest or ErrNotHeld
	Digest table.Digest
	Reason Code
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
