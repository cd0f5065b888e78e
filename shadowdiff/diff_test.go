package shadowdiff_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/routesrv/routesrv/eskip"
	"github.com/routesrv/routesrv/shadowdiff"
)

// outline is a report in short lines, one for each difference and part.
func outline(r shadowdiff.Report) []string {
	var out []string
	for _, d := range r.Differences {
		line := d.Kind.String() + " " + d.ID
		out = append(out, line)
		for _, p := range d.Parts {
			out = append(out, strings.TrimSpace("  "+p.Label()+" "+string(p.Op)+" ["+p.Old+"] ["+p.New+"]"))
		}
	}
	return out
}

func TestDiffFindsWhatDiffers(t *testing.T) {
	for _, c := range []struct {
		name, a, b string
		want       []string
	}{
		{"nothing", `a: * -> <shunt>`, `a: * -> <shunt>`, nil},
		{"only one side has it", `a: * -> <shunt>; b: Foo() -> <shunt>`, `b: Foo() -> <shunt>; c: Bar() -> <shunt>`,
			[]string{"missing a", "extra c"}},
		{"another id", `a: Foo() && Bar() -> <shunt>`, `z: Bar() && Foo() -> <shunt>`, []string{"missing a", "extra z"}},
		{"several with another id", `a: * -> <shunt>; b: * -> <shunt>; c: * -> <shunt>`, `y: * -> <shunt>; z: * -> <shunt>`,
			[]string{"missing a", "missing b", "missing c", "extra y", "extra z"}},
		{"predicate", `a: Foo() && Method("GET") -> <shunt>`, `a: Method("POST") && Bar() -> <shunt>`, []string{"changed a",
			"predicate added [] [Bar()]", "predicate removed [Foo()] []", `predicate replaced [Method("GET")] [Method("POST")]`}},
		{"order of predicates of one name", `a: Foo(1) && Foo(2) -> <shunt>`, `a: Foo(2) && Foo(1) -> <shunt>`,
			nil},
		{"order of predicates with fields of their own",
			`a: PathRegexp("^/") && Host(/x/) && PathRegexp("b") -> <shunt>`, `a: PathRegexp("b") && PathRegexp("^/") && Host(/x/) -> <shunt>`,
			nil},
		{"order of predicates beside another difference", `a: Foo(1) && Foo(2) -> f() -> <shunt>`, `a: Foo(2) && Foo(1) -> g() -> <shunt>`,
			[]string{"changed a", "filter 1 removed [f()] []", "filter 1 added [] [g()]"}},
		{"one of several predicates of one name", `a: Foo(1) && Foo(2) -> <shunt>`, `a: Foo(3) && Foo(1) -> <shunt>`,
			[]string{"changed a", "predicate replaced [Foo(2)] [Foo(3)]"}},
		{"one of several predicates of a name", `a: Host(/a/) && Host(/b/) && Host(/a/) -> <shunt>`, `a: Host(/b/) && Host(/a/) -> <shunt>`,
			[]string{"changed a", `predicate removed [Host("a")] []`}},
		{"filter replaced", `a: * -> f() -> g(1) -> h() -> <shunt>`, `a: * -> f() -> g(2) -> h() -> <shunt>`,
			[]string{"changed a", "filter 2 replaced [g(1)] [g(2)]"}},
		{"filter added and removed", `a: * -> f() -> h() -> i() -> <shunt>`, `a: * -> f() -> g() -> h() -> <shunt>`,
			[]string{"changed a", "filter 2 added [] [g()]", "filter 3 removed [i()] []"}},
		{"order of filters", `a: * -> f() -> g() -> h() -> <shunt>`, `a: * -> h() -> f() -> g() -> <shunt>`,
			[]string{"changed a", "filter 3 → 1 moved [h()] [h()]"}},
		{"two filters of one name exchanged", `a: * -> f(1) -> g() -> f(2) -> <shunt>`, `a: * -> f(2) -> g() -> f(1) -> <shunt>`,
			[]string{"changed a", "filter 1 → 3 moved [f(1)] [f(1)]", "filter 3 → 1 moved [f(2)] [f(2)]"}},
		{"chain turned round", `a: * -> f() -> g() -> h() -> <shunt>`, `a: * -> h() -> g() -> f() -> <shunt>`,
			[]string{"changed a", "filter 1 → 3 moved [f()] [f()]", "filter 3 → 1 moved [h()] [h()]"}},
		{"one moved and one replaced", `a: * -> f() -> g(1) -> h() -> <shunt>`, `a: * -> g(2) -> h() -> f() -> <shunt>`,
			[]string{"changed a", "filter 2 → 1 replaced [g(1)] [g(2)]", "filter 3 → 2 moved [h()] [h()]"}},
		{"replaced behind one that was added", `a: * -> f(1) -> <shunt>`, `a: * -> g() -> f(2) -> <shunt>`,
			[]string{"changed a", "filter 1 → 2 replaced [f(1)] [f(2)]", "filter 1 added [] [g()]"}},
		{"type of backend", `a: * -> <shunt>`, `a: * -> <"http://a", "http://b">`,
			[]string{"changed a", `backend replaced [<shunt>] [<"http://a", "http://b">]`}},
		{"address", `a: * -> "http://a"`, `a: * -> "http://b"`, []string{"changed a", `address replaced ["http://a"] ["http://b"]`}},
		{"algorithm", `a: * -> <random, "http://a">; b: * -> <"http://a">`, `a: * -> <roundRobin, "http://a">; b: * -> <random, "http://a">`,
			[]string{"changed a", "algorithm replaced [random] [roundRobin]", "changed b", "algorithm added [] [random]"}},
		{"endpoints", `a: * -> <"http://a", "http://b">`, `a: * -> <"http://c", "http://b", "http://b">`, []string{"changed a",
			"endpoint removed [http://a] []", "endpoint added [] [http://b]", "endpoint added [] [http://c]"}},
		{"zones", `a: * -> <"http://a?zone=x", "http://b?zone=x">`, `a: * -> <"http://b?zone=y", "http://a?zone=x">`,
			[]string{"changed a", "zone replaced [http://b?zone=x] [http://b?zone=y]"}},
		{"repeated ids", `a: Foo() -> <shunt>; a: Bar() -> <shunt>`, `a: Foo() -> <shunt>`, []string{"missing a"}},
		{"one side is empty", `a: * -> <shunt>`, ``, []string{"missing a"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, b := parse(t, c.a), parse(t, c.b)
			if diff := cmp.Diff(c.want, outline(shadowdiff.Diff(a, b))); diff != "" {
				t.Errorf("Diff (-want +got):\n%s", diff)
			}
		})
	}
}

