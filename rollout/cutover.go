package rollout

import (
	"fmt"
	"time"
)

// Defaults of [CutoverConfig].
const (
	DefaultCleanFor       = 15 * time.Minute
	DefaultMinComparisons = 100
)

// CutoverPolicy says what the cutover check does. It is a value of --cutover-check.
type CutoverPolicy string

// The policies.
const (
	CutoverReport  CutoverPolicy = "report"  // says whether a cutover is advisable, and refuses nothing
	CutoverEnforce CutoverPolicy = "enforce" // refuses a switch to Exec while it is not
	CutoverOff     CutoverPolicy = "off"     // says nothing and refuses nothing
)

// CutoverConfig sets when a cutover from Pre to Exec is advisable.
type CutoverConfig struct {
	Policy CutoverPolicy
	// CleanFor is how long the comparisons must have been clean without interruption. 0 means no minimum.
	CleanFor time.Duration
	// MinComparisons is the minimum number of comparisons in that time.
	MinComparisons int
}

// Evidence summarises the comparisons of Pre. The zero value means that there were none.
type Evidence struct {
	Comparisons int           // consecutive clean ones until now
	CleanFor    time.Duration // since the first of these
	Differences int           // that count now; zero while the comparisons are clean
	Trouble     string        // why no comparison can be made now; empty if it can
}

// Readiness is the answer of a cutover check.
type Readiness struct {
	Ready  bool
	Reason string // why not; empty if it is ready
}

// Judge says whether a cutover is advisable.
func (g CutoverConfig) Judge(e Evidence) Readiness {
	switch {
	case e.Trouble != "":
		return Readiness{Reason: e.Trouble}
	case e.Differences > 0:
		return Readiness{Reason: fmt.Sprintf("the tables differ in %d routes: see /shadow", e.Differences)}
	case e.Comparisons == 0:
		return Readiness{Reason: "no comparison was made yet: they are made in mode Pre"}
	case e.Comparisons < g.MinComparisons:
		return Readiness{Reason: fmt.Sprintf("%d of %d clean comparisons", e.Comparisons, g.MinComparisons)}
	case e.CleanFor < g.CleanFor:
		return Readiness{Reason: fmt.Sprintf("clean for %s of %s", e.CleanFor.Truncate(time.Second), g.CleanFor)}
	}
	return Readiness{Ready: true}
}
