package table

import (
	"maps"
	"slices"
	"strings"
)

// Limits on the differences between two tables for deriving the hosts of one from the other.
const (
	fewBlocks = 32
	fewHosts  = 64 // each block is searched for each of them
)

// hostsAfter adopts the hosts of the previous table, if they are known and little differs: most changes do not affect the hosts,
// and collecting those of a large table takes as long as its hash.
func (c *content) hostsAfter(before *content) {
	known := before.hosts.Load()
	if known == nil {
		return
	}
	was, is := different(before.list.blocks, c.list.blocks)
	if len(was)+len(is) > fewBlocks {
		return
	}
	lost, found := OnlyInOne(hostsOf(was), hostsOf(is))
	if len(lost)+len(found) > fewHosts {
		return
	}
	lost = slices.DeleteFunc(lost, func(host string) bool { return hasHost(c.list.blocks, host) })
	found = slices.DeleteFunc(found, func(host string) bool {
		_, is := slices.BinarySearch(*known, host)
		return is
	})
	if len(lost)+len(found) > 0 {
		hosts := make([]string, 0, len(*known)+len(found))
		for _, host := range *known {
			if _, gone := slices.BinarySearch(lost, host); !gone {
				hosts = append(hosts, host)
			}
		}
		hosts = append(hosts, owned(found)...)
		slices.Sort(hosts)
		known = &hosts
	}
	c.hosts.Store(known)
}

// HostChanges returns the hosts that only one of two tables has, sorted. It costs as much as the blocks that they do not share.
func HostChanges(before, after *Table) (gone, come []string) {
	was, is := different(before.list.blocks, after.list.blocks)
	gone, come = OnlyInOne(hostsOf(was), hostsOf(is))
	if len(gone)+len(come) > fewHosts {
		return OnlyInOne(before.Hosts(), after.Hosts())
	}
	gone = slices.DeleteFunc(gone, func(host string) bool { return hasHost(after.list.blocks, host) })
	come = slices.DeleteFunc(come, func(host string) bool { return hasHost(before.list.blocks, host) })
	return gone, come
}

// hostsOf returns the distinct hosts of the blocks, sorted.
func hostsOf(blocks []*Block) []string {
	return union(blocks, func(b *Block) []string { return b.hosts() })
}

// owned makes the strings independent of the routes they were cut from: hosts are passed on from table to table, and must not
// keep the texts of old tables in memory.
func owned(hosts []string) []string {
	for i, host := range hosts {
		hosts[i] = strings.Clone(host)
	}
	return hosts
}

// hasHost reports whether a block has the host.
func hasHost(blocks []*Block, host string) bool {
	for _, b := range blocks {
		if _, has := slices.BinarySearch(b.hosts(), host); has {
			return true
		}
	}
	return false
}

// OnlyInOne returns the strings that are in only one of two lists. The lists must be sorted without duplicates, and so are the
// results, which are new slices.
func OnlyInOne(a, b []string) (onlyA, onlyB []string) {
	for len(a) > 0 && len(b) > 0 {
		switch order := strings.Compare(a[0], b[0]); {
		case order < 0:
			onlyA, a = append(onlyA, a[0]), a[1:]
		case order > 0:
			onlyB, b = append(onlyB, b[0]), b[1:]
		default:
			a, b = a[1:], b[1:]
		}
	}
	return append(onlyA, a...), append(onlyB, b...)
}

// hostAlternatives returns the distinct alternatives of the host expressions, sorted.
func hostAlternatives(routes []*Route) []string {
	distinct := make(map[string]struct{})
	seen := make(map[string]struct{}) // many routes have the same host: split each expression once
	for _, r := range routes {
		hosts := r.Hosts
		if hosts == "" {
			continue
		}
		if _, ok := seen[hosts]; ok {
			continue
		}
		seen[hosts] = struct{}{}
		for expr := range strings.SplitSeq(hosts, "\n") {
			for alternative := range alternatives(expr) {
				distinct[alternative] = struct{}{}
			}
		}
	}
	return slices.Sorted(maps.Keys(distinct))
}

// alternatives yields the alternatives of the expression's outermost group: the compiler joins the hosts of a RouteGroup to
// ^(host|host)$ and wraps the host of an Ingress rule in the same way. An expression of another form is one host.
func alternatives(expr string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		inner := expr
		if cut, ok := strings.CutPrefix(expr, "^("); ok {
			if cut, ok := strings.CutSuffix(cut, ")$"); ok && balanced(cut) {
				inner = cut
			}
		}
		start := 0
		for end := range topLevel(inner, '|') {
			if !yield(inner[start:end]) {
				return
			}
			start = end + 1
		}
		yield(inner[start:])
	}
}

// balanced reports whether every closing parenthesis has an opening one before it, so that the outer pair belongs together.
func balanced(expr string) bool {
	for range topLevel(expr, ')') {
		return false
	}
	return true
}

// topLevel yields the offsets of c outside of groups, character classes and escapes.
func topLevel(expr string, c byte) func(yield func(int) bool) {
	return func(yield func(int) bool) {
		depth, class := 0, false
		for i := 0; i < len(expr); i++ {
			switch b := expr[i]; {
			case b == '\\':
				i++
			case class:
				class = b != ']'
			case b == '[':
				class = true
			case b == c && depth == 0:
				if !yield(i) {
					return
				}
			case b == '(':
				depth++
			case b == ')' && depth > 0:
				depth--
			}
		}
	}
}
