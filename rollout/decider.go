package rollout

import "fmt"

// Able says what a data plane can do, by its configuration.
type Able struct {
	Compute bool // read a cluster and compile
	Fetch   bool // ask a route server
}

// Missing gives why a mode cannot run with what is configured; empty if it can.
func (a Able) Missing(m Mode) string {
	switch {
	case m != Exec && !a.Compute:
		return fmt.Sprintf("mode %s needs objects to compute a table of: set -kubernetes or --manifests", m)
	case m != False && !a.Fetch:
		return fmt.Sprintf("mode %s needs a route server: set --routesrv-url", m)
	}
	return ""
}

// Decision is which mode is in force, and why it is not another.
type Decision struct {
	Mode  Mode // in force
	Asked Mode // what the setting means for this data plane
	// Refused says why Asked is not in force, with the way out. Empty if it is.
	Refused string
}

// Decider says which mode is in force. It is not safe for concurrent use.
//
// The setting at the start is no switch and is not gated: a pod of a fleet in Exec that restarts must come up in Exec,
// because a fleet that goes back to reading the cluster for the time of the gate would be the stampede. After that the
// setting is looked at by each call of Decide, so that a switch that is refused happens as soon as nothing is in its way.
type Decider struct {
	name string // of the member
	gate GateConfig
	able Able

	setting Setting
	mode    Mode // in force
}

// NewDecider makes a decider for a data plane, by the name of its [Member], that starts with a setting. The error says what the mode needs and is not
// configured.
func NewDecider(name string, gate GateConfig, able Able, start Setting) (*Decider, error) {
	d := &Decider{name: name, gate: gate, able: able, setting: start, mode: start.For(name)}
	if missing := able.Missing(d.mode); missing != "" {
		return nil, fmt.Errorf("--mode %s: %s", start, missing)
	}
	return d, nil
}

// Set takes what an operator asks for from now on.
func (d *Decider) Set(s Setting) { d.setting = s }

// Setting gives what was asked for last.
func (d *Decider) Setting() Setting { return d.setting }

// Decide says which mode is in force from now on, given what the comparisons have come to.
func (d *Decider) Decide(e Evidence) Decision {
	asked := d.setting.For(d.name)
	refused := d.refuse(asked, e)
	if refused == "" {
		d.mode = asked
	}
	return Decision{Mode: d.mode, Asked: asked, Refused: refused}
}

// refuse gives why the mode that is asked for cannot be entered from the one in force; empty if it can.
func (d *Decider) refuse(asked Mode, e Evidence) string {
	if asked == d.mode {
		return ""
	}
	if missing := d.able.Missing(asked); missing != "" {
		return missing
	}
	if asked != Exec || d.gate.Policy != GateEnforce || d.setting.Override {
		return ""
	}
	r := d.gate.Judge(e)
	if r.Ready {
		return ""
	}
	override := d.setting
	override.Override = true
	return fmt.Sprintf("switch from %s to Exec refused by the gate: %s; it is made when the gate is ready, or at once with mode %q",
		d.mode, r.Reason, override)
}
