package shadowdiff

import (
	"slices"
	"strings"
)

// maxAlign limits the table of the alignment. Chains of up to about a thousand filters are aligned optimally; of longer ones,
// which are unrealistic, only the common beginning is.
const maxAlign = 1 << 20

// chains are two lists of filters, predicates or endpoints being aligned.
type chains struct {
	a, b []call
	// partnerA and partnerB are the positions of the filters' partners on the other side, or -1.
	partnerA, partnerB []int
	ops                []Op // for the filters of a with a partner
}

func newChains(a, b []call) *chains {
	return &chains{a: a, b: b, partnerA: unpaired(len(a)), partnerB: unpaired(len(b)), ops: make([]Op, len(a))}
}

// alignSets aligns two lists whose order does not matter. Elements with the same text are the same. Of the others, those with the same name
// replace each other, in order; such a part has its own element. The parts are sorted by name.
func alignSets(out []Part, element, replaced Element, a, b []call) []Part {
	c := newChains(a, b)
	c.join(Same, func(f call) string { return f.text })
	c.join(Replaced, func(f call) string { return f.name })
	type named struct {
		name string
		Part
	}
	var same, others []named
	for i, f := range a {
		if p := (named{f.name, c.part(element, i, c.partnerA[i])}); p.Op == Same {
			same = append(same, p)
		} else {
			others = append(others, p)
		}
	}
	for j, f := range b {
		if c.partnerB[j] < 0 {
			others = append(others, named{f.name, c.part(element, -1, j)})
		}
	}
	all := append(same, others...)
	slices.SortStableFunc(all, func(x, y named) int { return strings.Compare(x.name, y.name) })
	for _, p := range all {
		if p.Op == Replaced {
			p.Element = replaced
		}
		out = append(out, p.Part)
	}
	return out
}

// alignFilters pairs the filters of two chains. Filters in the same order are the same. Of the others, filters with the same text
// have moved, and filters with the same name replace each other.
func alignFilters(out []Part, a, b []call) []Part {
	c := newChains(a, b)
	c.common()
	c.join(Moved, func(f call) string { return f.text })
	c.join(Replaced, func(f call) string { return f.name })

	next := 0 // of b, behind the last filter that is the same
	added := func(end int) {
		for ; next < end; next++ {
			if c.partnerB[next] < 0 {
				out = append(out, c.filter(-1, next))
			}
		}
	}
	for i, j := range c.partnerA {
		if j >= 0 && c.ops[i] == Same {
			added(j)
			next = j + 1
		}
		out = append(out, c.filter(i, j))
	}
	added(len(b))
	return out
}

// part returns the part for an element of a, of b, or of both.
func (c *chains) part(element Element, i, j int) Part {
	p := Part{Element: element, Op: Added}
	if i >= 0 {
		p.Op, p.Old = Removed, c.a[i].text
	}
	if j >= 0 {
		p.New = c.b[j].text
	}
	if i >= 0 && j >= 0 {
		p.Op = c.ops[i]
	}
	return p
}

// filter is part with positions.
func (c *chains) filter(i, j int) Part {
	p := c.part(Filter, i, j)
	p.OldPosition, p.NewPosition = i+1, j+1
	return p
}

func (c *chains) pair(op Op, i, j int) { c.partnerA[i], c.partnerB[j], c.ops[i] = j, i, op }

// join makes filters without a partner partners if they have the same key, the k-th with the k-th.
func (c *chains) join(op Op, key func(call) string) {
	free := make(map[string][]int)
	for j, f := range c.b {
		if c.partnerB[j] < 0 {
			free[key(f)] = append(free[key(f)], j)
		}
	}
	for i, f := range c.a {
		if js := free[key(f)]; c.partnerA[i] < 0 && len(js) > 0 {
			c.pair(op, i, js[0])
			free[key(f)] = js[1:]
		}
	}
}

func unpaired(n int) []int { return slices.Repeat([]int{-1}, n) }

// common pairs the filters of a longest common subsequence. If there are several such sequences, the choice does not depend on the order of
// the chains.
func (c *chains) common() {
	a, b, pair := c.a, c.b, func(i, j int) { c.pair(Same, i, j) }
	if slices.CompareFunc(a, b, func(x, y call) int { return strings.Compare(x.text, y.text) }) > 0 {
		a, b, pair = b, a, func(i, j int) { c.pair(Same, j, i) }
	}
	if len(a)*len(b) > maxAlign {
		for i := 0; i < min(len(a), len(b)) && a[i].text == b[i].text; i++ {
			pair(i, i)
		}
		return
	}
	width := len(b) + 1
	best := make([]int32, (len(a)+1)*width) // of a[i:] and b[j:]
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			at := i*width + j
			best[at] = max(best[at+width+1]+worth(a, b, i, j), best[at+width], best[at+1])
		}
	}
	for i, j := 0, 0; i < len(a) && j < len(b); {
		at := i*width + j
		switch {
		case best[at] == best[at+width+1]+worth(a, b, i, j):
			if a[i].text == b[j].text {
				pair(i, j)
			}
			i, j = i+1, j+1
		case best[at] == best[at+width]:
			i++
		default:
			j++
		}
	}
}

// worth returns the value of aligning two filters. Among the alignments that keep the most filters, the best one keeps filters in
// their positions, and keeps filters of one name, which probably replaced each other, side by side. These pairs are fewer than exact, because
// the shorter chain has at most the square root of maxAlign filters.
func worth(a, b []call, i, j int) int32 {
	const exact = 4096
	switch {
	case a[i].text == b[j].text && i == j:
		return exact + 1
	case a[i].text == b[j].text:
		return exact
	case a[i].name == b[j].name:
		return 1
	}
	return 0
}
