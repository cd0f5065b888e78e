package trial

import "slices"

// search finds the harmful ones among units of calls: namespaces, or the calls of one. Loading harmless calls costs little,
// restarting the proxy takes seconds: so few units are loaded at a time, the least suspicious first, and never together with
// units known to be harmful.
type search struct {
	groups []group
	rests  bool // the harm shows only in an idle proxy
}

type group struct {
	units [][]Call
	safe  int  // how many of the first units have only names without harmful verdicts
	bad   bool // at least one unit is harmful
	lost  bool // a unit was dropped, which may have been the harmful one
}

// begin adds units, one of them harmful.
func (s *search) begin(units [][]Call, safe int, rests bool) {
	s.groups = append(s.groups, group{units: units, safe: safe, bad: true})
	s.rests = s.rests || rests
}

// next returns the group and the first of its units to load next: a whole group that may be harmless, or a part of the largest
// harmful one.
func (s *search) next() (at int, units [][]Call, rests bool) {
	at = -1
	for i, g := range s.groups {
		if !g.bad {
			return i, g.units, true
		}
		if at < 0 || len(g.units) > len(s.groups[at].units) {
			at = i
		}
	}
	if at < 0 {
		s.rests = false
		return at, nil, false
	}
	g := s.groups[at]
	n := (len(g.units) + 3) / 4
	if g.safe > 0 && g.safe < len(g.units) {
		n = g.safe
	}
	return at, g.units[:n], s.rests
}

// passed removes the first units of a group, which are harmless.
func (s *search) passed(at, n int) {
	g := &s.groups[at]
	if g.units, g.safe = g.units[n:], max(0, g.safe-n); len(g.units) == 0 {
		s.groups = slices.Delete(s.groups, at, at+1)
	}
}

// found removes a unit that is harmful by elimination, because all others of its group passed. It returns nil if there is none.
func (s *search) found() []Call {
	i := slices.IndexFunc(s.groups, func(g group) bool { return g.bad && !g.lost && len(g.units) == 1 })
	if i < 0 {
		return nil
	}
	unit := s.groups[i].units[0]
	s.groups = slices.Delete(s.groups, i, i+1)
	return unit
}

// failed records that one of the first n units of a group is harmful; a single unit is found and removed. The other units may be
// harmless.
func (s *search) failed(at, n int, rests bool) {
	g := s.groups[at]
	s.groups = slices.Delete(s.groups, at, at+1)
	if n > 1 {
		s.begin(g.units[:n], min(g.safe, n), rests)
	}
	if n < len(g.units) {
		s.groups = append(s.groups, group{units: g.units[n:], safe: max(0, g.safe-n)})
	}
}

// drop removes calls, so that nothing follows by elimination for the other units of their group.
func (s *search) drop(gone func(Call) bool) {
	for i := range s.groups {
		g := &s.groups[i]
		left, safe := [][]Call{}, 0
		for k, unit := range g.units {
			kept := slices.DeleteFunc(slices.Clone(unit), gone)
			if len(kept) < len(unit) {
				g.lost = true
			}
			if len(kept) == 0 {
				continue
			}
			if left = append(left, kept); k < g.safe {
				safe++
			}
		}
		g.units, g.safe = left, safe
	}
	s.groups = slices.DeleteFunc(s.groups, func(g group) bool { return len(g.units) == 0 })
}

func (s *search) calls() map[Call]bool {
	all := make(map[Call]bool)
	for _, g := range s.groups {
		for _, unit := range g.units {
			for _, c := range unit {
				all[c] = true
			}
		}
	}
	return all
}
