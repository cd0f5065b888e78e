package rules

import (
	"slices"

	"github.com/routesrv/routesrv/eskip"
)

// share is a backend's part of the traffic. The zero share is all of it.
type share struct {
	part *eskip.Predicate // nil for all
	// rest is how many True() predicates follow, one for each backend that is split off later. They are made for each route: those of all
	// backends grow with the square of their number.
	rest int
	// none marks a backend without traffic. Ingresses create no route for it, RouteGroups do.
	none bool
}

// split adds the predicates of the share to a route.
func (s share) split(r *eskip.Route) {
	if s.part != nil {
		r.Predicates = append(r.Predicates, s.part)
		r.Predicates = append(r.Predicates, slices.Repeat([]*eskip.Predicate{predicate("True")}, s.rest)...)
	}
}

// split computes the share of each backend from the weights, in order of appearance. The result is by name; if a backend is
// repeated, its last share counts. keepZero returns Traffic(0) for a weight of zero. The float64 arithmetic has the same order of
// operations as the reference, because the numbers are printed. A single backend has all traffic: the result is nil then.
func (a TrafficAlgorithm) split(names []string, weights []float64, keepZero bool) map[string]share {
	if len(names) == 1 {
		return nil
	}
	if a == TrafficSegmentPredicate {
		return segments(names, weights)
	}
	return shares(names, weights, keepZero)
}

func shares(names []string, weights []float64, keepZero bool) map[string]share {
	sum := 0.0
	for _, w := range weights {
		sum += w
	}
	if sum == 0 {
		weights, sum = slices.Repeat([]float64{1}, len(names)), float64(len(names))
	}
	last := 0
	for i, w := range weights {
		if w > 0 {
			last = i
		}
	}
	result := make(map[string]share, len(names))
	for i, name := range names {
		part := 0.0
		switch {
		case i == last:
			part = 1
		case weights[i] != 0:
			part = weights[i] / sum
		}
		sum -= weights[i]
		s := share{none: part <= 0}
		if part != 1 && (!s.none || keepZero) {
			s.part, s.rest = predicate("Traffic", part), max(0, len(names)-i-2)
		}
		result[name] = s
	}
	return result
}

func segments(names []string, weights []float64) map[string]share {
	type segment struct{ from, to float64 }
	bounds := make(map[string]segment, len(names))
	total := 0.0
	for i, name := range names {
		if _, ok := bounds[name]; !ok {
			bounds[name] = segment{total, total + weights[i]}
			total += weights[i]
		}
	}
	if total == 0 {
		for _, name := range names {
			bounds[name] = segment{total, total + 1}
			total++
		}
	}
	result := make(map[string]share, len(bounds))
	for name, b := range bounds {
		from, to := b.from/total, b.to/total
		s := share{none: from == to}
		if from != 0 || to != 1 {
			s.part = predicate("TrafficSegment", from, to)
		}
		result[name] = s
	}
	return result
}
