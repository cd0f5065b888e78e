package config

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// value is a [pflag.Value] made of a function. Set is called for each time the flag is given, in order.
type value struct {
	kind    string // what it takes, for help
	def     string // the default as it would be typed
	set     func(string) error
	boolean bool // a switch: the flag alone means true
	repeat  bool // every time it is given adds something
	comma   bool // takes a list with commas
}

// Set takes one value; String is the default and Type what is taken. They make it a pflag.Value.
func (v *value) Set(s string) error { return v.set(s) }
func (v *value) String() string     { return v.def }
func (v *value) Type() string       { return v.kind }

// repeated is a value that may be given more than once.
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

// checked is a text that is refused if the function has something against it.
func checked(kind string, dst *string, def string, check func(string) error) *value {
	*dst = def
	return &value{kind: kind, def: def, set: func(s string) error {
		*dst = s
		return check(s)
	}}
}

// parsed is a value that the function makes of the text; the default is not parsed.
func parsed[T any](kind string, dst *T, shown string, parse func(string) (T, error)) *value {
	return &value{kind: kind, def: shown, set: func(s string) (err error) {
		*dst, err = parse(s)
		return err
	}}
}

// list takes comma separated elements as they are. The last list counts; the empty text is the empty list.
func list(dst *[]string) *value {
	return &value{kind: "list", comma: true, set: func(s string) error {
		if *dst = nil; s != "" {
			*dst = strings.Split(s, ",")
		}
		return nil
	}}
}

// number takes a decimal integer in the limits.
func number(dst *int, def, least, most int) *value {
	*dst = def
	return &value{kind: "int", def: strconv.Itoa(def), set: func(s string) error {
		n, err := strconv.Atoi(s)
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

// duration takes a time with unit in the limits.
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

// short prints a time without units that are zero: 1h, not 1h0m0s.
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

// millis takes a whole number of milliseconds, as Skipper's polling flag does.
func millis(dst *time.Duration, def time.Duration, most time.Duration) *value {
	*dst = def
	return &value{kind: "int", def: strconv.FormatInt(def.Milliseconds(), 10), set: func(s string) error {
		n, err := strconv.ParseInt(s, 10, 64)
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

// share takes a part of the whole above zero, as 0.5 or 50%.
func share(s string) (float64, error) {
	digits, percent := strings.CutSuffix(s, "%")
	f, err := strconv.ParseFloat(digits, 64)
	if percent {
		f /= 100
	}
	if err != nil || !(f > 0 && f <= 1) { // written so that NaN is refused
		return 0, fmt.Errorf("%s: want a share above 0 and up to 1, such as 0.5 or 50%%; 1 switches the rule off", clip(s))
	}
	return f, nil
}

// byteUnits are the factors of sizes, longest name first for those that end alike.
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

// maxBytes is the largest size, one tebibyte: a larger one is a mistake, and a float64 still counts it exactly.
const maxBytes = 1 << 40

// size takes a number of bytes, plain or with a unit.
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
