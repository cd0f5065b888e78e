package options

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/routesrv/routesrv/catalogue"
	"github.com/routesrv/routesrv/eskip"
	"github.com/routesrv/routesrv/poller"
)

// Value is the value of a flag, a [pflag.Value]. Every flag is made of the constructors below, so that a duration or a size has the
// same form everywhere.
//
// Parsing the command line only records texts. They are applied together with the environment and the file: see [Flags.Resolve].
type Value struct {
	kind     string // for help, such as HOST:PORT; "bool" for a switch
	def      string // the default, as it would be typed
	set      func(string) error
	words    []string  // the only possible values; nil for any
	repeat   bool      // each use of the flag adds a value
	comma    bool      // accepts a list separated by commas
	settings []Setting // of a flag that has several

	flag *Flag // set by Flags.Add
}

var _ pflag.Value = (*Value)(nil)

// Type implements [pflag.Value].
func (v *Value) Type() string { return v.kind }

// String implements [pflag.Value]: it returns the last text of the command line, or the default.
func (v *Value) String() string {
	if v.flag != nil && v.flag.arg != nil {
		return *v.flag.arg
	}
	return v.def
}

// Set implements [pflag.Value] and never fails.
func (v *Value) Set(text string) error {
	v.flag.arg = &text
	v.flag.flags.settings = append(v.flag.flags.settings, setting{flag: v.flag, value: text, origin: fromArguments})
	return nil
}

func parseBool(s string) (bool, error) {
	b, err := strconv.ParseBool(s)
	if err != nil {
		return false, fmt.Errorf("%s: must be true or false", clip(s))
	}
	return b, nil
}

// Bool is a switch.
func Bool(dst *bool, def bool) *Value {
	*dst = def
	return Parsed("bool", dst, strconv.FormatBool(def), parseBool)
}

// Text accepts any text that the functions do not reject.
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
	set := v.set
	v.set = func(s string) error {
		err := set(s)
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

// address checks the address of a listener.
func address(s string) error {
	_, port, err := net.SplitHostPort(s)
	if err != nil || port == "" {
		return fmt.Errorf("%s: must be HOST:PORT or :PORT", clip(s))
	}
	if n, err := strconv.Atoi(port); err == nil && (n < 0 || n > 65535) {
		return fmt.Errorf("%s: the port must be from 0 to 65535", clip(s))
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
	if err != nil || !(f > 0 && f <= 1) { // written this way to reject NaN
		return 0, fmt.Errorf("%s: must be in (0, 1], e.g. 0.5 or 50%%; 1 disables the rule", clip(s))
	}
	return f, nil
}

// byteUnits are the factors of size units.
var byteUnits = map[string]float64{
	"": 1, "B": 1, "k": 1e3, "K": 1e3, "kB": 1e3, "KB": 1e3, "M": 1e6, "MB": 1e6, "G": 1e9, "GB": 1e9,
	"Ki": 1 << 10, "KiB": 1 << 10, "Mi": 1 << 20, "MiB": 1 << 20, "Gi": 1 << 30, "GiB": 1 << 30,
}

// maxBytes is the largest size, one tebibyte: a larger one is a mistake, and a float64 still represents it exactly.
const maxBytes = 1 << 40

// size accepts a number of bytes of at least least, plain or with a unit.
func size[T int | int64](dst *T, def string, least T) *Value {
	return Parsed("size", dst, def, func(s string) (T, error) {
		digits := strings.TrimRight(s, "kKMGiB")
		factor, known := byteUnits[s[len(digits):]]
		f, err := strconv.ParseFloat(strings.TrimRight(digits, " "), 64)
		if err != nil || !known || !(f >= 0 && f*factor <= maxBytes) || strings.ContainsAny(digits, "xXeEpP_+-nN") {
			return 0, fmt.Errorf("%s: must be a number of bytes, plain or as 512MiB, up to 1024GiB", clip(s))
		}
		if T(f*factor) < least {
			return 0, fmt.Errorf("%s: must be at least %dMiB", clip(s), least>>20)
		}
		return T(f * factor), nil
	})
}

// Setting is one of the settings of a flag that has several, such as --guard=hold=2h,release=manual.
type Setting struct {
	Name  string
	Value *Value
	Usage string // a sentence without its capital
}

// Settings returns the value of a flag that takes settings, NAME=VALUE with commas between them, and may be repeated. If word is not
// nil, a text without a name sets it, as in --fallback=always,after=1m. set records the names that were given, unless it is nil.
func Settings(word *Value, set map[string]bool, all ...Setting) *Value {
	names := make([]string, len(all))
	for i, s := range all {
		names[i] = s.Name
	}
	v := &Value{kind: "SETTING=VALUE,…", repeat: true, settings: all}
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
			if set != nil {
				set[name] = true
			}
		}
		return nil
	}
	return v
}

// regexpText checks a regular expression.
func regexpText(s string) error {
	_, err := regexp.Compile(s)
	return err
}

func parsePredicates(s string) ([]*eskip.Predicate, error) {
	ps, err := eskip.ParsePredicates(s)
	if err != nil {
		return nil, fmt.Errorf("predicates %s: %w", clip(s), err)
	}
	return ps, nil
}

