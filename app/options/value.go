package options

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
)

// Value says how a flag is read. Every flag is made of the constructors below.
type Value struct {
	kind     string // for help, such as HOST:PORT; "bool" for a switch
	def      string // the default, as it would be typed
	set      func(string) error
	words    []string  // the only possible values; nil for any
	repeat   bool      // each use of the flag adds a value
	comma    bool      // accepts a list separated by commas
	settings []Setting // of a flag that has several
}

// Bool is a switch.
func Bool(dst *bool, def bool) *Value {
	*dst = def
	return Parsed("bool", dst, strconv.FormatBool(def), parseBool)
}

// Text accepts any text that the function does not reject.
func Text(kind string, dst *string, def string, check ...func(string) error) *Value {
	*dst = def
	return Parsed(kind, dst, def, func(s string) (string, error) {
		if len(check) == 0 {
			return s, nil
		}
		return s, check[0](s)
	})
}

// Parsed returns a value that the function parses; the default is not parsed.
func Parsed[T any](kind string, dst *T, def string, parse func(string) (T, error)) *Value {
	return &Value{kind: kind, def: def, set: func(s string) (err error) {
		*dst, err = parse(s)
		return err
	}}
}

// Choice accepts one of the words. The default is the present value.
func Choice(dst *string, words ...string) *Value {
	return &Value{kind: strings.Join(words, "|"), def: *dst, words: words, set: func(s string) error {
		if !slices.Contains(words, s) {
			return fmt.Errorf("%s: must be one of %s", clip(s), strings.Join(words, ", "))
		}
		*dst = s
		return nil
	}}
}

// either accepts one of two words; the first means false and is the default.
func either(dst *bool, no, yes string) *Value {
	word := no
	v := Choice(&word, no, yes)
	choose := v.set
	v.set = func(s string) error {
		err := choose(s)
		*dst = word == yes
		return err
	}
	return v
}

// Repeated returns a value that may be given more than once.
func Repeated(kind string, set func(string) error) *Value {
	return &Value{kind: kind, repeat: true, set: set}
}

