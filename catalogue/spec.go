package catalogue

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"net/url"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"
	"time"
)

type spec struct {
	arities []int // allowed numbers of arguments; with open only the first counts, as the minimum
	open    bool
	step    int
	ignored bool // all arguments are accepted and ignored
	kinds   []string
	rest    []string // kinds of all further arguments, repeating
	needs   string   // the flag without which the filter is unknown
	depends string   // what else the success of the constructor depends on
}

func readSpecs(text string) map[string]*spec {
	all := map[string]*spec{}
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		column := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		f := &spec{step: 1}
		arity, step, ok := strings.Cut(column[1], "/")
		if ok {
			f.step, _ = strconv.Atoi(step)
		}
		least, most, isRange := strings.Cut(arity, "..")
		for n := range strings.SplitSeq(least, ",") {
			i, _ := strconv.Atoi(n)
			f.arities = append(f.arities, i)
		}
		f.open = isRange && most == ""
		if last, err := strconv.Atoi(most); err == nil {
			for n := f.arities[0] + 1; n <= last; n++ {
				f.arities = append(f.arities, n)
			}
		}
		kinds, rest, _ := strings.Cut(column[2], "...")
		f.kinds, f.rest = strings.Fields(kinds), strings.Fields(rest)
		f.ignored = kinds == "any"
		if len(column) > 3 && column[3] != "-" {
			f.needs = column[3]
		}
		if len(column) > 4 {
			f.depends = column[4]
		}
		all[column[0]] = f
	}
	return all
}

// check returns why the constructor would refuse its arguments, unless only a running proxy can tell.
func (f *spec) check(args []any) error {
	if f.ignored {
		return nil
	}
	n, takes := len(args), slices.Contains(f.arities, len(args))
	if f.open {
		takes = n >= f.arities[0] && (n-f.arities[0])%f.step == 0
	}
	if !takes {
		return fmt.Errorf("number of arguments must be %s, got %d", f.arityText(), n)
	}
	for i, a := range args {
		kind := "s/n"
		switch {
		case i < len(f.kinds):
			kind = f.kinds[i]
		case len(f.rest) > 0:
			kind = f.rest[(i-len(f.kinds))%len(f.rest)]
		}
		if err := checkArgument(kind, a); err != nil {
			return fmt.Errorf("argument %d: %w", i+1, err)
		}
	}
	return nil
}

func (f *spec) arityText() string {
	if f.open {
		return fmt.Sprintf("at least %d", f.arities[0])
	}
	texts := make([]string, len(f.arities))
	for i, n := range f.arities {
		texts[i] = strconv.Itoa(n)
	}
	return strings.Join(texts, " or ")
}

func checkArgument(kinds string, a any) error {
	if _, ok := a.(string); ok && kinds == "s" {
		return nil // the common case
	}
	var want []string
	for kind := range strings.SplitSeq(kinds, "/") {
		s, isText := a.(string)
		n, isNumber := Number(a)
		switch {
		case isText && kind == "s", isNumber && kind == "n":
			return nil
		case isText && strings.HasPrefix(kind, "s"):
			if err := checkText(kind[len("s:"):], s); err != nil {
				return fmt.Errorf("%q: %w", s, err)
			}
			return nil
		case isNumber && !strings.HasPrefix(kind, "s"):
			return checkNumber(kind, n)
		case strings.HasPrefix(kind, "s"):
			want = append(want, "a string")
		default:
			want = append(want, "a number")
		}
	}
	if s, ok := a.(string); ok {
		return fmt.Errorf("%q: must be %s", s, strings.Join(want, " or "))
	}
	return fmt.Errorf("%v: must be %s", a, strings.Join(want, " or "))
}