func parseFilters(s string) ([]*eskip.Filter, error) {
	fs, err := eskip.ParseFilters(s)
	if err != nil {
		return nil, fmt.Errorf("filters %s: %w", clip(s), err)
	}
	return fs, nil
}

// parseProxyFilters parses filters for routes. A filter that no proxy survives would make every route unpublishable, so such a
// setting is rejected at startup, while the old instances still serve.
func parseProxyFilters(s string) ([]*eskip.Filter, error) {
	fs, err := parseFilters(s)
	if err != nil {
		return nil, err
	}
	if err := catalogue.Survives(fs); err != nil {
		return nil, fmt.Errorf("no proxy would survive it: %w", err)
	}
	return fs, nil
}

// change accepts /expression/replacement/, where the first character is the separator. Text after the last separator has no meaning.
func change(add func(*regexp.Regexp, string), ignored func(text string)) *Value {
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
		if parts[3] != "" {
			ignored(s)
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

// parseCIDRs parses networks and addresses separated by commas.
func parseCIDRs(s string) (nets []string, err error) {
	if s == "" {
		return nil, nil
	}
	for n := range strings.SplitSeq(s, ",") {
		n = strings.TrimSpace(n)
		_, noPrefix := netip.ParsePrefix(n)
		if _, err := netip.ParseAddr(n); err != nil && noPrefix != nil {
			return nil, fmt.Errorf("%s: must be networks such as 10.2.0.0/16, separated by commas", clip(n))
		}
		nets = append(nets, n)
	}
	return nets, nil
}

// optionalURL checks a URL for HTTP or HTTPS, if there is one. The error does not repeat the URL, because it may contain a password.
func optionalURL(s string) error {
	u, err := url.Parse(s)
	if s != "" && (err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https") {
		return errors.New("must be a URL such as https://host:port")
	}
	return nil
}

// listenerURL parses the URL of a listener; empty means none.
func listenerURL(s string) (*url.URL, error) {
	if s == "" {
		return nil, nil
	}
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("%s: must be the URL of a listener, such as http://127.0.0.1:9922", clip(s))
	}
	return u, nil
}

// plainURL parses a URL for HTTP or HTTPS without user, query and fragment. form describes it in the error.
func plainURL(s, form string) (*url.URL, error) {
	u, err := url.Parse(s)
	switch {
	case err != nil:
		return nil, errors.New("must be " + form) // the text may contain a password, so leave it out
	case u.User != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.RawQuery != "" || u.Fragment != "":
		return nil, fmt.Errorf("%s: must be %s", clip(u.Redacted()), form)
	}
	return u, nil
}

// labelName and labelValue match what Kubernetes allows in labels. Anything else would change the meaning of the selector built
// from them.
var (
	labelName  = regexp.MustCompile(`^([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$`)
	labelValue = regexp.MustCompile(`^[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$`)
)

// parseSelector parses a=b,c: the label a with the value b, and the label c with any value.
func parseSelector(s string) (map[string]string, error) {
	if s == "" {
		return nil, nil
	}
	sel := make(map[string]string)
	for part := range strings.SplitSeq(s, ",") {
		key, val, equal := strings.Cut(strings.TrimSpace(part), "=")
		if !labelName.MatchString(key) || equal && !labelValue.MatchString(val) {
			return nil, fmt.Errorf("%s: must be labels as name=value, or name alone for any value, separated by commas", clip(part))
		}
		if _, again := sel[key]; again {
			return nil, fmt.Errorf("label %s given twice", clip(key))
		}
		sel[key] = val
	}
	return sel, nil
}

// parseTLSVersion parses a version with or without its dot, as Skipper does.
func parseTLSVersion(s string) (uint16, error) {
	versions := map[string]uint16{"10": tls.VersionTLS10, "11": tls.VersionTLS11, "12": tls.VersionTLS12, "13": tls.VersionTLS13}
	for name, version := range versions {
		if s == name || s == name[:1]+"."+name[1:] {
			return version, nil
		}
	}
	return 0, fmt.Errorf("%s: must be 1.0, 1.1, 1.2 or 1.3", clip(s))
}

// Log levels in addition to those of slog and poller.LevelTrace, for the names of Skipper that slog does not have.
const (
	LevelFatal = slog.LevelError + 4
	LevelPanic = slog.LevelError + 8
)

// levels are the names of Skipper's log levels.
var levels = map[string]slog.Level{
	"TRACE": poller.LevelTrace, "DEBUG": slog.LevelDebug, "INFO": slog.LevelInfo, "WARN": slog.LevelWarn, "WARNING": slog.LevelWarn,
	"ERROR": slog.LevelError, "FATAL": LevelFatal, "PANIC": LevelPanic,
}

// parseLevel parses the name of a log level.
func parseLevel(s string) (slog.Level, error) {
	if l, ok := levels[strings.ToUpper(s)]; ok {
		return l, nil
	}
	return 0, fmt.Errorf("%s: must be TRACE, DEBUG, INFO, WARN, ERROR, FATAL or PANIC", clip(s))
}

const (
	day  = 24 * time.Hour
	tick = time.Millisecond // the shortest time that a setting accepts
	most = math.MaxInt32    // of a number without another limit
)
