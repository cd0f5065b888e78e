// Package validate checks the record of a robustness run against the guarantees. There is one validator for each guarantee, a
// pure function of the history. docs/internals/guarantees.md describes the guarantees and their tests.
//
// # The oracle
//
// A table is compared with what package compile produces from the recorded changes, for each object separately, so that the
// oracle shares no caches with the servers. A read has a list for each kind, each with its own revision, so usually several
// tables are correct. Certain is: with an ETag of revision R, a table has nothing from after R, and no list of its read is older
// than the beginning of that read. An object that did not change in between must have exactly its routes; a changed one must have
// those of one of its states; no other routes may exist ([Index.judge]). While a server reports that it holds intent back, intent
// may be as old as the previous table. If its log says that it keeps objects, that is so only for those that lost requests: the others
// must be as new as the read.
//
// # What it does not check
//
// The oracle supports only the flags in [history.Options]. If two objects want the same id, or share the catch-all of a host, it
// accepts any of their routes, or none. It does not demand what a fault makes impossible: the time limits of a server restart
// when the fault on its connections has ended.
package validate

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/routesrv/routesrv/test/robustness/history"
)

// Violation is a breach of a guarantee.
type Violation struct {
	// Validator is the name of the guarantee.
	Validator string `json:"validator"`
	// At is when it became visible: the end of the answer, as an offset from the start of the run.
	At time.Duration `json:"at"`
	// Member is the client that received it, or else the process that caused it.
	Member string `json:"member"`
	// Index is the index of the answer in History.Answers; -1 if the violation is not about a single answer.
	Index int `json:"index"`
	// Text describes the violation, with digest, revision and object if there are any.
	Text string `json:"text"`
}

// String returns the violation on one line.
func (v Violation) String() string {
	return fmt.Sprintf("%s: %v %s: %s", v.Validator, v.At.Round(time.Millisecond), v.Member, v.Text)
}

// Names of the validators, which are those of the guarantees in DESIGN.md.
const (
	NameComplete      = "Complete"
	NameMonotonic     = "Monotonic"
	NameAtomic        = "Atomic"
	NameConvergent    = "Convergent"
	NameDeltaEqual    = "DeltaEqual"
	NameLastKnownGood = "Last known good"
	NameGuarded       = "Guarded"
	NameIsolated      = "Isolated"
	NameQuiet         = "Quiet"
	NameBounded       = "Bounded"
	NameLive          = "Live"
	NameReviewed      = "Reviewed"
	NameProven        = "Proven"
	NameCanaryFirst   = "Canary first"
)

// Validator checks one of the guarantees.
type Validator struct {
	Name string
	// Check returns the violations, ordered by time; nil if the history keeps the guarantee.
	Check func(*history.History) []Violation

	check func(*Index) []Violation
}

// Validators returns all validators, in the order of DESIGN.md.
func Validators() []Validator {
	all := []Validator{
		{Name: NameComplete, Check: Complete, check: (*Index).complete},
		{Name: NameMonotonic, Check: Monotonic, check: (*Index).monotonic},
		{Name: NameAtomic, Check: Atomic, check: (*Index).atomic},
		{Name: NameConvergent, Check: Convergent, check: (*Index).convergent},
		{Name: NameDeltaEqual, Check: DeltaEqual, check: (*Index).deltaEqual},
		{Name: NameLastKnownGood, Check: LastKnownGood, check: (*Index).lastKnownGood},
		{Name: NameGuarded, Check: Guarded, check: (*Index).guarded},
		{Name: NameIsolated, Check: Isolated, check: (*Index).isolated},
		{Name: NameQuiet, Check: Quiet, check: (*Index).quiet},
		{Name: NameBounded, Check: Bounded, check: (*Index).bounded},
		{Name: NameLive, Check: Live, check: (*Index).live},
		{Name: NameReviewed, Check: Reviewed, check: (*Index).reviewed},
		{Name: NameProven, Check: Proven, check: (*Index).proven},
		{Name: NameCanaryFirst, Check: CanaryFirst, check: (*Index).canaryFirst},
	}
	return all
}

// Coverage says how much a history proves. In a storm of faults and changes many objects may have several states during a read,
// and any of them is accepted.
type Coverage struct {
	Tables  int `json:"tables"`  // judgements of a table; one with several possible origins is judged for each
	Routes  int `json:"routes"`  // routes judged in them
	Certain int `json:"certain"` // routes with only one possible text
}

// Report is the result of the validators for a history.
type Report struct {
	Violations []Violation `json:"violations"` // of all guarantees, ordered by time
	Coverage   Coverage    `json:"coverage"`
}

// Examine runs all validators. It is cheaper than running them one by one.
func Examine(h *history.History) Report {
	x := NewIndex(h)
	var r Report
	for _, v := range Validators() {
		r.Violations = append(r.Violations, x.limited(v.check(x))...)
	}
	sortByTime(r.Violations)
	r.Coverage = x.coverage
	return r
}

// All returns the violations of all guarantees, ordered by time.
func All(h *history.History) []Violation { return Examine(h).Violations }

// maxOfOne limits the violations of one validator: a broken run has as many as answers.
const maxOfOne = 100

func (x *Index) limited(found []Violation) []Violation {
	sortByTime(found)
	return found[:min(len(found), maxOfOne)]
}

func sortByTime(all []Violation) {
	slices.SortStableFunc(all, func(a, b Violation) int { return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.Index, b.Index)) })
}

// alone runs one validator on a history.
func alone(h *history.History, check func(*Index) []Violation) []Violation {
	x := NewIndex(h)
	return x.limited(check(x))
}
