package rules

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/routesrv/routesrv/eskip"
	"github.com/routesrv/routesrv/kube"
)

func missingService(namespace, name string) string {
	return fmt.Sprintf("there is no Service %q in the namespace %q, so the routes to it are left out", name, kube.NamespaceOrDefault(namespace))
}

func noPort(svc *kube.Service, name, given string) string {
	var has []string
	for _, p := range svc.Ports {
		number := strconv.Itoa(p.Port)
		if given == number || given == p.Name {
			return fmt.Sprintf("the port %s of Service %q has no target port", given, name)
		}
		if p.Name != "" {
			number += fmt.Sprintf(" (%q)", p.Name)
		}
		has = append(has, number)
	}
	if _, err := strconv.Atoi(given); err != nil {
		given = strconv.Quote(given)
	}
	if len(has) == 0 {
		return fmt.Sprintf("Service %q has no port %s, and no other port", name, given)
	}
	return fmt.Sprintf("Service %q has no port %s, only %s", name, given, strings.Join(has, ", "))
}

// Zones counts the ready pods by zone; nil if zones are not known: without EndpointSlices.
func (s *Service) Zones() map[string]int {
	if len(s.slices) == 0 {
		return nil
	}
	addresses := make(map[string]map[string]bool)
	for _, e := range s.slices.endpoints() {
		if addresses[e.zone] == nil {
			addresses[e.zone] = make(map[string]bool)
		}
		addresses[e.zone][e.address] = true
	}
	zones := make(map[string]int)
	for zone, of := range addresses {
		zones[zone] = pods(of)
	}
	return zones
}

func (f *findings) checkWeights(names []string, weights []float64) {
	if total(weights) == 0 {
		return
	}
	for i, w := range weights {
		if w != 0 {
			continue
		}
		f.ownf(Problem{Reason: ZeroWeight, Severity: Info, About: names[i]},
			"the backend %q has the weight 0 beside backends with more, so it gets no traffic", names[i])
	}
}

// checkWeightNames reports weights for names that are not backends: with a typo there, another backend gets the traffic.
func (b *ingressBuilder) checkWeightNames() {
	if len(b.ann.weights) == 0 {
		return
	}
	known := map[string]bool{}
	for i := range b.ing.Spec.Rules {
		for _, p := range b.ing.Spec.Rules[i].Paths {
			if p.Backend != nil {
				known[p.Backend.Service] = true
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(b.ann.weights)) {
		if !known[name] {
			b.ownf(Problem{Reason: InvalidAnnotation, Severity: Warning},
				"the annotation %s has a weight for %q, which is no backend of the object, so the weight does not count", weightsAnnotation, name)
		}
	}
}

// share is a backend's part of the traffic. The zero share is all of it.
type share struct {
	part *eskip.Predicate // nil for all
	// rest is how many True() predicates follow, one for each backend that is split off later.
	rest int
	// none marks a backend without traffic. Ingresses create no route for it, RouteGroups do.
	none bool
}

func (s share) split(r *eskip.Route) {
	if s.part != nil {
		r.Predicates = append(r.Predicates, s.part)
		r.Predicates = append(r.Predicates, slices.Repeat([]*eskip.Predicate{predicate("True")}, s.rest)...)
	}
}

// split computes the share of each backend by name, of a repeated one the last. keepZero returns Traffic(0) for a weight of
// zero. The numbers are printed, so the arithmetic has the order of the reference. A single backend has all traffic: the result
// is nil.
func (a TrafficAlgorithm) split(names []string, weights []float64, keepZero bool) map[string]share {
	if len(names) == 1 {
		return nil
	}
	if a == TrafficSegmentPredicate {
		return segments(names, weights)
	}
	return shares(names, weights, keepZero)
}

func total(weights []float64) (sum float64) {
	for _, w := range weights {
		sum += w
	}
	return sum
}

func shares(names []string, weights []float64, keepZero bool) map[string]share {
	sum := total(weights)
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
