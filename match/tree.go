package match

import (
	"cmp"
	"slices"
	"strings"
)

// index finds the routes that a request can reach, in the order of the reference.
type index struct {
	root   *node
	noPath place // routes without a path predicate
	hosts  map[string][]*entry
}

// node is a place in the tree of segments.
type node struct {
	literal map[string]*node
	single  *node
	here    place // routes whose pattern ends here
	below   place // routes with a free wildcard here
}

// place holds routes that are ordered only by weight.
type place struct {
	entries []*entry // heaviest first, then by id

	// For a long list, only these are evaluated: byHost has the positions of the entries for each host key, loose those of entries
	// without known hosts. byHost is nil for a short list.
	byHost map[string][]int32
	loose  []int32
}

// fewEntries is how many routes of a place are evaluated one by one without an index.
const fewEntries = 16

func newIndex() *index { return &index{root: &node{}, hosts: map[string][]*entry{}} }

func (x *index) add(e *entry, ignoreSlash bool) {
	for _, host := range e.hosts {
		x.hosts[host] = append(x.hosts[host], e)
	}
	if len(e.patterns) == 0 {
		x.noPath.entries = append(x.noPath.entries, e)
		return
	}
	for i := range e.patterns {
		p := &e.patterns[i]
		n := x.root.at(p.segments)
		switch last := p.segments; {
		case !p.subtree && kindOf(last[len(last)-1]) == free:
			n.below.add(e)
		case !p.subtree:
			n.here.add(e)
		default:
			if n != x.root {
				n.here.add(e)
			}
			if n == x.root || !ignoreSlash {
				n.step("").here.add(e)
			}
			n.below.add(e)
		}
	}
}

func (p *place) add(e *entry) {
	if n := len(p.entries); n == 0 || p.entries[n-1] != e {
		p.entries = append(p.entries, e)
	}
}

// at returns the node for segments, and creates the path to it. It ends at a free wildcard.
func (n *node) at(segments []string) *node {
	for _, s := range segments {
		if kindOf(s) == free {
			break
		}
		n = n.step(s)
	}
	return n
}

// step returns the child node for a segment.
func (n *node) step(segment string) *node {
	if kindOf(segment) == single {
		if n.single == nil {
			n.single = &node{}
		}
		return n.single
	}
	next := n.literal[segment]
	if next == nil {
		if n.literal == nil {
			n.literal = map[string]*node{}
		}
		next = &node{}
		n.literal[segment] = next
	}
	return next
}

// finish sorts all places. Nothing may be added afterwards.
func (x *index) finish() {
	x.noPath.finish()
	x.root.finish()
}

func (n *node) finish() {
	n.here.finish()
	n.below.finish()
	for _, next := range n.literal {
		next.finish()
	}
	if n.single != nil {
		n.single.finish()
	}
}

func (p *place) finish() {
	slices.SortStableFunc(p.entries, func(a, b *entry) int {
		return cmp.Or(cmp.Compare(b.weight, a.weight), strings.Compare(a.route.Id, b.route.Id))
	})
	if len(p.entries) <= fewEntries {
		return
	}
	p.byHost = map[string][]int32{}
	for i, e := range p.entries {
		if e.hosts == nil {
			p.loose = append(p.loose, int32(i))
		}
		for _, host := range e.hosts {
			p.byHost[host] = append(p.byHost[host], int32(i))
		}
	}
}

// each calls f in order with the entries that may accept the host, until f returns false.
func (p *place) each(host string, f func(*entry) bool) bool {
	if p.byHost == nil {
		for _, e := range p.entries {
			if !f(e) {
				return false
			}
		}
		return true
	}
	keyed, loose := p.byHost[host], p.loose
	for len(keyed) > 0 || len(loose) > 0 {
		from := &keyed
		if len(keyed) == 0 || len(loose) > 0 && loose[0] < keyed[0] {
			from = &loose
		}
		if !f(p.entries[(*from)[0]]) {
			return false
		}
		*from = (*from)[1:]
	}
	return true
}

// rootRank is the rank of routes without a path predicate: after all places of the tree.
const rootRank = "\xff"

// visit calls f in the order of the search with the entries of all places that match the path, until f returns false. The rank
// says how specific the place is: a rank that sorts first comes first, and each place has one rank.
func (x *index) visit(path []string, host string, f func(rank string, e *entry) bool) {
	rank := make([]byte, 0, len(path)+1)
	var walk func(n *node, rest []string) bool
	ask := func(p *place, last ...byte) bool {
		if len(p.entries) == 0 {
			return true
		}
		r := string(append(rank, last...))
		return p.each(host, func(e *entry) bool { return f(r, e) })
	}
	walk = func(n *node, rest []string) bool {
		if len(rest) == 0 {
			return ask(&n.here)
		}
		step := func(next *node, kind byte) bool {
			if next == nil {
				return true
			}
			rank = append(rank, kind)
			ok := walk(next, rest[1:])
			rank = rank[:len(rank)-1]
			return ok
		}
		if !step(n.literal[rest[0]], literal) {
			return false
		}
		if rest[0] == "" { // the trailing slash of the path
			return true
		}
		return step(n.single, single) && ask(&n.below, free)
	}
	if walk(x.root, path) {
		x.noPath.each(host, func(e *entry) bool { return f(rootRank, e) })
	}
}