// checkNumber checks a number against a range in the form n>0, n>=1, n0..1, int1..599 or int-1..
func checkNumber(kind string, n float64) error {
	ok, want := true, ""
	switch limits, whole := strings.CutPrefix(kind, "int"); {
	case whole:
		low, high, _ := strings.Cut(limits, "..")
		least, _ := strconv.ParseFloat(low, 64)
		most, err := strconv.ParseFloat(high, 64)
		if ok, want = n == math.Trunc(n) && n >= least, "a whole number from "+low; err == nil {
			ok, want = ok && n <= most, want+" to "+high
		}
	case kind == "n>0":
		ok, want = n > 0, "a number above 0"
	case kind == "n>=0":
		ok, want = n >= 0, "a number from 0"
	case kind == "n>=1":
		ok, want = n >= 1, "a number from 1"
	case kind == "n0..1":
		ok, want = n >= 0 && n <= 1, "a number from 0 to 1"
	}
	if !ok {
		return fmt.Errorf("%v: must be %s", n, want)
	}
	return nil
}

func checkText(kind, s string) (err error) {
	switch kind {
	case "+":
		if s == "" {
			return errors.New("must not be empty")
		}
	case "bool":
		_, err = strconv.ParseBool(s)
	case "regexp":
		_, err = syntax.Parse(s, syntax.Perl)
	case "regexp+":
		if _, err = syntax.Parse(s, syntax.Perl); s == "" {
			err = errors.New("the expression is empty")
		}
	case "net":
		if _, err = netip.ParsePrefix(s); err != nil {
			if a, wrong := netip.ParseAddr(s); wrong == nil && !a.IsUnspecified() {
				err = nil
			} else {
				err = errors.New("must be an IP address or a CIDR")
			}
		}
	case "sha256":
		if sum, wrong := hex.DecodeString(s); wrong != nil || len(sum) != sha256.Size {
			err = errors.New("must be 64 hexadecimal digits")
		}
	case "method":
		switch strings.ToUpper(s) {
		case "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "CONNECT", "OPTIONS", "TRACE":
		default:
			err = errors.New("must be a standard method")
		}
	case "duration", "duration+0":
		d, err := time.ParseDuration(s)
		if err != nil || d < 0 && kind == "duration+0" {
			return errors.New("must be a duration such as 10ms")
		}
	case "url", "url+", "uri":
		u, err := url.Parse(s)
		if err != nil || kind != "url" && u.Scheme == "" || kind == "url+" && u.Host == "" {
			return errors.New("must be a URL")
		}
	case "hex", "hex+":
		if _, err = hex.DecodeString(s); err == nil && s == "" && kind == "hex+" {
			err = errors.New("must be hexadecimal digits")
		}
	case "cidr":
		_, err = netip.ParsePrefix(s)
	case "ip":
		_, err = netip.ParseAddr(s)
	case "time":
		_, err = time.Parse(time.RFC3339, s)
	case "header", "headers":
		if kind == "headers" {
			s = strings.ReplaceAll(s, ",", "-")
		}
		if s == "" || strings.ContainsAny(s, " ()<>@,;:\\\"/[]?={}") {
			return errors.New("must be a header name")
		}
	case "dns":
		if !IsName(strings.TrimPrefix(s, "*.")) {
			return errors.New("must be a host name")
		}
	case "pair":
		if !strings.Contains(s, ":") {
			return errors.New("must be a path and a query separated by a colon")
		}
	default: // a list of allowed words
		for word := range strings.SplitSeq(kind, "|") {
			if s == word {
				return nil
			}
		}
		return fmt.Errorf("must be one of %s", strings.ReplaceAll(kind, "|", ", "))
	}
	return err
}

// Number converts a numeric argument. Routes created by programs may have ints.
func Number(a any) (float64, bool) {
	switch n := a.(type) {
	case float64:
		return n, !math.IsNaN(n)
	case int:
		return float64(n), true
	}
	return 0, false
}

// IsName reports whether a text has only letters, digits, dots, dashes and underscores, and does not end with a dot.
func IsName(s string) bool {
	return s != "" && !strings.HasSuffix(s, ".") && !strings.ContainsFunc(s, func(c rune) bool {
		return c != '_' && (c < '-' || c > '9' || c == '/') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') // from - . / to digits
	})
}
