package shadowdiff_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/routesrv/routesrv/eskip"
	"github.com/routesrv/routesrv/shadowdiff"
)

// FuzzDiff checks the laws: a list does not differ from itself; Diff(b, a) is the mirror of Diff(a, b); a report is empty if and
// only if the lists are equal; every route is accounted for; a change that is reverted leaves the lists equal.
func FuzzDiff(f *testing.F) {
	for _, s := range [][2]string{
		{"", "a: * -> <shunt>"},
		{`a: Foo(1) && Foo(2) -> <shunt>`, `a: Foo(2) && Foo(1) -> <shunt>; b: * -> <loopback>`},
		{`a: * -> f() -> g() -> f() -> h(-0) -> <shunt>`, `a: * -> g() -> f() -> h(0) -> f() -> <shunt>`},
		{`a: * -> <random, "http://a?zone=x", "http://b">`, `a: * -> <"http://b", "http://a?zone=y", "http://a">`},
		{`a: * -> <shunt>; a: * -> <dynamic>; c: * -> "http://x"`, `a: * -> <dynamic>; d: * -> "http://x"`},
		{`a: Method("") && Header("x", "y") -> <forward>`, `a: Header("x", "z") && Any() -> ""`},
		{document(3, 0), document(2, 0)},
	} {
		f.Add(s[0], s[1])
	}
	f.Fuzz(func(t *testing.T, x, y string) {
		a, err := eskip.Parse(x)
		if err != nil {
			t.Skip()
		}
		b, err := eskip.Parse(y)
		if err != nil {
			t.Skip()
		}
		if r := shadowdiff.Diff(a, parse(t, x)); !r.Empty() || r.Equal != len(a) {
			t.Errorf("%s differs from itself: %q", x, outline(r))
		}
		there, back := shadowdiff.Diff(a, b), shadowdiff.Diff(b, a)
		if diff := cmp.Diff(mirrored(t, there), entries(back)); diff != "" {
			t.Errorf("Diff(b, a) is no mirror of Diff(a, b) (-mirror +got):\n%s", diff)
		}
		if unique(a) && unique(b) && there.Empty() != equivalent(a, b) {
			t.Errorf("empty = %v, equivalent = %v: %q", there.Empty(), equivalent(a, b), outline(there))
		}
		c := there.Counts()
		if c.Missing+c.Changed+c.Equal != len(a) || c.Extra+c.Changed+c.Equal != len(b) {
			t.Errorf("%+v of %d and %d routes", c, len(a), len(b))
		}
		for _, d := range there.Differences {
			if d.Kind == shadowdiff.Changed {
				checkParts(t, d)
			}
		}
	})
}

// equivalent compares lists with unique ids by meaning.
func equivalent(a, b []*eskip.Route) bool {
	byID := func(x, y *eskip.Route) int { return strings.Compare(x.Id, y.Id) }
	a, b = slices.SortedFunc(slices.Values(a), byID), slices.SortedFunc(slices.Values(b), byID)
	return slices.EqualFunc(a, b, func(x, y *eskip.Route) bool { return eskip.Equivalent(x, y) })
}

// checkParts checks that the filters that no part names are the same in both routes, and that each part differs.
func checkParts(t *testing.T, c shadowdiff.Difference) {
	t.Helper()
	texts := func(filters []*eskip.Filter, at func(shadowdiff.Part) int) (all []string) {
		for i, f := range filters {
			if !slices.ContainsFunc(c.Parts, func(p shadowdiff.Part) bool { return at(p) == i+1 }) {
				all = append(all, f.String())
			}
		}
		return all
	}
	old := texts(c.A.Filters, func(p shadowdiff.Part) int { return p.OldPosition })
	new := texts(c.B.Filters, func(p shadowdiff.Part) int { return p.NewPosition })
	if diff := cmp.Diff(old, new); diff != "" {
		t.Errorf("filters differ that no part names (-a +b):\n%s", diff)
	}
	for _, p := range c.Parts {
		if p.Op == "" || p.Old == p.New && p.Op != shadowdiff.Moved {
			t.Errorf("%+v does not differ", p)
		}
	}
}

type entry struct {
	Kind   string
	ID     string
	A, B   string
	Detail []shadowdiff.Part
}

func entries(r shadowdiff.Report) []entry {
	out := []entry{}
	text := func(r *eskip.Route) string {
		if r == nil {
			return ""
		}
		return r.String()
	}
	for _, d := range r.Differences {
		out = append(out, entry{d.Kind.String(), d.ID, text(d.A), text(d.B), sortedParts(d.Parts)})
	}
	slices.SortStableFunc(out, func(x, y entry) int {
		return strings.Compare(x.ID+" "+x.Kind+" "+x.A+" "+x.B, y.ID+" "+y.Kind+" "+y.A+" "+y.B)
	})
	return out
}

// mirrored is the expected report of the exchanged sides.
func mirrored(t *testing.T, r shadowdiff.Report) []entry {
	t.Helper()
	m := shadowdiff.Report{A: r.B, B: r.A, Equal: r.Equal}
	for _, d := range r.Differences {
		d.A, d.B = d.B, d.A
		switch d.Kind {
		case shadowdiff.Missing:
			d.Kind = shadowdiff.Extra
		case shadowdiff.Extra:
			d.Kind = shadowdiff.Missing
		}
		parts := d.Parts
		d.Parts = nil
		for _, p := range parts {
			p.Old, p.New = p.New, p.Old
			p.OldPosition, p.NewPosition = p.NewPosition, p.OldPosition
			switch p.Op {
			case shadowdiff.Removed:
				p.Op = shadowdiff.Added
			case shadowdiff.Added:
				p.Op = shadowdiff.Removed
			}
			d.Parts = append(d.Parts, p)
		}
		m.Differences = append(m.Differences, d)
	}
	return entries(m)
}

func sortedParts(parts []shadowdiff.Part) []shadowdiff.Part {
	parts = slices.Clone(parts)
	slices.SortFunc(parts, func(x, y shadowdiff.Part) int {
		key := func(p shadowdiff.Part) string {
			return strings.Join([]string{p.Label(), string(p.Op), p.Old, p.New}, "\x00")
		}
		return strings.Compare(key(x), key(y))
	})
	return parts
}

func unique(routes []*eskip.Route) bool {
	seen := make(map[string]bool)
	for _, r := range routes {
		if seen[r.Id] {
			return false
		}
		seen[r.Id] = true
	}
	return true
}
