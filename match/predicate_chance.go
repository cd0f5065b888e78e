package match

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/routesrv/routesrv/eskip"
	"github.com/routesrv/routesrv/internal/catalogue"
)

func newTraffic(args []any) condition {
	share, _ := catalogue.Number(args[0])
	c := condition{chance: share, why: fmt.Sprintf("holds for a random %.4g %% of the requests", 100*share)}
	c.test = func(r *request) verdict {
		if len(args) == 3 && args[2] != "" {
			if group, ok := r.cookie(args[1].(string)); ok {
				return verdictOf(group == args[2])
			}
		}
		switch share {
		case 0:
			return no
		case 1:
			return yes
		}
		return maybe
	}
	return c
}

func newTrafficSegment(args []any) condition {
	from, _ := catalogue.Number(args[0])
	to, _ := catalogue.Number(args[1])
	v := maybe
	switch to - from {
	case 0:
		v = no
	case 1:
		v = yes
	}
	return condition{
		test: func(*request) verdict { return v }, segment: &[2]float64{from, to}, chance: to - from,
		why: fmt.Sprintf("holds for the requests whose random number is from %v to %v", from, to),
	}
}

// dependsOnClock is why predicates about time may be undecided.
const dependsOnClock = "depends on the clock and time zone of the proxy"

// period returns the condition of Before, After or Between.
func (b *builder) period(p *eskip.Predicate) condition {
	limits, known, _ := b.catalogue.Period(p)
	reached := func(r *request, limit time.Time) verdict {
		if !known || r.time.IsZero() || r.slack > 0 && r.time.Sub(limit).Abs() <= r.slack {
			return maybe
		}
		return verdictOf(!r.time.Before(limit))
	}
	return condition{chance: -1, why: dependsOnClock, test: func(r *request) verdict {
		switch v := reached(r, limits[0]); p.Name {
		case "Before":
			return v.not()
		case "Between":
			return min(v, reached(r, limits[1]).not())
		default:
			return v
		}
	}}
}

func newCron(text string) condition {
	sets, _ := catalogue.Cron(text)
	holds := func(t time.Time) bool {
		for i, n := range []int{t.Minute(), t.Hour(), t.Day(), int(t.Month()), int(t.Weekday())} {
			if sets[i]&(1<<n) == 0 {
				return false
			}
		}
		return true
	}
	return condition{chance: -1, why: dependsOnClock, test: func(r *request) verdict {
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
	}}
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
