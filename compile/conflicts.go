package compile

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/routesrv/routesrv/compile/rules"
)

// everyone selects all routes for a report.
func everyone(claim) bool { return true }

// duplicates reports the routes that did not get their id, except those equal to the winner.
func (c *claims) duplicates(of func(claim) bool) []rules.Problem {
	var problems []rules.Problem
	var texts rules.Texts
	for _, id := range slices.Sorted(maps.Keys(c.rivals)) {
		all := c.rivals[id]
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
	detail := fmt.Sprintf("two paths of the object make routes of one id (%s), so only the first of them is served", id)
	if keeper != owner {
		detail = fmt.Sprintf("%s has a route of the same id (%s) and was there first, so this one is left out", keeper, id)
		message += fmt.Sprintf(" (%s keeps the id, the route of %s is ignored)", keeper, owner)
	}
	return rules.Problem{Owner: owner, Route: id, Reason: rules.DuplicateID, Severity: rules.Error, Plain: true, Message: message, Detail: detail, About: id}
}

// shadows reports the routes of the table that match exactly the same as a route of an older object: proxies choose one of them
// at random. It ignores matches within one object.
func (c *claims) shadows(of func(claim) bool) []rules.Problem {
	var problems []rules.Problem
	var texts rules.Texts
	for _, all := range repeated(c.all, c.matchOf) {
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

// matchOf returns the hash of what a route matches; 0 for one that is not in the table.
func (c *claims) matchOf(r *rules.Route) uint64 {
	if !c.has(r) || r.LeftOut() {
		return 0
	}
	return r.Match
}

// shadow returns the problem of a route that matches the same as another one.
func shadow(p, first claim, texts *rules.Texts) rules.Problem {
	text := fmt.Sprintf("%s, which was there first, has a route for the same host and path, and proxies take one of the two at random", first.section.owner())
	return rules.Problem{
		Owner: p.section.owner(), Route: texts.ID(p.section.unit, p.route()), Reason: rules.Shadows, Severity: rules.Warning, Message: text, Detail: text,
	}
}