func TestOrderThatMeansNothingIsNoDifference(t *testing.T) {
	for _, c := range [][2]string{
		{`a: Foo() && Host(/x/) && Path("/y") -> <shunt>`, `a: Path("/y") && Foo() && Host("x") -> <shunt>`},
		{`a: * -> <"http://a?zone=x", "http://b">`, `a: * -> <"http://b", "http://a?zone=x">`},
		{`a: * -> <shunt>; b: Foo() -> <shunt>`, `b: Foo() -> <shunt>; a: Any() -> <shunt>`},
		{`a: HeaderRegexp("x", /a/) && HeaderRegexp("x", /b/) -> <shunt>`, `a: HeaderRegexp("x", /b/) && HeaderRegexp("x", /a/) -> <shunt>`},
	} {
		r := shadowdiff.Diff(parse(t, c[0]), parse(t, c[1]))
		if !r.Empty() {
			t.Errorf("%s\n%s\ndiffer: %q", c[0], c[1], outline(r))
		}
		if r.Equal != r.A {
			t.Errorf("%s: equal = %d, want %d", c[0], r.Equal, r.A)
		}
	}
}

func TestCompiledRouteEqualsTheOneThatWasReadBack(t *testing.T) {
	compiled := &eskip.Route{
		Id: "a", Path: "/x", Shunt: true,
		Predicates: []*eskip.Predicate{{Name: "Weight", Args: []any{3}}, {Name: "Any"}},
		Filters:    []*eskip.Filter{{Name: "redirectTo", Args: []any{308, "https:"}}},
	}
	read := parse(t, eskip.String(compiled))
	if eskip.Eq(compiled, read[0]) {
		t.Fatal("the routes are equal already: this tests nothing")
	}
	if r := shadowdiff.Diff([]*eskip.Route{compiled}, read); !r.Empty() {
		t.Errorf("differ: %q", outline(r))
	}
}

func TestNilRoutesAreSkipped(t *testing.T) {
	a := append(parse(t, `a: * -> <shunt>; b: Foo() -> <shunt>`), nil)
	b := append([]*eskip.Route{nil, nil}, parse(t, `b: Foo() -> <shunt>; a: * -> <shunt>`)...)
	for _, r := range []shadowdiff.Report{shadowdiff.Diff(a, b), shadowdiff.Diff(b, a), shadowdiff.Diff(b[:3], b[1:3])} {
		if !r.Empty() || r.A != r.B || r.A != r.Equal {
			t.Errorf("%+v", r)
		}
	}
}

func TestOrderOfTheListsMeansNothing(t *testing.T) {
	a, b := parse(t, document(1000, 0)), parse(t, document(1000, 1))
	want := shadowdiff.Diff(a, b)
	if got, want := want.Counts(), (shadowdiff.Counts{Kinds: shadowdiff.Kinds{Missing: 2, Extra: 2, Changed: 8}, Equal: 990}); got != want {
		t.Errorf("counts = %+v, want %+v", got, want)
	}
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 5 {
		rnd.Shuffle(len(a), func(i, j int) { a[i], a[j] = a[j], a[i] })
		rnd.Shuffle(len(b), func(i, j int) { b[i], b[j] = b[j], b[i] })
		if diff := cmp.Diff(want, shadowdiff.Diff(a, b)); diff != "" {
			t.Fatal(diff)
		}
	}
}

func TestLongChainsAreComparedInTime(t *testing.T) {
	chain := func(prefix string) string {
		return "a: *" + strings.Repeat(` -> f("`+prefix+`")`, 20_000) + " -> <shunt>"
	}
	r := shadowdiff.Diff(parse(t, chain("x")), parse(t, chain("y")))
	if len(r.Differences) != 1 || len(r.Differences[0].Parts) != 20_000 {
		t.Errorf("%d changed", len(r.Differences))
	}
}
