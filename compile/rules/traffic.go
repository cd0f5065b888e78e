package rules

import (
	"slices"

	"github.com/routesrv/routesrv/eskip"
)

// share is a backend's part of the traffic.
type share struct {
	predicates []*eskip.Predicate
	// none marks a backend without traffic. Ingresses create no route for it, RouteGroups do.
	none bool
}

// split computes the share of each backend from the weights, in order of appearance. The result is by name; if a backend is
// repeated, its last share counts. keepZero returns Traffic(0) for a weight of zero. The float64 arithmetic has the same order of
// operations as the reference, because the numbers are printed. A single backend has all traffic, which is the zero share: the result
// is nil then. The predicates of many backends grow with the square of their number, so they count.
func (a TrafficAlgorithm) split(f *findings, names []string, weights []float64, keepZero bool) map[string]share {
	if len(names) == 1 {
		return nil
	}
	if a == TrafficSegmentPredicate {
		return segments(names, weights)
	}
	return shares(f, names, weights, keepZero)
}

func shares(f *findings, names []string, weights []float64, keepZero bool) map[string]share {
	sum := 0.0
	for _, w := range weights {
		sum += w
	}
	if sum == 0 {
		weights = make([]float64, len(names))
		for i := range weights {
			weights[i] = 1
		}
		sum = float64(len(names))
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
			s.predicates = append(s.predicates, predicate("Traffic", part))
			if n := len(names) - i - 2; n > 0 {
				f.size.add(&f.built, n*len("True() && "))
				s.predicates = append(s.predicates, slices.Repeat([]*eskip.Predicate{predicate("True")}, n)...)
			}
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
			s.predicates = []*eskip.Predicate{predicate("TrafficSegment", from, to)}
		}
		result[name] = s
	}
	return result
}

func predicate(name string, args ...any) *eskip.Predicate {
	return &eskip.Predicate{Name: name, Args: args}
}

func filter(name string, args ...any) *eskip.Filter { return &eskip.Filter{Name: name, Args: args} }
