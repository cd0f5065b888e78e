package compile

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/routesrv/routesrv/compile/rules"
)

// claim is a route that claims an id.
type claim struct {
	section *section
	at      int // in the section
}

func (c claim) route() *rules.Route { return &c.section.routes[c.at] }

// claimsOf yields the routes of sections.
func claimsOf(sections []section) iter.Seq[claim] {
	return func(yield func(claim) bool) {
		for i := range sections {
			for at := range sections[i].routes {
				if !yield(claim{&sections[i], at}) {
					return
				}
			}
		}
	}
}

// claims decides which route gets an id that several routes claim.
type claims struct {
	all iter.Seq[claim]

	// losers do not get their id; contenders are the routes that claim an id, the winner first, by id.
	losers     map[*rules.Route]struct{}
	contenders map[string][]claim
}

// newClaims gives each id to one route.
func newClaims(all iter.Seq[claim]) *claims {
	c := &claims{all: all, losers: make(map[*rules.Route]struct{}), contenders: make(map[string][]claim)}
	var texts rules.Texts
	for _, several := range repeated(all, func(r *rules.Route) uint64 { return r.ID }) {
		for _, claim := range several {
			id := texts.ID(claim.section.unit, claim.route())
			c.contenders[id] = append(c.contenders[id], claim)
		}
	}
	for id, all := range c.contenders {
		for _, loser := range oldest(all)[1:] {
			c.losers[loser.route()] = struct{}{}
		}
		if len(all) == 1 {
			delete(c.contenders, id) // two ids with the same hash
		}
	}
	return c
}

// repeated returns the claims that share their hash with another one, by hash. It ignores the hash 0. Nearly all hashes are
// unique; a bitmap filters them out in a fraction of the time that a map of all hashes would take.
func repeated(all iter.Seq[claim], hash func(*rules.Route) uint64) map[uint64][]claim {
	words := uint64(1) // with 32 bits or more for each claim, few share one by chance
	for range all {
		words++
	}
	words = (words + 1) / 2
	once, again := make([]uint64, words), make([]uint64, words)
	for c := range all {
		if h := hash(c.route()); h != 0 {
			at, bit := h/64%words, uint64(1)<<(h%64)
			again[at] |= once[at] & bit
			once[at] |= bit
		}
	}
	several := make(map[uint64][]claim)
	for c := range all {
		if h := hash(c.route()); h != 0 && again[h/64%words]>>(h%64)&1 != 0 {
			several[h] = append(several[h], c)
		}
	}
	maps.DeleteFunc(several, func(_ uint64, of []claim) bool { return len(of) < 2 })
	return several
}

// oldest sorts claims in the order of the reference and moves the claim of the oldest object to the front. If creation times are
// equal or missing, the order of the reference decides. It returns the list.
func oldest(all []claim) []claim {
	slices.SortStableFunc(all, func(a, b claim) int { return a.section.compare(b.section) })
	first, created := 0, all[0].section.created()
	for i, c := range all[1:] {
		if at := c.section.created(); at != 0 && created != 0 && at < created {
			first, created = i+1, at
		}
	}
	winner := all[first]
	copy(all[1:first+1], all[:first])
	all[0] = winner
	return all
}

// has reports whether the route has its id.
func (c *claims) has(r *rules.Route) bool {
	_, lost := c.losers[r]
	return !lost
}

// everyone selects all routes for a report.
func everyone(claim) bool { return true }

// duplicates reports the routes that did not get their id, except those equal to the winner.
func (c *claims) duplicates(of func(claim) bool) []rules.Problem {
	var problems []rules.Problem
	var texts rules.Texts
	for _, id := range slices.Sorted(maps.Keys(c.contenders)) {
		all := c.contenders[id]
		for _, loser := range all[1:] {
			if of(loser) && !texts.Same(loser.section.unit, loser.route(), all[0].section.unit, all[0].route()) {
				problems = append(problems, duplicate(id, loser, all[0], &texts))
			}
		}
	}
	return problems
}

// duplicate returns the problem of a route that did not get its id.
func duplicate(id string, loser, winner claim, texts *rules.Texts) rules.Problem {
	owner, keeper := loser.section.owner(), winner.section.owner()
	message := fmt.Sprintf("Ignoring route with the same id %s, existing: %s, ignored: %s", id,
		rules.Shortened(texts.Expression(winner.section.unit, winner.route())), rules.Shortened(texts.Expression(loser.section.unit, loser.route())))
	detail := fmt.Sprintf("two paths of the object produce the same route id (%s), so only the first one is served", id)
	if keeper != owner {
		detail = fmt.Sprintf("the older %s has a route with the same id (%s), so this one is left out", keeper, id)
		message += fmt.Sprintf(" (%s keeps the id, the route of %s is ignored)", keeper, owner)
	}
	if loser.section.catchAll {
		detail = fmt.Sprintf("host %s gets no catch-all, because it differs from host %s of the older %s only in characters that a route id cannot contain "+
			"(%s): requests for its other paths reach routes for any host", loser.section.host, winner.section.host, keeper, id)
	}
	return rules.Problem{Owner: owner, Route: id, Reason: rules.DuplicateID, Severity: rules.Error, Plain: true, Message: message, Detail: detail, About: id}
}

// shadows reports the routes of the table that match exactly the same as a route of an older object: proxies choose one of them
// at random. It ignores matches within one object.
func (c *claims) shadows(of func(claim) bool) []rules.Problem {
	var problems []rules.Problem
	var texts rules.Texts
	matched := func(r *rules.Route) uint64 {
		if !c.has(r) || r.LeftOut() {
			return 0 // it is not in the table
		}
		return r.Match
	}
	for _, all := range repeated(c.all, matched) {
		first := oldest(all)[0]
		for _, p := range all[1:] {
			if of(p) && p.section.asker() != first.section.asker() {
				problems = append(problems, shadow(p, first, &texts))
			}
		}
	}
	slices.SortFunc(problems, func(a, b rules.Problem) int {
		return cmp.Or(a.Owner.Compare(b.Owner), strings.Compare(a.Route, b.Route))
	})
	return problems
}

// shadow returns the problem of a route that matches the same requests as an older one.
func shadow(p, first claim, texts *rules.Texts) rules.Problem {
	text := fmt.Sprintf("the older %s has a route for the same host and path, and proxies choose one of the two at random", first.section.owner())
	return rules.Problem{
		Owner: p.section.owner(), Route: texts.ID(p.section.unit, p.route()), Reason: rules.Shadows, Severity: rules.Warning, Message: text, Detail: text,
	}
}
