package rollout

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"
)

// Mode says who feeds the data plane. The zero value changes nothing in the cluster.
type Mode uint8

// The modes.
const (
	False Mode = iota // the data plane reads the cluster itself, and nothing else runs
	Pre               // it still does, and compares with the table of the route server
	Exec              // it takes the table from the route server
)

var modeNames = [...]string{False: "False", Pre: "Pre", Exec: "Exec"}

// Modes lists every mode, for metrics that have a series for each.
func Modes() []Mode { return []Mode{False, Pre, Exec} }

// String gives the spelling of help.
func (m Mode) String() string {
	if int(m) < len(modeNames) {
		return modeNames[m]
	}
	return "Mode(" + strconv.Itoa(int(m)) + ")"
}

// MarshalText gives the spelling of help.
func (m Mode) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

// ParseMode reads False, Pre or Exec in upper or lower case, with space around it.
func ParseMode(s string) (Mode, error) {
	name := strings.TrimSpace(s)
	for m, n := range modeNames {
		if strings.EqualFold(n, name) {
			return Mode(m), nil
		}
	}
	return False, fmt.Errorf("mode %s: want False, Pre or Exec", clip(s))
}

// Setting is what an operator asks for: a mode for the fleet. The zero value is False.
type Setting struct {
	Mode Mode
	// Percent is the share of the fleet, 0 to 100, that is to be in Exec; the rest is in Pre. It has a meaning only with
	// Exec.
	Percent int
	// Override switches to Exec also if the gate refuses. It has a meaning only with Exec.
	Override bool
}

// SettingForms is what [ParseSetting] takes, for help and messages.
const SettingForms = "False, Pre, Exec, Exec:25% (a share of the fleet), or Exec! and Exec:25%! (past the gate)"

// ParseSetting reads a mode in one of the [SettingForms], in upper or lower case, with space around it.
func ParseSetting(s string) (Setting, error) {
	text := strings.TrimSpace(s)
	text, override := strings.CutSuffix(text, "!")
	name, share, shared := strings.Cut(text, ":")
	mode, err := ParseMode(name)
	if err != nil || name != strings.TrimSpace(name) {
		return Setting{}, fmt.Errorf("mode %s: want %s", clip(s), SettingForms)
	}
	if mode != Exec {
		if shared || override {
			return Setting{}, fmt.Errorf("mode %s: only Exec takes a share or an exclamation mark: want %s", clip(s), SettingForms)
		}
		return Setting{Mode: mode}, nil
	}
	set := Setting{Mode: Exec, Percent: 100, Override: override}
	if !shared {
		return set, nil
	}
	if set.Percent, err = parsePercent(share); err != nil {
		return Setting{}, fmt.Errorf("mode %s: %w", clip(s), err)
	}
	return set, nil
}

// parsePercent takes a whole number from 0 to 100 with a percent sign, which is required: a bare 1 could be all or nothing.
func parsePercent(s string) (int, error) {
	digits, signed := strings.CutSuffix(s, "%")
	n, err := strconv.ParseUint(digits, 10, 8)
	if err != nil || !signed || n > 100 {
		return 0, fmt.Errorf("share %s: want a whole number from 0%% to 100%%", clip(s))
	}
	return int(n), nil
}

// String gives a form that [ParseSetting] takes.
func (s Setting) String() string {
	text := s.Mode.String()
	if s.Mode != Exec {
		return text
	}
	if s.Percent != 100 {
		text += ":" + strconv.Itoa(s.Percent) + "%"
	}
	if s.Override {
		text += "!"
	}
	return text
}

// MarshalText gives a form that [ParseSetting] takes.
func (s Setting) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// For gives the mode of one data plane, by the name of its [Member]. With a share of the fleet in Exec, a name that is in stays in for
// every larger share.
func (s Setting) For(name string) Mode {
	if s.Mode != Exec {
		return s.Mode
	}
	// The place of the name on a line of 100 percents, rounded down, so that 0 % is nobody and 100 % is everybody.
	percent, _ := bits.Mul64(place(forShare, name), 100)
	if percent < uint64(max(s.Percent, 0)) {
		return Exec
	}
	return Pre
}

// clip quotes a text for a message, short enough for a line of the log.
func clip(s string) string {
	const most = 40
	if len(s) > most {
		s = s[:most] + "..."
	}
	return strconv.Quote(s)
}
