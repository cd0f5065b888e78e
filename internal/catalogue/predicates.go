package catalogue

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/routesrv/routesrv/eskip"
)

// predicatesOf checks the predicates without a field, from left to right.
func (c *Catalogue) predicatesOf(predicates []*eskip.Predicate) (Reason, error) {
	for _, p := range predicates {
		switch p.Name {
		case "*", "Any", "Path", "PathSubtree", "Host", "PathRegexp", "Method", "Header", "HeaderRegexp":
			continue
		}
		if c.extraPredicates[p.Name] {
			continue
		}
		known := c.predicates[p.Name]
		if known == nil {
			return UnknownPredicate, fmt.Errorf("predicate %q not found", p.Name)
		}
		err := known.check(p.Args)
		if err == nil {
			err = checkMore(p)
		}
		if err != nil {
			return InvalidPredicateParams, fmt.Errorf("%s: %w", p, err)
		}
	}
	return "", nil
}

// checkMore checks rules that kinds of arguments cannot express.
func checkMore(p *eskip.Predicate) error {
	switch p.Name {
	case "TrafficSegment":
		from, _ := number(p.Args[0])
		if to, _ := number(p.Args[1]); to < from {
			return fmt.Errorf("%v to %v: the end is below the beginning", from, to)
		}
	case "ContentLengthBetween":
		from, _ := number(p.Args[0])
		to, _ := number(p.Args[1])
		if int64(from) < 0 || int64(to) <= int64(from) {
			return fmt.Errorf("%v to %v: want two numbers from 0, the second above the first", from, to)
		}
	case "Cron":
		return checkCron(p.Args[0].(string))
	case "Before", "After":
		return checkPeriod(p.Args, 1)
	case "Between":
		return checkPeriod(p.Args, 2)
	}
	return nil
}

// checkPeriod checks the limits of a period. It does not check names of time zones, because each proxy may know different ones.
func checkPeriod(args []any, limits int) error {
	zoned := len(args) > limits
	var times []time.Time
	for _, a := range args[:limits] {
		t, err := instant(a, zoned)
		if err != nil {
			return err
		}
		times = append(times, t)
	}
	if limits == 2 && !times[1].After(times[0]) {
		return errors.New("the end is not after the beginning")
	}
	return nil
}

func instant(a any, zoned bool) (time.Time, error) {
	s, _ := a.(string)
	if zoned {
		t, err := time.Parse("2006-01-02T15:04:05", s)
		if err != nil {
			return t, fmt.Errorf("%v: want a time without a zone, such as 2021-02-18T00:00:00", a)
		}
		return t, nil
	}
	if n, ok := number(a); ok {
		return time.Unix(int64(n), 0), nil
	}
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return t, fmt.Errorf("%v: want a time as in RFC 3339, or unix seconds as a number", a)
	}
	return t, nil
}

// checkCron checks the five fields of a Cron predicate: each is *, or a list of numbers and ranges.
func checkCron(text string) error {
	fields := strings.Fields(text)
	if len(fields) != 5 {
		return fmt.Errorf("%q: want five fields", text)
	}
	for i, limits := range [5][2]int{{0, 59}, {0, 23}, {1, 31}, {1, 12}, {0, 6}} {
		for part := range strings.SplitSeq(fields[i], ",") {
			if part == "*" {
				continue
			}
			from, to, isRange := strings.Cut(part, "-")
			if !isRange {
				to = from
			}
			low, wrongLow := strconv.Atoi(from)
			high, wrongHigh := strconv.Atoi(to)
			switch {
			case wrongLow != nil || wrongHigh != nil:
				return fmt.Errorf("%q: field %q: want *, numbers and ranges", text, fields[i])
			case low < limits[0] || high > limits[1] || low > high:
				return fmt.Errorf("%q: field %q: want numbers from %d to %d", text, fields[i], limits[0], limits[1])
			}
		}
	}
	return nil
}

// pathArgument returns the pattern of a path predicate.
func pathArgument(p *eskip.Predicate) (pattern string, err error) {
	if len(p.Args) != 1 {
		return "", fmt.Errorf("%s: %d arguments: want 1", p, len(p.Args))
	}
	pattern, ok := p.Args[0].(string)
	if !ok {
		return "", fmt.Errorf("%s: argument 1 is %v: want a string", p, p.Args[0])
	}
	return pattern, nil
}

func isPath(p *eskip.Predicate) bool { return p.Name == "Path" || p.Name == "PathSubtree" }

// checkPaths refuses more than one path, and path predicates whose argument is not a string.
func checkPaths(r *eskip.Route) error {
	given := 0
	if r.Path != "" {
		given++
	}
	for _, p := range r.Predicates {
		if !isPath(p) {
			continue
		}
		pattern, err := pathArgument(p)
		if err != nil {
			return err
		}
		if pattern != "" {
			given++
		}
		if given > 1 {
			return errors.New("more than one of Path and PathSubtree")
		}
	}
	return nil
}

// checkPatterns refuses a free wildcard that is not the last segment of its path.
func checkPatterns(r *eskip.Route) error {
	if err := checkPattern(r.Path); err != nil {
		return err
	}
	for _, p := range r.Predicates {
		if !isPath(p) {
			continue
		}
		if pattern, err := pathArgument(p); err == nil {
			if err := checkPattern(pattern); err != nil {
				return err
			}
		}
	}
	return nil
}

func checkPattern(pattern string) error {
	if strings.IndexByte(pattern, '*') < 0 {
		return nil
	}
	segments := segmentsOf(pattern)
	at := slices.IndexFunc(segments, func(s string) bool { return strings.HasPrefix(s, "*") })
	if at >= 0 && at < len(segments)-1 {
		return errors.New("free wildcard param should be last")
	}
	return nil
}

// segmentsOf returns the segments of a pattern as a proxy sees them: without empty segments, "." and "..", except an empty last
// one if the pattern ends with a slash.
func segmentsOf(pattern string) []string {
	var kept []string
	for s := range strings.SplitSeq(pattern, "/") {
		switch s {
		case "", ".":
		case "..":
			if len(kept) > 0 {
				kept = kept[:len(kept)-1]
			}
		default:
			kept = append(kept, s)
		}
	}
	if len(kept) > 0 && len(pattern) > 2 && (strings.HasSuffix(pattern, "/") || strings.HasSuffix(pattern, "/.")) {
		kept = append(kept, "")
	}
	return kept
}
