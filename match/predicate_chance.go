package match

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

func newTraffic(_ *builder, args []any) (condition, error) {
	if len(args) != 1 && len(args) != 3 {
		return condition{}, fmt.Errorf("%d arguments: want 1 or 3", len(args))
	}
	p, err := shares(args[:1])
	if err != nil {
		return condition{}, err
	}
	named, err := texts(args[1:], 0, 2)
	if err != nil {
		return condition{}, err
	}
	c := condition{chance: p[0], why: fmt.Sprintf("holds for a random %.4g %% of the requests", 100*p[0])}
	c.test = func(r *request) verdict {
		if len(named) == 2 && named[1] != "" {
			if group, ok := r.cookie(named[0]); ok {
				return verdictOf(group == named[1])
			}
		}
		switch p[0] {
		case 0:
			return no
		case 1:
			return yes
		}
		return maybe
	}
	return c, nil
}

// shares parses numbers from 0 to 1.
func shares(args []any) ([]float64, error) {
	p, err := numbers(args, len(args), len(args))
	for _, n := range p {
		if n < 0 || n > 1 {
			return nil, fmt.Errorf("%v: want a number from 0 to 1", n)
		}
	}
	return p, err
}

func newTrafficSegment(_ *builder, args []any) (condition, error) {
	if err := arity(args, 2, 2); err != nil {
		return condition{}, err
	}
	p, err := shares(args)
	if err != nil {
		return condition{}, err
	}
	if p[1] < p[0] {
		return condition{}, fmt.Errorf("%v to %v: the end is below the beginning", p[0], p[1])
	}
	v := maybe
	switch {
	case p[0] == p[1]:
		v = no
	case p[1]-p[0] == 1:
		v = yes
	}
	return condition{
		test: func(*request) verdict { return v }, segment: &[2]float64{p[0], p[1]}, chance: p[1] - p[0],
		why: fmt.Sprintf("holds for the requests whose random number is from %v to %v", p[0], p[1]),
	}, nil
}

// instant is a limit of Before, After and Between.
type instant struct {
	at    time.Time
	known bool // the time zone is known
}

func newPeriod(name string) constructor {
	limits := 1
	if name == "Between" {
		limits = 2
	}
	return func(b *builder, args []any) (condition, error) {
		if err := arity(args, limits, limits+1); err != nil {
			return condition{}, err
		}
		var zone *string
		if len(args) > limits {
			s, ok := args[limits].(string)
			if !ok {
				return condition{}, fmt.Errorf("location %v: want a string", args[limits])
			}
			zone = &s
		}
		var low, high *instant
		for i, a := range args[:limits] {
			t, err := b.instant(a, zone)
			if err != nil {
				return condition{}, err
			}
			if name == "Before" || i == 1 {
				high = &t
			} else {
				low = &t
			}
		}
		if low != nil && high != nil && !high.at.After(low.at) {
			return condition{}, errors.New("the end is not after the beginning")
		}
		return condition{
			chance: -1, why: "depends on the clock and time zone of the proxy",
			test: func(r *request) verdict { return min(r.reached(low, true), r.reached(high, false)) },
		}, nil
	}
}

// reached reports whether a limit is reached, or, if want is false, not yet reached. Without a limit both hold.
func (r *request) reached(limit *instant, want bool) verdict {
	switch {
	case limit == nil:
		return yes
	case !limit.known, r.time.IsZero(), r.slack > 0 && r.time.Sub(limit.at).Abs() <= r.slack:
		return maybe
	}
	return verdictOf(!r.time.Before(limit.at) == want)
}

