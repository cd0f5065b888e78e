// Package validate holds what a robustness run recorded against the guarantees: one validator for each, a pure function of
// the history. What is promised, and by what it is held, is in docs/guarantees.md.
//
// # The oracle
//
// A table is compared with what package compile makes of the recorded changes, object by object and each alone, so that nothing
// of what the servers remember from one read to the next is in the oracle. A read has a list for each kind, each of a
// revision of its own, so there is mostly not one table that is right. What is certain is this: with an ETag of revision R,
// a table has nothing from after R, and no list of its read is older than the beginning of that read. An object that did not
// change in between must have exactly its routes; one that did must have those of one of its states; nothing else may be
// there ([Index.judge]). While a server says that it holds intent back, intent may be as old as the last table before.
//
// # What is not judged
//
// The oracle knows the flags in [history.Options] and no others. Where two objects want one id, or share the catch-all of a
// host, any of their routes will do, or none. What a fault makes impossible is not asked for: the time limits of a server
// begin anew when the fault on its connections has ended.
package validate

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/routesrv/routesrv/robustness/history"
)

// Violation is one thing that a guarantee rules out.
type Violation struct {
	// Validator is the name of the guarantee.
	Validator string `json:"validator"`
	// At is when it showed: the end of the answer, as an offset from the start of the run.
	At time.Duration `json:"at"`
	// Member is the client that received it, or the process that is to blame where no client is.
	Member string `json:"member"`
	// Index is that of the answer in History.Answers; -1 if it is about no single answer.
	Index int `json:"index"`
	// Text says what is wrong, with digest, revision and object where there are any.
	Text string `json:"text"`
}

// String gives the violation on one line.
func (v Violation) String() string {
	return fmt.Sprintf("%s: %v %s: %s", v.Validator, v.At.Round(time.Millisecond), v.Member, v.Text)
}

// Names of the validators, which are those of the guarantees in DESIGN.md.
const (
	NameComplete   = "Complete"
	NameMonotonic  = "Monotonic"
	NameAtomic     = "Atomic"
	NameConvergent = "Convergent"
	NameDeltaEqual = "DeltaEqual"
	NameLKG        = "LKG"
	NameGuarded    = "Guarded"
	NameIsolated   = "Isolated"
	NameQuiet      = "Quiet"
	NameBounded    = "Bounded"
	NameLive       = "Live"
)

// Validator is one of the guarantees.
type Validator struct {
	Name string
	// Check gives what violates it, in order of time. It is nil for a history that keeps the guarantee.
	Check func(*history.History) []Violation

	check func(*Index) []Violation
}

// Validators lists all, in the order of DESIGN.md.
func Validators() []Validator {
	all := []Validator{
		{Name: NameComplete, Check: Complete, check: (*Index).complete},
		{Name: NameMonotonic, Check: Monotonic, check: (*Index).monotonic},
		{Name: NameAtomic, Check: Atomic, check: (*Index).atomic},
		{Name: NameConvergent, Check: Convergent, check: (*Index).convergent},
		{Name: NameDeltaEqual, Check: DeltaEqual, check: (*Index).deltaEqual},
		{Name: NameLKG, Check: LKG, check: (*Index).lkg},
		{Name: NameGuarded, Check: Guarded, check: (*Index).guarded},
		{Name: NameIsolated, Check: Isolated, check: (*Index).isolated},
		{Name: NameQuiet, Check: Quiet, check: (*Index).quiet},
		{Name: NameBounded, Check: Bounded, check: (*Index).bounded},
		{Name: NameLive, Check: Live, check: (*Index).live},
	}
	return all
}

// Coverage says how much a history proves. In a storm of faults and changes many objects may have more than one state in the
// time of a read, and any of them will do.
type Coverage struct {
	Tables  int `json:"tables"`  // judgements of a table; one with several possible origins is judged for each
	Routes  int `json:"routes"`  // that were judged in them
	Certain int `json:"certain"` // of these, those that could have one text only
}

// Report is what the validators say of a history.
type Report struct {
	Violations []Violation `json:"violations"` // of all guarantees, in order of time
	Coverage   Coverage    `json:"coverage"`
}

// Examine runs all validators. It is cheaper than one after the other.
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

// All gives the violations of all guarantees, in order of time.
func All(h *history.History) []Violation { return Examine(h).Violations }

// maxOfOne bounds the violations of one validator: a broken run has as many as answers, and nobody reads them.
const maxOfOne = 100

func (x *Index) limited(found []Violation) []Violation {
	sortByTime(found)
	return found[:min(len(found), maxOfOne)]
}

func sortByTime(all []Violation) {
	slices.SortStableFunc(all, func(a, b Violation) int { return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.Index, b.Index)) })
}

// alone runs one validator over a history.
func alone(h *history.History, check func(*Index) []Violation) []Violation {
	x := NewIndex(h)
	return x.limited(check(x))
}
