package options

import (
	"errors"
	"fmt"
	"math"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/routesrv/routesrv/dataplane"
	"github.com/routesrv/routesrv/guard"
	"github.com/routesrv/routesrv/poller"
	"github.com/routesrv/routesrv/source/cluster"
)

// Value is the value of a flag: its kind for help, its default as it would be typed, and the function that sets it. Every program
// makes its flags of the constructors below, so a duration or a size has one form everywhere.
type Value struct {
	kind     string
	def      string
	set      func(string) error
	words    []string  // the only possible values; nil for any
	boolean  bool      // a switch: the flag alone means true
	repeat   bool      // each use of the flag adds a value
	comma    bool      // accepts a list separated by commas
	settings []Setting // of a flag that has several
}

// Repeated returns a value that may be given more than once.
func Repeated(kind string, set func(string) error) *Value {
	return &Value{kind: kind, repeat: true, set: set}
}

func parseBool(s string) (bool, error) {
	b, err := strconv.ParseBool(s)
	if err != nil {
		return false, fmt.Errorf("%s: want true or false", clip(s))
	}
	return b, nil
}

// Bool is a switch.
func Bool(dst *bool, def bool) *Value {
	*dst = def
	return &Value{kind: "bool", def: strconv.FormatBool(def), boolean: true, set: func(s string) (err error) {
		*dst, err = parseBool(s)
		return err
	}}
}

// Text accepts any text that the functions do not refuse.
func Text(kind string, dst *string, def string, check ...func(string) error) *Value {
	*dst = def
	return &Value{kind: kind, def: def, set: func(s string) error {
		*dst = s
		for _, f := range check {
			if err := f(s); err != nil {
				return err
			}
		}
		return nil
	}}
}

// Parsed returns a value that the function parses; the default is not parsed.
func Parsed[T any](kind string, dst *T, shown string, parse func(string) (T, error)) *Value {
	return &Value{kind: kind, def: shown, set: func(s string) (err error) {
		*dst, err = parse(s)
		return err
	}}
}

// Choice accepts one of the words. The default is the present value.
func Choice(dst *string, words ...string) *Value {
	shown := slices.DeleteFunc(slices.Clone(words), func(w string) bool { return w == "" })
	return &Value{kind: strings.Join(shown, "|"), def: *dst, words: shown, set: func(s string) error {
		if !slices.Contains(words, s) {
			return fmt.Errorf("%s: want %s", clip(s), strings.Join(shown, ", "))
		}
		*dst = s
		return nil
	}}
}

// either accepts one of two words, the first of which means false and is the default.
func either(dst *bool, no, yes string) *Value {
	*dst = false
	return Parsed(no+"|"+yes, dst, no, func(s string) (bool, error) {
		if s != no && s != yes {
			return false, fmt.Errorf("%s: want %s or %s", clip(s), no, yes)
		}
		return s == yes, nil
	})
}

// List accepts elements separated by commas and keeps them unchanged. The last list counts; the empty text is the empty list.
func List(dst *[]string) *Value {
	return &Value{kind: "list", comma: true, set: func(s string) error {
		if *dst = nil; s != "" {
			*dst = strings.Split(s, ",")
		}
		return nil
	}}
}

// URLs accepts URLs, repeated or separated by commas.
func URLs(dst *[]string) *Value {
	return Repeated("URL", func(s string) error {
		before := len(*dst)
		for one := range strings.SplitSeq(s, ",") {
			if one = strings.TrimSpace(one); one != "" {
				*dst = append(*dst, one)
			}
		}
		if len(*dst) == before {
			return errors.New("want the URL of a route server")
		}
		return nil
	})
}

