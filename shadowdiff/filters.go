package shadowdiff

import (
	"slices"
	"strings"
)

// maxAlign limits the table of the alignment. Chains of up to about a thousand filters are aligned optimally; in longer ones,
// which are unrealistic, only the common beginning and end are aligned.
const maxAlign = 1 << 20

// chains are two lists of filters being aligned.
type chains struct {
	a, b []call
	// partnerA and partnerB are the positions of the filters' partners on the other side, or -1.
	partnerA, partnerB []int
	ops                []Op // for the filters of a with a partner
}

// alignFilters pairs the filters of two chains. Filters in the same order are the same. Of the others, filters with the same text
// have moved; filters with the same name replace each other, preferably between the same neighbours.
func alignFilters(out []Part, a, b []call) []Part {
	if len(a)+len(b) == 0 {
		return out
	}
	c := chains{a: a, b: b, ops: make([]Op, len(a))}
	c.partnerA, c.partnerB = commonFilters(a, b)
	c.join(Moved, 0, len(a), 0, len(b), func(f call) string { return f.text })
	name := func(f call) string { return f.name }
	c.gaps(func(a0, a1, b0, b1 int) { c.join(Replaced, a0, a1, b0, b1, name) })
	c.join(Replaced, 0, len(a), 0, len(b), name)

	c.gaps(func(a0, a1, b0, b1 int) {
		for i := a0; i < a1; i++ {
			out = append(out, c.part(i, c.partnerA[i]))
		}
		for j := b0; j < b1; j++ {
			if c.partnerB[j] < 0 {
				out = append(out, c.part(-1, j))
			}
		}
		if a1 < len(a) {
			out = append(out, c.part(a1, b1))
		}
	})
	return out
}

// part returns the part for a filter of a, of b, or of both.
func (c *chains) part(i, j int) Part {
	p := Part{Element: Filter, Op: Added}
	if i >= 0 {
		p.Op, p.Old, p.OldPosition = Removed, c.a[i].text, i+1
	}
	if j >= 0 {
		p.New, p.NewPosition = c.b[j].text, j+1
	}
	if i >= 0 && j >= 0 {
		p.Op = c.ops[i]
	}
	return p
}

// gaps calls f for the filters before, between and after the same filters: a[a0:a1] and b[b0:b1], which may be empty. After each
// gap except the last, a[a1] is the same as b[b1].
func (c *chains) gaps(f func(a0, a1, b0, b1 int)) {
	a0, b0 := 0, 0
	for i, j := range c.partnerA {
		if j >= 0 && c.ops[i] == Same {
			f(a0, i, b0, j)
			a0, b0 = i+1, j+1
		}
	}
	f(a0, len(c.a), b0, len(c.b))
}

// join makes filters without a partner in a[a0:a1] and b[b0:b1] partners if they have the same key, the k-th with the k-th.
func (c *chains) join(op Op, a0, a1, b0, b1 int, key func(call) string) {
	if a0 == a1 || b0 == b1 {
		return
	}
	free := make(map[string][]int)
	for j := b0; j < b1; j++ {
		if c.partnerB[j] < 0 {
			k := key(c.b[j])
			free[k] = append(free[k], j)
		}
	}
	for i := a0; i < a1; i++ {
		if c.partnerA[i] >= 0 {
			continue
		}
		k := key(c.a[i])
		if js := free[k]; len(js) > 0 {
			c.partnerA[i], c.partnerB[js[0]], c.ops[i] = js[0], i, op
			free[k] = js[1:]
		}
	}
}

// commonFilters finds a longest common subsequence. The partner of each filter is its index on the other side, or -1. If there
// are several such sequences, the choice does not depend on the order of the arguments.
func commonFilters(a, b []call) (partnerA, partnerB []int) {
	partnerA, partnerB = unpaired(len(a)), unpaired(len(b))
	start := 0
	for start < min(len(a), len(b)) && a[start].text == b[start].text {
		partnerA[start], partnerB[start] = start, start
		start++
	}
	endA, endB := len(a), len(b)
	for endA > start && endB > start && a[endA-1].text == b[endB-1].text {
		endA, endB = endA-1, endB-1
		partnerA[endA], partnerB[endB] = endB, endA
	}
	restA, restB := a[start:endA], b[start:endB]
	if len(restA) == 0 || len(restB) == 0 || len(restA)*len(restB) > maxAlign {
		return partnerA, partnerB
	}
	swapped := slices.CompareFunc(restA, restB, byText) > 0
	if swapped {
		restA, restB = restB, restA
	}
	longestCommon(restA, restB, func(i, j int) {
		if swapped {
			i, j = j, i
		}
		partnerA[start+i], partnerB[start+j] = start+j, start+i
	})
	return partnerA, partnerB
}

func byText(x, y call) int { return strings.Compare(x.text, y.text) }

func unpaired(n int) []int {
	p := make([]int, n)
	for i := range p {
		p[i] = -1
	}
	return p
}

// exact is the value of a pair with the same text in an alignment, compared with pairs that only make it nicer. There are fewer
// than exact of the latter, because the shorter chain has at most the square root of maxAlign filters.
const exact = 4096

// worth returns the value of aligning two filters. Among the alignments that keep the most filters, the best one keeps filters in
// their positions, and keeps filters of one name, which probably replaced each other, in one gap.
func worth(a, b []call, i, j int) int32 {
	switch {
	case a[i].text != b[j].text && a[i].name != b[j].name:
		return 0
	case a[i].text != b[j].text:
		return 1
	case i == j:
		return exact + 1
	default:
		return exact
	}
}

// longestCommon calls pair for the pairs of a longest common subsequence of two non-empty lists.
func longestCommon(a, b []call, pair func(i, j int)) {
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
