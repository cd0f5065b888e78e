package shadowdiff

import (
	"slices"
	"strings"
)

// maxAlign is a limit for the table of the alignment. Chains of up to about a thousand filters are aligned as well as can
// be; in longer ones, which nobody writes, only what is the same at both ends.
const maxAlign = 1 << 20

// alignFilters pairs the filters of two chains. Those that stand in the same order are the same; of the others, those with
// the same text have moved, those with the same name between the same neighbours are replaced.
func alignFilters(out []Part, a, b []call) []Part {
	if len(a)+len(b) == 0 {
		return out
	}
	partnerA, partnerB := commonFilters(a, b)
	moved := movedFilters(a, b, partnerA, partnerB)
	part := func(op Op, i, j int) Part {
		p := Part{Element: Filter, Op: op}
		if i >= 0 {
			p.Old, p.OldPosition = a[i].text, i+1
		}
		if j >= 0 {
			p.New, p.NewPosition = b[j].text, j+1
		}
		return p
	}
	for i, j := 0, 0; i < len(a) || j < len(b); {
		endA, endB := i, j // of the gap before the next pair
		for endA < len(a) && (partnerA[endA] < 0 || moved[endA]) {
			endA++
		}
		for endB < len(b) && (partnerB[endB] < 0 || moved[partnerB[endB]]) {
			endB++
		}
		free := freeByName(b, partnerB, j, endB)
		for ; i < endA; i++ {
			switch ks := free[a[i].name]; {
			case moved[i]:
				out = append(out, part(Moved, i, partnerA[i]))
			case len(ks) > 0:
				free[a[i].name] = ks[1:]
				partnerB[ks[0]] = i
				out = append(out, part(Replaced, i, ks[0]))
			default:
				out = append(out, part(Removed, i, -1))
			}
		}
		for ; j < endB; j++ {
			if partnerB[j] < 0 {
				out = append(out, part(Added, -1, j))
			}
		}
		if i < len(a) {
			out = append(out, part(Same, i, j))
			i, j = i+1, j+1
		}
	}
	return out
}

// freeByName returns the filters of b[from:to] that have no partner, by name and in their order.
func freeByName(b []call, partnerB []int, from, to int) map[string][]int {
	if from == to {
		return nil
	}
	free := make(map[string][]int)
	for k := from; k < to; k++ {
		if partnerB[k] < 0 {
			free[b[k].name] = append(free[b[k].name], k)
		}
	}
	return free
}

// movedFilters gives partners to filters that have the same text in another place, the k-th to the k-th, and returns which
// of a these are.
func movedFilters(a, b []call, partnerA, partnerB []int) map[int]bool {
	moved := make(map[int]bool)
	free := make(map[string][]int)
	for j, c := range b {
		if partnerB[j] < 0 {
			free[c.text] = append(free[c.text], j)
		}
	}
	for i, c := range a {
		if js := free[c.text]; partnerA[i] < 0 && len(js) > 0 {
			partnerA[i], partnerB[js[0]] = js[0], i
			free[c.text] = js[1:]
			moved[i] = true
		}
	}
	return moved
}

// commonFilters finds a longest common subsequence. The partner of each filter is its index on the other side, or -1.
// There may be several such sequences; which is taken does not depend on the order of the arguments.
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

// exact is what a pair of the same text is worth in an alignment, in units of the pairs that only make it nicer. There are
// fewer of those than that, as the shorter chain has at most the root of maxAlign filters.
const exact = 4096

// worth says what it is worth to have two filters beside each other. Of the alignments that keep the most filters, the one
// is best that keeps filters in their places, and those of one name, of which one was made of the other, in one gap.
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

// longestCommon calls pair for the pairs of a longest common subsequence of two lists that are not empty.
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
