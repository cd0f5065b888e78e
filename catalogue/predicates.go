package catalogue

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/routesrv/routesrv/eskip"
)

// matched are the predicates that the matcher has fields for, and PathSubtree.
var matched = []string{"Path", "PathSubtree", "PathRegexp", "Host", "Method", "Header", "HeaderRegexp"}

// Predicate checks a predicate. Check checks the arguments of those with a field in eskip.Route.
func (c *Catalogue) Predicate(p *eskip.Predicate) (Reason, error) {
	if p.Name == "*" || p.Name == "Any" || slices.Contains(matched, p.Name) || slices.Contains(c.options.ExtraPredicates, p.Name) {
		return "", nil
	}
	known := c.predicates[p.Name]
	if known == nil {
		return UnknownPredicate, fmt.Errorf("predicate %q not found", p.Name)
	}
	err := known.check(p.Args)
	if err == nil {
		err = c.checkMore(p)
	}
	if err != nil {
		return InvalidPredicateParams, fmt.Errorf("%s: %w", p, err)
	}
	return "", nil
}

// checkMore checks rules that kinds of arguments cannot express.
func (c *Catalogue) checkMore(p *eskip.Predicate) (err error) {
	switch p.Name {
	case "TrafficSegment":
		from, _ := Number(p.Args[0])
		if to, _ := Number(p.Args[1]); to < from {
			return fmt.Errorf("%v to %v: the end is below the beginning", from, to)
		}
	case "ContentLengthBetween":
		from, _ := Number(p.Args[0])
		to, _ := Number(p.Args[1])
		if int64(from) < 0 || int64(to) <= int64(from) {
			return fmt.Errorf("%v to %v: must be two numbers from 0, the second above the first", from, to)
		}
	case "Cron":
		_, err = Cron(p.Args[0].(string))
	case "Before", "After", "Between":
		_, _, err = c.Period(p)
	}
	return err
}

// Period returns the limits of Before, After or Between. known is false if only the proxies know their time zone.
func (c *Catalogue) Period(p *eskip.Predicate) (limits []time.Time, known bool, err error) {
	n := 1
	if p.Name == "Between" {
		n = 2
	}
	known = true
	var zone *time.Location // nil for times that have their own
	if len(p.Args) > n {
		name, _ := p.Args[n].(string)
		zone, known = time.UTC, name == "" || name == "UTC"
		if !known && c.options.Zone != nil {
			if zone, err = c.options.Zone(name); err != nil {
				return nil, false, fmt.Errorf("time zone %q: %w", name, err)
			}
			known = true
		}
	}
	for _, a := range p.Args[:n] {
		t, err := instant(a, zone)
		if err != nil {
			return nil, false, err
		}
		limits = append(limits, t)
	}
	if n == 2 && !limits[1].After(limits[0]) {
		return nil, false, errors.New("the end is not after the beginning")
	}
	return limits, known, nil
}

func instant(a any, zone *time.Location) (time.Time, error) {
	s, _ := a.(string)
	if zone != nil {
		t, err := time.ParseInLocation("2006-01-02T15:04:05", s, zone)
		if err != nil {
			return t, fmt.Errorf("%v: must be a time without a zone, such as 2021-02-18T00:00:00", a)
		}
		return t, nil
	}
	if n, ok := Number(a); ok {
		return time.Unix(int64(n), 0), nil
	}
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return t, fmt.Errorf("%v: must be a time in RFC 3339 format, or Unix seconds as a number", a)
	}
	return t, nil
}

// Cron parses a Cron predicate: five fields of *, or numbers and ranges. Bit n of a set stands for n.
func Cron(text string) (sets [5]uint64, err error) {
	fields := strings.Fields(text)
	if len(fields) != len(sets) {
		return sets, fmt.Errorf("%q: must have five fields", text)
	}
	for i, limits := range [...][2]int{{0, 59}, {0, 23}, {1, 31}, {1, 12}, {0, 6}} {
		for part := range strings.SplitSeq(fields[i], ",") {
			low, high := limits[0], limits[1]
			if part != "*" {
				from, to, isRange := strings.Cut(part, "-")
				if !isRange {
					to = from
				}
				var wrongLow, wrongHigh error
				low, wrongLow = strconv.Atoi(from)
				high, wrongHigh = strconv.Atoi(to)
				if wrongLow != nil || wrongHigh != nil {
					return sets, fmt.Errorf("%q: field %q: must be *, numbers and ranges", text, fields[i])
				}
			}
			if low < limits[0] || high > limits[1] || low > high {
				return sets, fmt.Errorf("%q: field %q: must be numbers from %d to %d", text, fields[i], limits[0], limits[1])
			}
			for n := low; n <= high; n++ {
				sets[i] |= 1 << n
			}
		}
	}
	return sets, nil
}

// patternsOf returns the patterns of the path predicates of a route. An empty one matches any path, but a proxy counts it.
func patternsOf(r *eskip.Route) (patterns []string, err error) {
	if r.Path != "" {
		patterns = append(patterns, r.Path)
	}
	for _, p := range r.Predicates {
		if p.Name != "Path" && p.Name != "PathSubtree" {
			continue
		}
		if len(p.Args) != 1 {
			return nil, fmt.Errorf("%s: number of arguments must be 1, got %d", p, len(p.Args))
		}
		pattern, ok := p.Args[0].(string)
		if !ok {
			return nil, fmt.Errorf("%s: argument 1 is %v: must be a string", p, p.Args[0])
		}
		patterns = append(patterns, pattern)
	}
	return patterns, nil
}

// checkPatterns refuses a free wildcard that is not the last segment of its path.
func checkPatterns(patterns []string) error {
	for _, pattern := range patterns {
		if strings.IndexByte(pattern, '*') < 0 {
			continue
		}
		segments := strings.Split(CleanPath(pattern), "/")
		at := slices.IndexFunc(segments, func(s string) bool { return strings.HasPrefix(s, "*") })
		if at >= 0 && at < len(segments)-1 {
			return errors.New("free wildcard param should be last")
		}
	}
	return nil
}

// CleanPath normalises a path of a request or a pattern as the reference does first. It keeps a trailing slash if the input has
// more than two bytes and ends with a slash or a "." segment.
func CleanPath(p string) string {
	clean := path.Clean("/" + p)
	if clean != "/" && (len(p) > 2 && strings.HasSuffix(p, "/") || strings.HasSuffix(p, "/.")) {
		clean += "/"
	}
	return clean
}
