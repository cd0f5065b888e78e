// Package rollout decides how a data plane moves to the route server and back. It only decides: no I/O, no clock, no log. Package
// sidecar carries out its decisions.
//
//   - [Mode] is where the data plane's table comes from. A [Setting] is what an operator writes, such as "Exec:25%" or
//     "Exec:3"; [Setting.For] returns its mode for one data plane. [MemberOf] selects which of its names counts.
//   - [CutoverConfig] decides whether the comparisons of Pre allow a cutover.
//   - [Decider] decides which mode is in force and, if that is not the requested one, why, and what to do.
//   - [Fallback] decides when a data plane in Exec without an answering route server starts to read the cluster, and when it
//     stops.
//   - [Proof] decides which tables are proven, and when to fall back to the proven one.
//
// Raising the share of a setting only adds data planes to Exec, and lowering it only removes some. Membership is the same in
// every process and after every restart, and, by nodes, after a rollout of a Deployment, which renames every pod. The slots of
// the fallback of a fleet are spread evenly, so that the loss of a route server does not bring back the load that it removes.
//
// Other modules should not import it: it may change with every release.
package rollout

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"time"
)

// Purposes of hashes of names, which are independent: data planes that enter Exec first must not read the cluster first.
const (
	forShare = "share"
	forSlot  = "slot"
)

// place returns a fixed pseudo-random position in [0, 2^64) for a name. It uses SHA-256, because names of pods and nodes differ
// in few characters and faster hashes place such names close together.
func place(purpose, name string) uint64 {
	sum := sha256.Sum256([]byte(purpose + "\x00" + name))
	return binary.BigEndian.Uint64(sum[:])
}

// Able is what the configuration allows a data plane to do.
type Able struct {
	Compute bool // read a cluster and compile
	Fetch   bool // ask a route server
}

// Missing returns what is missing to run a mode; empty if nothing is.
func (a Able) Missing(m Mode) string {
	switch {
	case m != Exec && !a.Compute:
		return fmt.Sprintf("mode %s needs objects to compute a table of: set -kubernetes or --manifests", m)
	case m != False && !a.Fetch:
		return fmt.Sprintf("mode %s needs a route server: set --upstream", m)
	}
	return ""
}

// Decision is the mode in force, and why it is not another one.
type Decision struct {
	Mode  Mode // in force
	Asked Mode // the mode that the setting means for this data plane
	// Refused is why Asked is not in force, and what to do. It is empty if Asked is in force.
	Refused string
}

// Decider decides which mode is in force. It is not safe for concurrent use.
//
// The setting at the start is not gated: a restarting fleet in Exec that read the cluster for the time of the cutover check would
// be a stampede. Later, each call of Decide checks the setting again, so that a refused switch happens as soon as it is allowed.
type Decider struct {
	name  string // of the member
	check CutoverConfig
	able  Able

	setting Setting
	mode    Mode // in force
}

// NewDecider returns a decider for the name of a [Member] and a setting to start with, or what the configuration lacks for it.
func NewDecider(name string, check CutoverConfig, able Able, start Setting) (*Decider, error) {
	d := &Decider{name: name, check: check, able: able, setting: start, mode: start.For(name, -1)}
	if missing := able.Missing(d.mode); missing != "" {
		return nil, fmt.Errorf("--mode %s: %s", start, missing)
	}
	return d, nil
}

// Set changes the requested setting.
func (d *Decider) Set(s Setting) { d.setting = s }

// Setting returns the last requested setting.
func (d *Decider) Setting() Setting { return d.setting }

// Decide determines the mode in force, given the results of the comparisons and the [Order.Rank] of this data plane, negative if it
// is not known.
func (d *Decider) Decide(e Evidence, rank int) Decision {
	asked := d.setting.For(d.name, rank)
	refused := d.refuse(asked, e)
	if refused == "" {
		d.mode = asked
	}
	return Decision{Mode: d.mode, Asked: asked, Refused: refused}
}

// refuse returns why the requested mode cannot be entered from the current one; empty if it can.
func (d *Decider) refuse(asked Mode, e Evidence) string {
	if asked == d.mode {
		return ""
	}
	if missing := d.able.Missing(asked); missing != "" {
		return missing
	}
	if asked != Exec || d.check.Policy != CutoverEnforce || d.setting.Override {
		return ""
	}
	r := d.check.Judge(e)
	if r.Ready {
		return ""
	}
	override := d.setting
	override.Override = true
	return fmt.Sprintf("switch from %s to Exec refused by the cutover check: %s; it switches once the check passes, or at once with mode %q",
		d.mode, r.Reason, override)
}

// Defaults of [CutoverConfig].
const (
	DefaultCleanFor       = 15 * time.Minute
	DefaultMinComparisons = 100
)

// CutoverPolicy is what the cutover check does. It is a value of --cutover-check.
type CutoverPolicy string

// The policies.
const (
	CutoverReport  CutoverPolicy = "report"  // reports whether a cutover is advisable, and refuses nothing
	CutoverEnforce CutoverPolicy = "enforce" // refuses a switch to Exec while it is not
	CutoverOff     CutoverPolicy = "off"     // reports nothing and refuses nothing
)

// CutoverConfig sets when a cutover from Pre to Exec is advisable.
type CutoverConfig struct {
	Policy CutoverPolicy
	// CleanFor is how long the comparisons must have been clean without interruption. 0 means no minimum.
	CleanFor time.Duration
	// MinComparisons is the minimum number of comparisons in that time.
	MinComparisons int
}

// Evidence summarises the comparisons of Pre. The zero value means no comparisons.
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

// Judge reports whether a cutover is advisable.
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
