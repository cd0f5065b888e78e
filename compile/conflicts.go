package compile

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/routesrv/routesrv/kube"
)

// duplicates reports the routes that did not get their id, except those equal to the winner.
func (c *candidates) duplicates(t texts) []Problem {
	var problems []Problem
	for _, id := range slices.Sorted(maps.Keys(c.rivals)) {
		all := oldest(slices.Clone(c.rivals[id]))
		winner := all[0]
		for _, p := range all[1:] {
			if p.route().sameAs(winner.route(), t) {
				continue
			}
			problems = append(problems, duplicate(p.route(), p.owner(), winner.route(), winner.owner(), t))
		}
	}
	return problems
}

// shortened limits a text in a message, which may repeat for each of thousands of routes.
func shortened(text string) string {
	const most = 4 << 10
	if len(text) <= most {
		return text
	}
	return fmt.Sprintf("%s… (%d bytes)", strings.ToValidUTF8(text[:most], ""), len(text))
}

// duplicate returns the problem of a route that did not get its id.
func duplicate(r *made, owner kube.Ref, winner *made, keeper kube.Ref, t texts) Problem {
	id := r.id()
	message := fmt.Sprintf("Ignoring route with the same id %s, existing: %s, ignored: %s", id, shortened(winner.text(t)), shortened(r.text(t)))
	detail := fmt.Sprintf("two paths of the object make routes of one id (%s), so only the first of them is served", id)
	if keeper != owner {
		detail = fmt.Sprintf("%s has a route of the same id (%s) and was there first, so this one is left out", keeper, id)
		message += fmt.Sprintf(" (%s keeps the id, the route of %s is ignored)", keeper, owner)
	}
	return Problem{Owner: owner, Route: id, Reason: DuplicateID, Severity: Error, Plain: true, Message: message, detail: detail, about: id}
}

// shadows reports the routes of the table that match exactly the same as a route of an older object: proxies choose one of them
// at random. It ignores matches within one object.
func (c *candidates) shadows() []Problem {
	var problems []Problem
	for match := range c.matches.rivals {
		all := slices.DeleteFunc(slices.Clone(c.matches.rivals[match]), func(p place) bool {
			r := p.route()
			return r.printed == nil || !c.wins(r) // not in the table
		})
		if len(all) < 2 {
			continue
		}
		first := oldest(all)[0]
		for _, p := range all[1:] {
			if p.asker() == first.asker() {
				continue
			}
			problems = append(problems, shadow(p.route(), p.owner(), first.route(), first.owner()))
		}
	}
	// The matches come in random order.
	slices.SortFunc(problems, func(a, b Problem) int {
		if order := a.Owner.Compare(b.Owner); order != 0 {
			return order
		}
		return strings.Compare(a.Route, b.Route)
	})
	return problems
}

// shadow returns the problem of a route that matches the same as another one.
func shadow(r *made, owner kube.Ref, first *made, of kube.Ref) Problem {
	return Problem{
		Owner: owner, Route: r.id(), Reason: Shadows, Severity: Warning,
		Message: fmt.Sprintf("route %s matches what route %s of %s matches: proxies take one of the two at random", r.id(), first.id(), of),
		detail:  fmt.Sprintf("%s, which was there first, has a route for the same host and path, and proxies take one of the two at random", of),
	}
}
