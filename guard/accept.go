package guard

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/table"
)

// Errors of Accept. The last two come in a *HeldError.
var (
	ErrNothingHeld = errors.New("no table is held")
	ErrNoDigest    = errors.New("say which table you accept, by its digest")
	ErrNotHeld     = errors.New("another table is held")
)

// HeldError says why an acceptance was refused while a table is held, and which table that is.
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

// Acceptance is the decision of an operator to publish a held table.
type Acceptance struct {
	// Digest names the table. It is required, because the held table may have changed since the operator looked at it.
	Digest table.Digest
	// By and Why say who decided and for what reason, in the operator's words; both may be empty. The Guard only stores them.
	By, Why string

	// Namespaces and Objects limit an acceptance of kept objects to some of these. Both empty mean all. A Guard, which knows only
	// tables, ignores them.
	Namespaces []string
	Objects    []kube.Ref
}

// Accepts reports whether an acceptance of kept objects concerns one of them.
func (a *Acceptance) Accepts(ref kube.Ref) bool {
	return len(a.Namespaces)+len(a.Objects) == 0 || slices.Contains(a.Namespaces, ref.Namespace) || slices.Contains(a.Objects, ref)
}

// Accept releases the held table at once, if the acceptance names it, and returns it for the caller to publish. If a read is
// being judged at that time, Judge publishes the same content. The error is ErrNothingHeld, or a *HeldError that wraps
// ErrNoDigest or ErrNotHeld.
func (g *Guard) Accept(a Acceptance, now time.Time) (*table.Table, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.hold == nil || g.hold.table == nil {
		return nil, ErrNothingHeld
	}
	refused := HeldError{Digest: g.hold.table.Digest(), Reason: g.hold.verdict.Reason}
	switch {
	case a.Digest.IsZero():
		refused.Err = ErrNoDigest
		return nil, &refused
	case a.Digest != g.hold.table.Digest():
		refused.Err = ErrNotHeld
		return nil, &refused
	}
	t := g.hold.table
	g.accepted = t.Digest()
	g.release(now, &a)
	return t, nil
}