// Texts collects the texts of a flag that may be repeated.
func Texts(kind string, dst *[]string) *Value {
	return Repeated(kind, func(s string) error {
		*dst = append(*dst, s)
		return nil
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

// URLs accepts the URLs of route servers, repeated or separated by commas.
func URLs(dst *[]string) *Value {
	return Repeated("URL", func(s string) error {
		before := len(*dst)
		for one := range strings.SplitSeq(s, ",") {
			if one = strings.TrimSpace(one); one != "" {
				*dst = append(*dst, one)
			}
		}
		if len(*dst) == before {
			return errors.New("must be the URL of a route server")
		}
		return nil
	})
}

// Number accepts an integer within the limits, in the forms of Skipper: also 0x1f, 0o17, 017 (octal), 0b1 and 1_000.
func Number(dst *int, def, least, most int) *Value {
	*dst = def
	return Parsed("int", dst, strconv.Itoa(def), func(s string) (int, error) {
		n, err := strconv.ParseInt(s, 0, strconv.IntSize)
		if err != nil || int(n) < least || int(n) > most {
			return 0, fmt.Errorf("%s: must be a whole number from %d to %d", clip(s), least, most)
		}
		return int(n), nil
	})
}

// Duration accepts a time with its unit within the limits.
func Duration(dst *time.Duration, def, least, most time.Duration) *Value {
	*dst = def
	return Parsed("duration", dst, short(def), func(s string) (time.Duration, error) {
		d, err := time.ParseDuration(s)
		if err != nil || d < least || d > most {
			return 0, fmt.Errorf("%s: must be a time with its unit, such as 45s, from %s to %s", clip(s), short(least), short(most))
		}
		return d, nil
	})
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
func millis(dst *time.Duration, def, most time.Duration) *Value {
	*dst = def
	return Parsed("int", dst, strconv.FormatInt(def.Milliseconds(), 10), func(s string) (time.Duration, error) {
		n, err := strconv.ParseInt(s, 0, 64)
		if d, wrong := time.ParseDuration(s); err != nil && wrong == nil && d >= time.Millisecond {
			return 0, fmt.Errorf("%s: must be a whole number of milliseconds; for %s write %d", clip(s), s, d.Milliseconds())
		}
		if err != nil || n < 1 || n > most.Milliseconds() {
			return 0, fmt.Errorf("%s: must be a whole number of milliseconds, from 1 to %d", clip(s), most.Milliseconds())
		}
		return time.Duration(n) * time.Millisecond, nil
	})
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

// size accepts a number of bytes of at least least, plain or with a unit.
func size[T int | int64](dst *T, def string, least T) *Value {
	return Parsed("size", dst, def, func(s string) (T, error) {
		const largest = 1 << 40 // more is a mistake
		q, err := resource.ParseQuantity(strings.TrimSuffix(s, "B"))
		if err != nil || q.Sign() < 0 || q.CmpInt64(largest) > 0 {
			return 0, fmt.Errorf("%s: must be a number of bytes, plain or as 512MiB, up to 1024GiB", clip(s))
		}
		if T(q.Value()) < least {
			return 0, fmt.Errorf("%s: must be at least %dMiB", clip(s), least>>20)
		}
		return T(q.Value()), nil
	})
}

// Setting is one of the settings of a flag that has several, such as --guard=hold=2h,release=manual.
type Setting struct {
	Name  string
	Value *Value
	Usage string // a sentence without its capital
}

// Settings returns the value of a flag that takes settings, NAME=VALUE with commas between them, and may be repeated. If word is not
// nil, a text without a name sets it, as in --fallback=always,after=1m.
func Settings(word *Value, all ...Setting) *Value {
	names := make([]string, len(all))
	for i, s := range all {
		names[i] = s.Name
	}
	v := &Value{kind: "SETTING=VALUE,...", repeat: true, settings: all}
	if word != nil {
		v.kind, v.def = word.kind+","+v.kind, word.def
	}
	v.set = func(text string) error {
		for one := range strings.SplitSeq(text, ",") {
			name, val, given := strings.Cut(one, "=")
			i := slices.Index(names, name)
			switch {
			case i < 0 && !given && word != nil:
				if err := word.set(one); err != nil {
					return err
				}
				continue
			case i < 0:
				return fmt.Errorf("%s: must be settings with commas between them, NAME=VALUE: %s", clip(one), strings.Join(names, ", "))
			case !given && all[i].Value.kind == "bool":
				val = "true"
			case !given:
				return fmt.Errorf("%s: must be %s=%s", clip(one), name, strings.ToUpper(all[i].Value.kind))
			}
			if err := all[i].Value.set(val); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
		return nil
	}
	return v
}

// change accepts /expression/replacement/, where the first character is the separator. Text after the last one has no meaning.
func change(add func(*regexp.Regexp, string)) *Value {
	return Repeated("/regexp/replacement/", func(s string) error {
		if s == "" {
			return errors.New("must be /expression/replacement/, not an empty text")
		}
		sep := string([]rune(s)[:1])
		parts := strings.Split(s, sep)
		if len(parts) != 4 {
			return fmt.Errorf("%s: must be %[2]sexpression%[2]sreplacement%[2]s; the first character is the separator and "+
				"must not occur elsewhere", clip(s), sep)
		}
		rx, err := regexp.Compile(parts[1])
		if err != nil {
			return fmt.Errorf("%s: %w", clip(s), err)
		}
		add(rx, parts[2])
		return nil
	})
}

// annotated accepts KEY=VALUE=TEXT, cut at the first two equal signs, and adds what the text means for this annotation.
func annotated[T any](kind string, parse func(string) (T, error), add func(key, val string, parsed T)) *Value {
	given := make(map[string]bool)
	return Repeated("KEY=VALUE="+kind, func(s string) error {
		if s == "" {
			return nil
		}
		parts := strings.SplitN(s, "=", 3)
		if len(parts) != 3 || parts[0] == "" {
			return fmt.Errorf("%s: must be KEY=VALUE=TEXT with the key and the value of an annotation", clip(s))
		}
		key, val := parts[0], parts[1]
		if given[key+"="+val] {
			return fmt.Errorf("annotation %s given twice", clip(key+"="+val))
		}
		given[key+"="+val] = true
		parsed, err := parse(parts[2])
		add(key, val, parsed)
		return err
	})
}

const (
	day  = 24 * time.Hour
	tick = time.Millisecond // the shortest time that a setting accepts
	most = math.MaxInt32    // of a number without another limit
)
