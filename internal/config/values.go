package config

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// value is a [pflag.Value] whose setter is a function. Set is called each time the flag is given, in order.
type value struct {
	kind    string // kind of value, for help
	def     string // the default as it would be typed
	set     func(string) error
	boolean bool // a switch: the flag alone means true
	repeat  bool // each use of the flag adds a value
	comma   bool // accepts a list separated by commas
}

// Set parses one value, String returns the default, and Type the kind of value. They implement pflag.Value.
func (v *value) Set(s string) error { return v.set(s) }
func (v *value) String() string     { return v.def }
func (v *value) Type() string       { return v.kind }

// repeated returns a value that may be given more than once.
func repeated(kind string, set func(string) error) *value {
	return &value{kind: kind, repeat: true, set: set}
}

func parseBool(s string) (bool, error) {
	b, err := strconv.ParseBool(s)
	if err != nil {
		return false, fmt.Errorf("%s: want true or false", clip(s))
	}
	return b, nil
}

func boolean(dst *bool, def bool) *value {
	*dst = def
	return &value{kind: "bool", def: strconv.FormatBool(def), boolean: true, set: func(s string) (err error) {
		*dst, err = parseBool(s)
		return err
	}}
}

func text(dst *string, def string) *value {
	*dst = def
	return &value{kind: "string", def: def, set: func(s string) error {
		*dst = s
		return nil
	}}
}

// checked returns a text value that the function may refuse.
func checked(kind string, dst *string, def string, check func(string) error) *value {
	*dst = def
	return &value{kind: kind, def: def, set: func(s string) error {
		*dst = s
		return check(s)
	}}
}

// parsed returns a value that the function parses; the default is not parsed.
func parsed[T any](kind string, dst *T, shown string, parse func(string) (T, error)) *value {
	return &value{kind: kind, def: shown, set: func(s string) (err error) {
		*dst, err = parse(s)
		return err
	}}
}

// list accepts elements separated by commas and keeps them unchanged. The last list counts; the empty text is the empty list.
func list(dst *[]string) *value {
	return &value{kind: "list", comma: true, set: func(s string) error {
		if *dst = nil; s != "" {
			*dst = strings.Split(s, ",")
		}
		return nil
	}}
}

// number accepts an integer within the limits, in the forms of Skipper: also 0x1f, 0o17, 017 (octal), 0b1 and 1_000.
func number(dst *int, def, least, most int) *value {
	*dst = def
	return &value{kind: "int", def: strconv.Itoa(def), set: func(s string) error {
		wide, err := strconv.ParseInt(s, 0, strconv.IntSize)
		n := int(wide)
		if err != nil || n < least || n > most {
			if most == math.MaxInt {
				return fmt.Errorf("%s: want a whole number, at least %d", clip(s), least)
			}
			return fmt.Errorf("%s: want a whole number from %d to %d", clip(s), least, most)
		}
		*dst = n
		return nil
	}}
}

// duration accepts a time with its unit within the limits.
func duration(dst *time.Duration, def, least, most time.Duration) *value {
	*dst = def
	return &value{kind: "duration", def: short(def), set: func(s string) error {
		d, err := time.ParseDuration(s)
		if err != nil || d < least || d > most {
			return fmt.Errorf("%s: want a time with its unit, such as 45s, from %s to %s", clip(s), short(least), short(most))
		}
		*dst = d
		return nil
	}}
}

// short formats a duration without zero units: 1h, not 1h0m0s.
func short(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = s[:len(s)-2]
	}
	if strings.HasSuffix(s, "h0m") {
		s = s[:len(s)-2]
	}
	return s
}

// millis accepts a whole number of milliseconds, like Skipper's polling flag, in the forms of [number].
func millis(dst *time.Duration, def time.Duration, most time.Duration) *value {
	*dst = def
	return &value{kind: "int", def: strconv.FormatInt(def.Milliseconds(), 10), set: func(s string) error {
		n, err := strconv.ParseInt(s, 0, 64)
		if err != nil {
			hint := ""
			if d, err := time.ParseDuration(s); err == nil && d >= time.Millisecond {
				hint = fmt.Sprintf("; for %s write %d", s, d.Milliseconds())
			}
			return fmt.Errorf("%s: want a whole number of milliseconds%s", clip(s), hint)
		}
		if n < 1 || n > most.Milliseconds() {
			return fmt.Errorf("%s: want 1 to %d milliseconds", clip(s), most.Milliseconds())
		}
		*dst = time.Duration(n) * time.Millisecond
		return nil
	}}
}

// share parses a share above zero, as 0.5 or 50%.
func share(s string) (float64, error) {
	digits, percent := strings.CutSuffix(s, "%")
	f, err := strconv.ParseFloat(digits, 64)
	if percent {
		f /= 100
	}
	if err != nil || !(f > 0 && f <= 1) { // written this way to refuse NaN
		return 0, fmt.Errorf("%s: want a share above 0 and up to 1, such as 0.5 or 50%%; 1 switches the rule off", clip(s))
	}
	return f, nil
}

// byteUnits are the factors of size units, the longest name first among names with the same ending.
var byteUnits = []struct {
	name   string
	factor float64
}{
	{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30},
	{"Ki", 1 << 10}, {"Mi", 1 << 20}, {"Gi", 1 << 30},
	{"kB", 1e3}, {"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9},
	{"k", 1e3}, {"K", 1e3}, {"M", 1e6}, {"G", 1e9},
	{"B", 1},
}

// maxBytes is the largest size, one tebibyte: a larger one is a mistake, and a float64 still represents it exactly.
const maxBytes = 1 << 40

// size parses a number of bytes, plain or with a unit.
func size(s string) (int, error) {
	digits, factor := s, 1.0
	for _, u := range byteUnits {
		if rest, ok := strings.CutSuffix(s, u.name); ok {
			digits, factor = strings.TrimRight(rest, " "), u.factor
			break
		}
	}
	f, err := strconv.ParseFloat(digits, 64)
	if err != nil || !(f >= 0 && f*factor <= maxBytes) || strings.ContainsAny(digits, "xXeEpP_+-nN") {
		return 0, fmt.Errorf("%s: want a number of bytes, plain or as 512MiB, up to 1024GiB", clip(s))
	}
	return int(f * factor), nil
}
