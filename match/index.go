package match

import (
	"cmp"
	"slices"
	"strings"
)

// index finds the routes that a request can reach, in the order of the reference. A route that accepts only certain hosts is looked at
// for these alone, so a table of thousands of hosts is as fast as one of a few.
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

// place is an entry at a place that matches the path of a request. The rank says how specific the place is: a rank that sorts first comes
// first, and each place has one rank.
type place struct {
	rank string
	*entry
}

// rootRank is the rank of routes without a path predicate: after all places with one.
const rootRank = "\xff"

// places returns the places of entries that match a path.
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

// fewEntries is how many routes of a place are shown whatever their host is.
const fewEntries = 16

// visit calls f in the order of the search with the entries of all places that match the path, until f returns false: with those that may
// accept the host and, if near is set, also with those of other hosts at a place that has few entries.
func (x *index) visit(path []string, host string, near bool, f func(rank string, e *entry) bool) {
	var found []place
	if near {
		found = places(x.all, path)
		count := map[string]int{}
		for _, p := range found {
			count[p.rank]++
		}
		found = slices.DeleteFunc(found, func(p place) bool {
			return count[p.rank] > fewEntries && p.hosts != nil && !slices.Contains(p.hosts, host)
		})
	} else {
		found = append(places(x.hosts[host], path), places(x.loose, path)...)
	}
	slices.SortStableFunc(found, func(a, b place) int {
		return cmp.Or(strings.Compare(a.rank, b.rank), cmp.Compare(b.weight, a.weight), strings.Compare(a.route.Id, b.route.Id))
	})
	for _, p := range found {
		if !f(p.rank, p.entry) {
			return
		}
	}
}
