package takeover

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
)

// Policy says which objects are kept because of what they take. The zero value keeps none.
type Policy struct {
	// Routes is how many routes of other namespaces an object may not take requests from; 0 means any number is fine.
	Routes int
}

// ParsePolicy reads "none", "namespace" or "namespace:N".
func ParsePolicy(s string) (Policy, error) {
	bad := fmt.Errorf("%q: want none, namespace or namespace:N, where N is how many routes of other namespaces must lose requests", s)
	what, number, counted := strings.Cut(s, ":")
	switch {
	case s == "none" || s == "":
		return Policy{}, nil
	case what != "namespace":
		return Policy{}, bad
	case !counted:
		return Policy{Routes: 1}, nil
	}
	n, err := strconv.Atoi(number)
	if err != nil || n < 1 {
		return Policy{}, bad
	}
	return Policy{Routes: n}, nil
}

// String returns what ParsePolicy reads.
func (p Policy) String() string {
	switch p.Routes {
	case 0:
		return "none"
	case 1:
		return "namespace"
	}
	return fmt.Sprintf("namespace:%d", p.Routes)
}

// Refused returns the new routes whose owner takes too much, by id, with what it takes. allowed says which owner lets which other take its requests.
func (p Policy) Refused(r *Report, allowed func(t *Takeover) bool) map[string]string {
	if p.Routes == 0 {
		return nil
	}
	type sum struct {
		lost  int
		first *Takeover
		by    []string
	}
	sums := make(map[string]*sum)
	for i := range r.Takeovers {
		t := &r.Takeovers[i]
		if !t.BetweenNamespaces() || allowed(t) {
			continue
		}
		s := sums[t.To.String()]
		if s == nil {
			s = &sum{first: t}
			sums[t.To.String()] = s
		}
		s.lost += t.Lost
		for _, one := range t.Taken {
			s.by = append(s.by, cmp.Or(one.Brought, one.By))
		}
	}
	refused := make(map[string]string)
	for _, s := range sums {
		if s.lost < p.Routes {
			continue
		}
		detail := "takes " + s.first.String()
		if more := s.lost - 1; more > 0 {
			detail += fmt.Sprintf(", and requests of %d more routes of other namespaces", more)
		}
		for _, id := range s.by {
			refused[id] = detail
		}
	}
	return refused
}
