package publish

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/routesrv/routesrv/api"
	"github.com/routesrv/routesrv/guard"
	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/table"
)

// Candidate is a table that a producer offers, with what the producer knows about it. Everything it refers to is read-only.
type Candidate struct {
	Table *table.Table
	// Read is the read of the source, or the answer of a server, that showed the table.
	Read table.Read
	// Snapshot is what the table was compiled from; nil where only tables are known.
	Snapshot *kube.Snapshot
	// Origin is where the table comes from, as recorded in the last-known-good file.
	Origin string

	// Only for a table that a server sent:

	// Names are the ETags of the table, the server's first; empty if it has none.
	Names []string
	// Sent is the digest of the text as the server sent it. It equals the digest of Table unless the text was not canonical.
	Sent table.Digest
	// State is the X-Table-State of the answer; empty for a table that is neither stale nor held.
	State string
}

// Served is the served candidate. It is immutable: an answer that confirms it creates a new one.
type Served struct {
	Candidate
	// Committed is when this process began to serve the table. Confirmed is when a read last showed it; zero if none has.
	Committed, Confirmed time.Time
	// Initialized is when a table that a read had shown was first served, and Updated when the served table last changed;
	// zero if never.
	Initialized, Updated time.Time
	// Stale means that the table comes from the last-known-good file and no read has shown it yet.
	Stale bool
}

// Tables is the served table and the held one at one moment; nil if there is none.
type Tables struct {
	Served *Served
	Held   *Candidate
}

// Result is the result of an offer.
type Result int

// The results.
const (
	Published Result = iota // the table is now served
	Unchanged               // the table was already served
	Held                    // the table is held back
	Overtaken               // no effect: an acceptance or another offer came after the producer had asked
)

// Outcome is the result of an offer, with the reason.
type Outcome struct {
	Result Result
	// Before is the table served before; nil if there was none.
	Before *table.Table
	// Now is the table served now; nil if there is none. It can be new even while objects are kept.
	Now *table.Table
}

// Holding is what is held: a table, or kept objects. The zero value means that nothing is or ever was held.
type Holding struct {
	api.Guard
	Lost Lost
}

// Lost counts the hosts that were lost within the window of the guard, and published. The zero value means no loss worth a
// warning.
type Lost struct {
	Hosts, Of int
	Since     time.Time
}

// WarnLost is the share of hosts whose loss is worth a warning.
const WarnLost = 0.02

// Share returns the share of the hosts that were lost.
func (l Lost) Share() float64 {
	if l.Of == 0 {
		return 0
	}
	return float64(l.Hosts) / float64(l.Of)
}

// maxKeptShown is how many kept objects a state lists.
const maxKeptShown = 1000

// Errors of an acceptance. ErrNoDigest and ErrNotHeld come in a *HeldError.
var (
	ErrNothingHeld = errors.New("no table is held")
	ErrNoDigest    = errors.New("say which table you accept, by its digest")
	ErrNotHeld     = errors.New("another table is held")
	ErrNotKept     = errors.New("no such object is kept")
)

// HeldError explains why an acceptance was refused, and describes what is held.
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
	// Digest names it. It is required because the held content may have changed since the operator looked at it.
	Digest table.Digest
	// By and Why record who decided, and the reason, in the operator's words; both may be empty. They are only stored.
	By, Why string

	// Namespaces and Objects limit an acceptance of kept objects to some of these. Both empty mean all. A held table ignores them.
	Namespaces []string
	Objects    []kube.Ref
}

// Accepts reports whether an acceptance of kept objects covers one of them.
func (a *Acceptance) Accepts(ref kube.Ref) bool {
	return len(a.Namespaces)+len(a.Objects) == 0 || slices.Contains(a.Namespaces, ref.Namespace) || slices.Contains(a.Objects, ref)
}