func (b *builder) instant(a any, zone *string) (instant, error) {
	if zone == nil {
		if n, ok := number(a); ok {
			return instant{time.Unix(int64(n), 0), true}, nil
		}
		s, _ := a.(string)
		t, err := time.Parse(time.RFC3339, s)
		if err != nil {
			return instant{}, fmt.Errorf("%v: want a time as in RFC 3339, or unix seconds as a number", a)
		}
		return instant{t, true}, nil
	}
	location, err := b.zone(*zone)
	if err != nil {
		return instant{}, err
	}
	s, _ := a.(string)
	t, err := time.ParseInLocation("2006-01-02T15:04:05", s, orUTC(location))
	if err != nil {
		return instant{}, fmt.Errorf("%v: want a time without a zone, such as 2021-02-18T00:00:00", a)
	}
	return instant{t, location != nil}, nil
}

// orUTC returns UTC for an unknown zone.
func orUTC(l *time.Location) *time.Location {
	if l == nil {
		return time.UTC
	}
	return l
}

// zone returns the location of a name, or nil if Options.Zone is nil.
func (b *builder) zone(name string) (*time.Location, error) {
	switch {
	case name == "" || name == "UTC":
		return time.UTC, nil
	case b.options.Zone == nil:
		return nil, nil
	}
	location, err := b.options.Zone(name)
	if err != nil {
		return nil, fmt.Errorf("time zone %q: %w", name, err)
	}
	return location, nil
}

// cronFields returns the limits of minute, hour, day, month and weekday.
func cronFields() [5][2]int { return [5][2]int{{0, 59}, {0, 23}, {1, 31}, {1, 12}, {0, 6}} }

func newCron(_ *builder, args []any) (condition, error) {
	t, err := texts(args, 1, 1)
	if err != nil {
		return condition{}, err
	}
	fields := strings.Fields(t[0])
	if len(fields) != 5 {
		return condition{}, fmt.Errorf("%q: want five fields", t[0])
	}
	var sets [5]uint64
	for i, limits := range cronFields() {
		if sets[i], err = cronSet(fields[i], limits); err != nil {
			return condition{}, fmt.Errorf("%q: %w", t[0], err)
		}
	}
	holds := func(t time.Time) bool {
		for i, n := range []int{t.Minute(), t.Hour(), t.Day(), int(t.Month()), int(t.Weekday())} {
			if sets[i]&(1<<n) == 0 {
				return false
			}
		}
		return true
	}
	return condition{
		chance: -1, why: "depends on the clock and time zone of the proxy",
		test: func(r *request) verdict {
			if r.time.IsZero() {
				return maybe
			}
			now := holds(r.time)
			end := r.time.Add(r.slack)
			for at := r.time.Add(-r.slack); !at.After(end); at = at.Add(min(time.Minute, max(end.Sub(at), 1))) {
				if holds(at) != now {
					return maybe
				}
			}
			return verdictOf(now)
		},
	}, nil
}

// cronSet parses a field: *, or a list of numbers and ranges. Bit n is set if n is included.
func cronSet(field string, limits [2]int) (set uint64, err error) {
	for part := range strings.SplitSeq(field, ",") {
		low, high := limits[0], limits[1]
		if part != "*" {
			from, to, isRange := strings.Cut(part, "-")
			if !isRange {
				to = from
			}
			var errs [2]error
			low, errs[0] = strconv.Atoi(from)
			high, errs[1] = strconv.Atoi(to)
			if err := errors.Join(errs[:]...); err != nil {
				return 0, fmt.Errorf("field %q: want *, numbers and ranges", field)
			}
		}
		if low < limits[0] || high > limits[1] || low > high {
			return 0, fmt.Errorf("field %q: want numbers from %d to %d", field, limits[0], limits[1])
		}
		for n := low; n <= high; n++ {
			set |= 1 << n
		}
	}
	return set, nil
}

// intervals splits the range from 0 to 1 at the limits of all ranges.
func intervals(ranges []*[2]float64) [][2]float64 {
	cuts := []float64{0, 1}
	for _, r := range ranges {
		cuts = append(cuts, r[0], r[1])
	}
	slices.Sort(cuts)
	cuts = slices.Compact(cuts)
	all := make([][2]float64, 0, len(cuts)-1)
	for i := range len(cuts) - 1 {
		all = append(all, [2]float64{cuts[i], math.Min(cuts[i+1], 1)})
	}
	return all
}
