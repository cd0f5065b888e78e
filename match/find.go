package match

import (
	"cmp"
	"slices"
	"strings"

	"github.com/routesrv/routesrv/eskip"
)

// Find finds the route of a request.
func (t *Table) Find(in Request) Result {
	r, answer := prepare(in, t.options)
	if answer != nil {
		return Result{Answer: answer}
	}
	s := search{r: r, key: hostKey(r.host)}
	n := cmp.Or(t.options.Candidates, DefaultCandidates)
	t.routes.visit(r.segments, s.key, s.take)
	s.close()
	res := Result{Host: r.host, Path: r.path, Outcomes: outcomes(s.groups, r.segments)}
	for i := range res.Outcomes {
		if o := &res.Outcomes[i]; o.Route != nil {
			o.Notes = t.catalogue.Notes(o.Route)
		}
	}
	if n > 0 {
		var sameHost []*entry
		if last := res.Outcomes[len(res.Outcomes)-1]; last.Route == nil {
			sameHost = t.routes.hosts[s.key] // then the path of the request may be wrong
		}
		res.Candidates = s.candidates(sameHost, n)
	}
	res.Warnings = s.warnings(t.refused)
	return res
}

// Limits of the search for an explanation: a place may have thousands of routes.
const (
	maxExplained = 512
	maxWarnings  = 20
)

type search struct {
	r   *request
	key string

	groups []group // up to the first group with a route that certainly holds
	last   group   // the group being filled
	done   bool    // groups are complete

	losers []loser
}

type loser struct {
	e       *entry
	rank    string
	offPath bool // its path does not match
	shared  int  // how much of the path agrees with its pattern
	failed  []*condition
	open    []*condition
}

func (s *search) take(rank string, e *entry) bool {
	if hits := s.last.hits; len(hits) > 0 && (hits[0].e.weight != e.weight || hits[0].rank != rank) {
		s.close()
	}
	v := e.ask(s.r)
	if v != no && !s.done {
		h := hit{e: e, rank: rank}
		if v == maybe {
			h.open, _ = e.open(s.r)
		}
		s.last.hits = append(s.last.hits, h)
		s.last.ended = s.last.ended || v == yes
		return true
	}
	if len(s.losers) < maxExplained {
		l := loser{e: e, rank: rank}
		l.open, l.failed = e.open(s.r)
		s.losers = append(s.losers, l)
		return true
	}
	return !s.done
}

func (s *search) close() {
	if len(s.last.hits) > 0 {
		s.groups = append(s.groups, s.last)
		s.done = s.last.ended
		s.last = group{}
	}
}

// candidates returns the n next best routes: from the visited routes, and from others that accept the same host.
func (s *search) candidates(sameHost []*entry, n int) []Candidate {
	losers := s.losers
	known := map[*entry]bool{}
	for _, l := range losers {
		known[l.e] = true
	}
	listed := map[*entry]bool{}
	for _, g := range s.groups {
		for _, h := range g.hits {
			known[h.e], listed[h.e] = true, true
		}
	}
	for _, e := range sameHost {
		if len(losers) >= 2*maxExplained {
			break
		}
		if !known[e] && len(e.patterns) > 0 {
			known[e] = true
			l := loser{e: e, offPath: true, shared: e.patterns[0].shared(s.r.segments)}
			l.open, l.failed = e.open(s.r)
			losers = append(losers, l)
		}
	}
	best := slices.SortedStableFunc(slices.Values(losers), func(a, b loser) int {
		return cmp.Or(cmp.Compare(a.distance(), b.distance()), cmp.Compare(b.shared, a.shared))
	})
	var all []Candidate
	for _, l := range best {
		if len(all) == n {
			break
		}
		if listed[l.e] {
			continue // a subtree has several places
		}
		listed[l.e] = true
		all = append(all, s.candidate(l))
	}
	return all
}

// distance counts what does not match: a path more than one predicate, and a host more than two.
func (l loser) distance() int {
	d := 2 * len(l.failed)
	if l.offPath {
		d += 3
	}
	if slices.ContainsFunc(l.failed, func(c *condition) bool { return c.host }) {
		d += 3
	}
	return d
}

func (s *search) candidate(l loser) Candidate {
	c := Candidate{Route: l.e.route, Weight: l.e.weight, Open: undecided(l.open)}
	if l.offPath {
		c.Lost = append(c.Lost, l.e.place())
	}
	for _, f := range l.failed {
		c.Lost = append(c.Lost, f.text())
	}
	if len(c.Lost) == 0 {
		// A matching route is behind only if a group ended the search before it.
		end := s.groups[len(s.groups)-1].hits[0]
		switch {
		case l.rank == end.rank:
			c.Behind = LowerWeight
		case l.rank == rootRank:
			c.Behind = NoPath
		default:
			c.Behind = LessSpecific
		}
	}
	return c
}

func (s *search) warnings(refused *index) []Warning {
	var all []Warning
	seen := map[*entry]bool{}
	refused.visit(s.r.segments, s.key, func(rank string, e *entry) bool {
		if !seen[e] && e.ask(s.r) != no {
			seen[e] = true
			all = append(all, Warning{*e.refusal, s.ahead(rank, e.weight), e.partly})
		}
		return len(all) < maxWarnings
	})
	return all
}

func (s *search) ahead(rank string, weight int) bool {
	if len(s.groups) == 0 {
		return true
	}
	first := s.groups[0].hits[0]
	return cmp.Or(strings.Compare(rank, first.rank), cmp.Compare(first.e.weight, weight)) < 0
}

func (e *entry) place() string {
	if e.route.Path != "" {
		return (&eskip.Predicate{Name: "Path", Args: []any{e.route.Path}}).String()
	}
	for _, p := range e.route.Predicates {
		if p.Name == "PathSubtree" && len(e.patterns) > 0 {
			return p.String()
		}
	}
	return ""
}

// index finds the routes that a request can reach, in the order of the reference. A route that accepts only certain hosts is
// considered only for these, so a table of thousands of hosts is as fast as one of a few.
type index struct {
	all   []*entry
	hosts map[string][]*entry // by the hosts that they accept
	loose []*entry            // that may accept any host
}

func newIndex() *index { return &index{hosts: map[string][]*entry{}} }

func (x *index) add(e *entry) {
	x.all = append(x.all, e)
	if e.hosts == nil {
		x.loose = append(x.loose, e)
	}
	for _, host := range e.hosts {
		x.hosts[host] = append(x.hosts[host], e)
	}
}

// place is an entry at a place that matches the path of a request. More specific places have ranks that sort first.
type place struct {
	rank string
	*entry
}

const rootRank = "\xff"

func places(entries []*entry, path []string) (found []place) {
	for _, e := range entries {
		if len(e.patterns) == 0 {
			found = append(found, place{rootRank, e})
		}
		for i := range e.patterns {
			if rank, ok := e.patterns[i].rank(path); ok {
				found = append(found, place{rank, e})
			}
		}
	}
	return found
}

// visit calls f with the entries that may accept the host and the path, in search order, until f returns false.
func (x *index) visit(path []string, host string, f func(rank string, e *entry) bool) {
	found := append(places(x.hosts[host], path), places(x.loose, path)...)
	slices.SortStableFunc(found, func(a, b place) int {
		return cmp.Or(strings.Compare(a.rank, b.rank), cmp.Compare(b.weight, a.weight), strings.Compare(a.route.Id, b.route.Id))
	})
	for _, p := range found {
		if !f(p.rank, p.entry) {
			return
		}
	}
}
