package compile

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/routesrv/routesrv/compile/rules"
	"github.com/routesrv/routesrv/kube"
)

func (r *Result) problems() []rules.Problem {
	s := r.state
	var ofObjects, ofHosts, ofIDs, ofMatches []rules.Problem
	var texts rules.Texts
	for o := range all(s.faulty) {
		ofObjects = append(ofObjects, o.unit.Problems()...)
	}
	for h := range all(s.faultyHosts) {
		ofHosts = append(ofHosts, h.catchAll.unit.Problems()...)
	}
	slices.SortFunc(ofHosts, func(a, b rules.Problem) int {
		return cmp.Or(strings.Compare(a.Route, b.Route), strings.Compare(a.Message, b.Message))
	})
	for c := range all(s.contests) {
		ofIDs = append(ofIDs, c.problems(&texts)...)
	}
	for sh := range all(s.shadows) {
		ofMatches = append(ofMatches, sh.problems...)
	}
	problems := slices.Concat(
		snapshotProblems(r.Snapshot), s.view.Problems(), ofObjects, ofHosts, s.eastWestProblems(), s.fixed.unit.Problems(),
		byRoute(ofIDs), byRoute(ofMatches),
	)
	// The problems of one owner stay in the order of detection.
	slices.SortStableFunc(problems, func(a, b rules.Problem) int { return a.Owner.Compare(b.Owner) })
	return problems
}

func byRoute(problems []rules.Problem) []rules.Problem {
	slices.SortStableFunc(problems, func(a, b rules.Problem) int { return strings.Compare(a.Route, b.Route) })
	return problems
}

func snapshotProblems(s *kube.Snapshot) []rules.Problem {
	var problems []rules.Problem
	for _, b := range s.Bad {
		problems = append(problems, rules.BadObject(b))
	}
	if f := s.DefaultFilters; f != nil && f.Err != nil {
		problems = append(problems, rules.Problem{
			Reason: rules.DefaultFilters, Severity: rules.Error, Plain: true,
			Message: "could not fetch default filter configurations", Cause: f.Err.Error(),
		})
	}
	return problems
}

// eastWestProblems reports the companions of default backends, with the numbers that the reference logs.
func (s *state) eastWestProblems() []rules.Problem {
	if s.companions == 0 {
		return nil
	}
	return []rules.Problem{{
		Reason: rules.EastWestEnabled, Severity: rules.Info, Plain: true,
		Message: fmt.Sprintf("Enabled east west routes: %d %d %d %d", s.ordinary, s.ordinary+s.companions, s.companions, s.hosts.Len()),
	}}
}

func (c *contest) problems(texts *rules.Texts) (problems []rules.Problem) {
	for ; c != nil; c = c.other {
		for _, loser := range c.claims[1:] {
			if !texts.Same(loser.section.unit, loser.route(), c.claims[0].section.unit, c.claims[0].route()) {
				problems = append(problems, duplicate(c.id, loser, c.claims[0], texts))
			}
		}
	}
	return problems
}

func duplicate(id string, loser, winner claim, texts *rules.Texts) rules.Problem {
	owner, keeper := loser.section.owner(), winner.section.owner()
	message := fmt.Sprintf("Ignoring route with the same id %s, existing: %s, ignored: %s", id,
		rules.Shortened(texts.Expression(winner.section.unit, winner.route())),
		rules.Shortened(texts.Expression(loser.section.unit, loser.route())))
	detail := fmt.Sprintf("two paths of the object produce the same route id (%s), so only the first one is served", id)
	if keeper != owner {
		detail = fmt.Sprintf("the older %s has a route with the same id (%s), so this one is left out", keeper, id)
		message += fmt.Sprintf(" (%s keeps the id, the route of %s is ignored)", keeper, owner)
	}
	if loser.section.catchAll {
		detail = fmt.Sprintf("host %s gets no catch-all, because it differs from host %s of the older %s only in characters that "+
			"a route id cannot contain (%s): requests for its other paths reach routes for any host", loser.section.host, winner.section.host, keeper, id)
	}
	return rules.Problem{
		Owner: owner, Route: id, Reason: rules.DuplicateID, Severity: rules.Error, Plain: true,
		Message: message, Detail: detail, About: id,
	}
}

// shadow has the problems of routes that match the same requests. It is immutable.
type shadow struct {
	hash     uint64 // of what they match
	problems []rules.Problem
}

func (s shadow) compare(o shadow) int { return cmp.Compare(s.hash, o.hash) }

// shadowsOf reports the routes of the table that match exactly the same as a route of an older, other object.
func (s *state) shadowsOf(hash uint64, texts *rules.Texts) (problems []rules.Problem) {
	var claims []claim
	for c := range with(s.matches, hash) {
		if s.has(c) && !c.route().LeftOut() {
			claims = append(claims, c)
		}
	}
	if len(claims) < 2 {
		return nil
	}
	first := oldest(claims)[0]
	for _, c := range claims[1:] {
		if c.section.asker() == first.section.asker() {
			continue
		}
		text := fmt.Sprintf("the older %s has a route for the same host and path, and proxies choose one of the two at random",
			first.section.owner())
		problems = append(problems, rules.Problem{
			Owner: c.section.owner(), Route: texts.ID(c.section.unit, c.route()), Reason: rules.Shadows, Severity: rules.Warning,
			Message: text, Detail: text,
		})
	}
	return problems
}
