package compile

import (
	"cmp"
	"iter"
	"slices"

	"github.com/routesrv/routesrv/compile/rules"
)

type claim struct {
	section *section
	at      int // in the section
}

func (c claim) route() *rules.Route { return &c.section.routes[c.at] }

// compare orders claims as the reference does. A pivot, without a section, comes first.
func (c claim) compare(o claim) int {
	switch {
	case c.section == o.section:
		return cmp.Compare(c.at, o.at)
	case c.section == nil:
		return -1
	case o.section == nil:
		return 1
	}
	return cmp.Or(c.section.compare(o.section), cmp.Compare(c.at, o.at))
}

type entry struct {
	hash uint64
	claim
}

func (e entry) compare(o entry) int {
	if c := cmp.Compare(e.hash, o.hash); c != 0 {
		return c
	}
	return e.claim.compare(o.claim)
}

func with(s *set[entry], hash uint64) iter.Seq[claim] {
	return func(yield func(claim) bool) {
		for e := range from(s, entry{hash: hash}) {
			if e.hash != hash || !yield(e.claim) {
				return
			}
		}
	}
}

// contest is the outcome for an id that several routes claim. It is immutable.
type contest struct {
	hash   uint64 // of the id
	id     string
	claims []claim // the winner first
	// other is the contest of another id with the same hash; nil except by chance.
	other *contest
}

func (c *contest) compare(o *contest) int { return cmp.Compare(c.hash, o.hash) }

func (s *state) contestOf(hash uint64, texts *rules.Texts) (first *contest) {
	n := 0
	for range with(s.ids, hash) {
		if n++; n == 2 {
			break
		}
	}
	if n < 2 {
		return nil
	}
	several := slices.Collect(with(s.ids, hash))
	byID := make(map[string][]claim)
	for _, c := range several {
		id := texts.ID(c.section.unit, c.route())
		byID[id] = append(byID[id], c)
	}
	for id, claims := range byID {
		first = &contest{hash, id, oldest(claims), first}
	}
	return first
}

// contest returns the contest that a route of the state takes part in; nil if it alone claims its id.
func (s *state) contest(c claim) *contest {
	found, _ := s.contests.Get(&contest{hash: c.route().ID})
	for found != nil && found.other != nil && !slices.Contains(found.claims, c) {
		found = found.other
	}
	return found
}

func (s *state) has(c claim) bool {
	contest := s.contest(c)
	return contest == nil || contest.claims[0] == c
}

// oldest moves the claim of the oldest object to the front. Without creation times the order of the reference decides.
func oldest(all []claim) []claim {
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

func (c *change) settleIDs() {
	ids, matches := make([]uint64, 0, len(c.added)), make([]uint64, 0, len(c.added)) // hashes, because a first build has many
	for _, one := range c.removed {
		r := one.route()
		c.ids.Delete(entry{r.ID, one})
		c.matches.Delete(entry{r.Match, one})
		ids, matches = append(ids, r.ID), append(matches, r.Match)
	}
	for _, one := range c.added {
		ids, matches = append(ids, one.route().ID), append(matches, one.route().Match)
	}
	load(c.ids, c.added, func(r *rules.Route) uint64 { return r.ID })
	load(c.matches, c.added, func(r *rules.Route) uint64 { return r.Match })
	var texts rules.Texts // of an object with many contests once
	for _, hash := range distinct(ids) {
		was, _ := c.contests.Get(&contest{hash: hash})
		is := c.contestOf(hash, &texts)
		if is != nil {
			c.contests.Set(is)
		} else if was != nil {
			c.contests.Delete(was)
		}
		for _, of := range [2]*contest{was, is} { // whether they are in the table may differ
			for ; of != nil; of = of.other {
				for _, one := range of.claims {
					matches = append(matches, one.route().Match)
				}
			}
		}
	}
	for _, hash := range distinct(matches) {
		if problems := c.shadowsOf(hash, &texts); len(problems) > 0 {
			c.shadows.Set(shadow{hash, problems})
		} else {
			c.shadows.Delete(shadow{hash: hash})
		}
	}
}

func distinct(hashes []uint64) []uint64 {
	slices.Sort(hashes)
	hashes = slices.Compact(hashes)
	if len(hashes) > 0 && hashes[0] == 0 {
		return hashes[1:]
	}
	return hashes
}

// load adds claims to a set by their hashes, except 0, in an order that touches each node of the set once.
func load(s *set[entry], added []claim, hash func(*rules.Route) uint64) {
	entries := make([]entry, 0, len(added))
	for _, one := range added {
		if h := hash(one.route()); h != 0 {
			entries = append(entries, entry{h, one})
		}
	}
	slices.SortFunc(entries, entry.compare)
	for _, e := range entries {
		s.Load(e)
	}
}

// differing returns the routes that are in the table of one of the two states only. It can be called once.
func (c *change) differing() (gone, fresh []claim) {
	contests, seen := make(map[*contest]bool), make(map[claim]bool)
	flipped := func(of *contest) { // routes of other objects may have got an id, or lost one
		for ; of != nil && !contests[of]; of = of.other {
			contests[of] = true
			for _, one := range of.claims {
				if seen[one] || !c.before.exists(one) || !c.exists(one) {
					continue
				}
				seen[one] = true
				switch had, has := c.before.has(one), c.has(one); {
				case had && !has:
					gone = append(gone, one)
				case has && !had:
					fresh = append(fresh, one)
				}
			}
		}
	}
	for _, list := range [2][]claim{c.removed, c.added} {
		for _, one := range list {
			for _, s := range [2]*state{c.before, c.state} {
				of, _ := s.contests.Get(&contest{hash: one.route().ID})
				flipped(of)
			}
		}
	}
	gone = append(gone, slices.DeleteFunc(c.removed, func(one claim) bool { return !c.before.has(one) })...)
	fresh = append(slices.DeleteFunc(c.added, func(one claim) bool { return !c.has(one) }), fresh...)
	return gone, fresh
}

func (s *state) exists(c claim) bool {
	e, _ := s.ids.Get(entry{c.route().ID, c})
	return e.claim == c
}