// Number accepts an integer within the limits, in the forms of Skipper: also 0x1f, 0o17, 017 (octal), 0b1 and 1_000.
func Number(dst *int, def, least, most int) *Value {
	*dst = def
	return &Value{kind: "int", def: strconv.Itoa(def), set: func(s string) error {
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

// Duration accepts a time with its unit within the limits.
func Duration(dst *time.Duration, def, least, most time.Duration) *Value {
	*dst = def
	return &Value{kind: "duration", def: short(def), set: func(s string) error {
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

// millis accepts a whole number of milliseconds, like Skipper's polling flag, in the forms of [Number].
func millis(dst *time.Duration, def time.Duration, most time.Duration) *Value {
	*dst = def
	return &Value{kind: "int", def: strconv.FormatInt(def.Milliseconds(), 10), set: func(s string) error {
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

// Address accepts the address of a listener, or nothing, which turns it off.
func Address(dst *string, def string) *Value {
	return Text("HOST:PORT", dst, def, func(s string) error {
		if s == "" {
			return nil
		}
		return address(s)
	})
}

// address checks the address of a listener.
func address(s string) error {
	_, port, err := net.SplitHostPort(s)
	if err != nil || port == "" {
		return fmt.Errorf("%s: want HOST:PORT or :PORT", clip(s))
	}
	if n, err := strconv.Atoi(port); err == nil && (n < 0 || n > 65535) {
		return fmt.Errorf("%s: want a port from 0 to 65535", clip(s))
	}
	return nil
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

// Size accepts a number of bytes, plain or with a unit.
func Size[T int | int64](dst *T, def string) *Value {
	return Parsed("size", dst, def, size[T])
}

func size[T int | int64](s string) (T, error) {
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
	return T(f * factor), nil
}

// sizeFrom1MiB parses a size of at least 1 MiB, which one route may have.
func sizeFrom1MiB[T int | int64](s string) (T, error) {
	n, err := size[T](s)
	if err == nil && n < 1<<20 {
		return 0, fmt.Errorf("%s: want at least 1MiB", clip(s))
	}
	return n, err
}

// Setting is one of the settings of a flag that has several, such as --guard=hold=2h,release=manual.
type Setting struct {
	Name  string
	Value *Value
}

// Settings returns the value of a flag that takes settings, SETTING=VALUE with commas between them, and may be repeated. If word is
// not nil, a text without a name sets it, as in --fallback=always,after=1m. set records the names that were given, unless it is nil.
func Settings(word *Value, set map[string]bool, all ...Setting) *Value {
	kind := "SETTING=VALUE,…"
	names := make([]string, len(all))
	byName := make(map[string]*Value)
	for i, s := range all {
		names[i], byName[s.Name] = s.Name, s.Value
	}
	v := &Value{kind: kind, repeat: true, settings: all}
	if word != nil {
		v.kind, v.def = word.kind+","+kind, word.def
	}
	v.set = func(text string) error {
		for one := range strings.SplitSeq(text, ",") {
			name, val, given := strings.Cut(one, "=")
			s := byName[name]
			switch {
			case s == nil && !given && word != nil:
				if err := word.set(one); err != nil {
					return err
				}
				continue
			case s == nil:
				return fmt.Errorf("%s: want settings with commas between them, NAME=VALUE: %s", clip(one), strings.Join(names, ", "))
			case !given && s.boolean:
				val = "true"
			case !given:
				return fmt.Errorf("%s: want %s=%s", clip(one), name, strings.ToUpper(s.kind))
			}
			if err := s.set(val); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			if set != nil {
				set[name] = true
			}
		}
		return nil
	}
	return v
}

const (
	day  = 24 * time.Hour
	tick = time.Millisecond // the shortest time that a setting accepts
)

// Guard adds --guard, which defines which tables are suspicious. maxLoss and hold are defaults of its settings: kept objects delay no other
// team, so they are kept sooner and longer than tables.
func (p *Parser) Guard(c *guard.Config, maxLoss float64, hold time.Duration) {
	c.MaxLoss, c.MaxBackendLoss = maxLoss, guard.DefaultMaxBackendLoss
	p.guardSet = make(map[string]bool)
	settings := []Setting{
		{"max-loss", Parsed("share", &c.MaxLoss, strconv.FormatFloat(maxLoss, 'g', -1, 64), share)},
		{"max-backend-loss", Parsed("share", &c.MaxBackendLoss, "0.5", share)},
		{"window", Duration(&c.Window, guard.DefaultWindow, tick, day)},
		{"hold", Duration(&c.Hold, hold, tick, day)},
		{"release", either(&c.Manual, "auto", "manual")},
		{"namespaces", Bool(&c.Namespaces, false)},
		{"max-routes", Number(&c.MaxRoutes, 0, 0, math.MaxInt32)},
		{"max-bytes", Size(&c.MaxBytes, "0")},
	}
	p.Flag("guard", Settings(nil, p.guardSet, settings...))
}

// Timing adds --timing, for time limits and intervals that hardly anybody changes. more are those of the program.
func (p *Parser) Timing(s *Source, c *Poll, fullEvery, timeout *time.Duration, more ...Setting) {
	settings := append([]Setting{
		{"request-timeout", Duration(&s.Timeout, cluster.DefaultTimeout, tick, time.Hour)},
		{"max-backoff", Duration(&c.MaxBackoff, poller.DefaultMaxBackoff, tick, day)},
		{"full-fetch", Duration(fullEvery, dataplane.DefaultFullEvery, time.Minute, 30*day)},
		{"fetch-timeout", Duration(timeout, dataplane.DefaultTimeout, tick, time.Hour)},
	}, more...)
	p.Flag("timing", Settings(nil, nil, settings...))
	p.check(func() { c.MaxBackoff = max(c.MaxBackoff, c.Interval) })
}

// ShutdownTime returns the setting of --timing for open requests at the end.
func ShutdownTime(dst *time.Duration, def time.Duration) Setting {
	return Setting{"shutdown", Duration(dst, def, tick, day)}
}
