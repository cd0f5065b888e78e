package rollout

import (
	"fmt"
	"math/bits"
	"slices"
	"strconv"
	"strings"
)

// Mode is where the data plane's table comes from. The zero value changes nothing in the cluster.
type Mode uint8

// The modes.
const (
	False Mode = iota // the data plane reads the cluster itself; no route server is asked
	Pre               // as False, but it also compares its table with the route server's
	Exec              // it serves the route server's table
)

var modeNames = [...]string{False: "False", Pre: "Pre", Exec: "Exec"}

// Modes returns every mode, for metrics with a series for each.
func Modes() []Mode { return []Mode{False, Pre, Exec} }

// String returns the spelling of help.
func (m Mode) String() string {
	if int(m) < len(modeNames) {
		return modeNames[m]
	}
	return "Mode(" + strconv.Itoa(int(m)) + ")"
}

// MarshalText returns the mode as --help spells it.
func (m Mode) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

// ParseMode parses False, Pre or Exec in upper or lower case, with surrounding space.
func ParseMode(s string) (Mode, error) {
	for _, m := range Modes() {
		if strings.EqualFold(m.String(), strings.TrimSpace(s)) {
			return m, nil
		}
	}
	return False, fmt.Errorf("mode %.40q: must be False, Pre or Exec", s)
}

// Setting is the mode that an operator requests for the fleet. The zero value is False.
type Setting struct {
	Mode Mode
	// Percent is the share of the fleet, 0 to 100, that uses Exec; the rest uses Pre. It is used only with Exec.
	Percent int
	// Count, unless 0, is how many nodes, or pods without node names, use Exec instead of Percent, the lowest [Order.Rank] first.
	Count int
	// Override switches to Exec even if the cutover check refuses. It is used only with Exec.
	Override bool
}

// SettingForms lists the forms that [ParseSetting] accepts, for help and messages.
const SettingForms = "False, Pre, Exec, Exec:25% (a share of the fleet), Exec:3 (the proxies of three nodes), or Exec! and Exec:25%! (past the cutover check)"

// ParseSetting parses a mode in one of the [SettingForms], in upper or lower case, with surrounding space.
func ParseSetting(s string) (Setting, error) {
	text := strings.TrimSpace(s)
	text, override := strings.CutSuffix(text, "!")
	name, share, shared := strings.Cut(text, ":")
	mode, err := ParseMode(name)
	if err != nil || name != strings.TrimSpace(name) {
		return Setting{}, fmt.Errorf("mode %.40q: must be %s", s, SettingForms)
	}
	if mode != Exec {
		if shared || override {
			return Setting{}, fmt.Errorf("mode %.40q: only Exec takes a share or an exclamation mark: must be %s", s, SettingForms)
		}
		return Setting{Mode: mode}, nil
	}
	set := Setting{Mode: Exec, Percent: 100, Override: override}
	if !shared {
		return set, nil
	}
	if set.Percent, set.Count, err = parseShare(share); err != nil {
		return Setting{}, fmt.Errorf("mode %.40q: %w", s, err)
	}
	return set, nil
}

func parseShare(s string) (percent, count int, err error) {
	digits, isPercent := strings.CutSuffix(s, "%")
	n, err := strconv.ParseUint(digits, 10, 16)
	switch {
	case isPercent && (err != nil || n > 100):
		return 0, 0, fmt.Errorf("share %.40q: must be a whole number from 0%% to 100%%", s)
	case err != nil:
		return 0, 0, fmt.Errorf("share %.40q: must be a percentage, such as 25%%, or a number of nodes", s)
	case isPercent:
		return int(n), 0, nil
	}
	return 0, int(n), nil
}

// String returns a form that [ParseSetting] accepts.
func (s Setting) String() string {
	text := s.Mode.String()
	if s.Mode != Exec {
		return text
	}
	switch {
	case s.Count > 0:
		text += ":" + strconv.Itoa(s.Count)
	case s.Percent != 100:
		text += ":" + strconv.Itoa(s.Percent) + "%"
	}
	if s.Override {
		text += "!"
	}
	return text
}

// MarshalText returns a form that [ParseSetting] accepts.
func (s Setting) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// For returns the mode of one data plane, by the name of its [Member] and its [Order.Rank], which is negative while it is not known. A
// name that is in a share of the fleet is also in every larger share.
func (s Setting) For(name string, rank int) Mode {
	if s.Mode != Exec {
		return s.Mode
	}
	if s.Count > 0 {
		if 0 <= rank && rank < s.Count {
			return Exec
		}
		return Pre
	}
	// The position of the name on a scale of 100 percent, rounded down, so that 0 % includes no name and 100 % all of them.
	percent, _ := bits.Mul64(place(forShare, name), 100)
	if percent < uint64(max(s.Percent, 0)) {
		return Exec
	}
	return Pre
}

// Order is the order in which a [Setting] selects the names of a fleet. It is immutable.
type Order struct{ places []uint64 }

// NewOrder returns the order of the names of a fleet. Names that occur repeatedly count once.
func NewOrder(fleet []string) *Order {
	o := &Order{places: make([]uint64, len(fleet))}
	for i, name := range fleet {
		o.places[i] = place(forShare, name)
	}
	slices.Sort(o.places)
	o.places = slices.Compact(o.places)
	return o
}

// Rank returns how many of the other names come before a name. It takes logarithmic time.
func (o *Order) Rank(name string) int {
	rank, _ := slices.BinarySearch(o.places, place(forShare, name))
	return rank
}

// Member identifies a data plane for parts of the fleet, such as "Exec:25%" or "Exec:3". A share must affect the same proxies as
// long as it is set: each rollout of a Deployment renames its pods, but nodes and the pods of a StatefulSet keep their names.
type Member struct {
	By   string `json:"by"` // "node" or "pod"
	Name string `json:"name"`
}

// MemberOf returns the node if its name is known, else the pod.
func MemberOf(node, pod string) Member {
	if node == "" {
		return Member{"pod", pod}
	}
	return Member{"node", node}
}
