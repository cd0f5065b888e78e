package rollout

import "fmt"

// Able says what the configuration lets a data plane do.
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
	// Refused says why Asked is not in force, and what to do. It is empty if Asked is in force.
	Refused string
}

// Decider decides which mode is in force. It is not safe for concurrent use.
//
// The setting at the start is not a switch and is not gated: a restarting pod of a fleet in Exec must come up in Exec. If the
// whole fleet read the cluster for the time of the cutover check, that would be a stampede. Later, each call of Decide checks the setting
// again, so that a refused switch happens as soon as nothing speaks against it.
type Decider struct {
	name  string // of the member
	check CutoverConfig
	able  Able

	setting Setting
	mode    Mode // in force
}

// NewDecider returns a decider for a data plane with the name of its [Member] and a setting to start with. The error says which
// configuration the mode lacks.
func NewDecider(name string, check CutoverConfig, able Able, start Setting) (*Decider, error) {
	d := &Decider{name: name, check: check, able: able, setting: start, mode: start.For(name)}
	if missing := able.Missing(d.mode); missing != "" {
		return nil, fmt.Errorf("--mode %s: %s", start, missing)
	}
	return d, nil
}

// Set changes the requested setting.
func (d *Decider) Set(s Setting) { d.setting = s }

// Setting returns the last requested setting.
func (d *Decider) Setting() Setting { return d.setting }

// Decide determines the mode in force, given the results of the comparisons.
func (d *Decider) Decide(e Evidence) Decision {
	asked := d.setting.For(d.name)
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
	return fmt.Sprintf("switch from %s to Exec refused by the cutover check: %s; switches automatically when it is, or at once with mode %q",
		d.mode, r.Reason, override)
}
