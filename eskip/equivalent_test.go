package eskip_test

import (
	"math/rand/v2"
	"testing"

	"github.com/routesrv/routesrv/eskip"
)

func TestEquivalentRoutes(t *testing.T) {
	for _, c := range []struct {
		x, y string
		want bool
	}{
		// predicates are a multiset
		{`Foo(1) && Foo(2) -> <shunt>`, `Foo(2) && Foo(1) -> <shunt>`, true},
		{`Host(/a/) && Host(/b/) -> <shunt>`, `Host(/b/) && Host(/a/) -> <shunt>`, true},
		{`PathRegexp(/a/) && Foo() && PathRegexp(/b/) -> <shunt>`, `Foo() && PathRegexp(/b/) && PathRegexp(/a/) -> <shunt>`, true},
		{`Foo(1) && Foo(1) && Foo(2) -> <shunt>`, `Foo(2) && Foo(1) && Foo(2) -> <shunt>`, false},
		{`Foo(1) && Foo(2) && Foo(3) -> <shunt>`, `Foo(3) && Foo(1) && Foo(2) -> <shunt>`, true},
		{`Foo() -> <shunt>`, `Foo() && Foo() -> <shunt>`, false},
		{`Foo(1) -> <shunt>`, `Bar(1) -> <shunt>`, false},
		{`Foo(1) -> <shunt>`, `Foo("1") -> <shunt>`, false},
		{`Foo(1) -> <shunt>`, `Foo(1, 2) -> <shunt>`, false},
		{`Foo() -> <shunt>`, `Foo(1) -> <shunt>`, false},

		// control characters in expressions, and only there
		{`Host("a\nb") -> <shunt>`, `Host("a\\nb") -> <shunt>`, true},
		{`HeaderRegexp("k", "a\tb") -> <shunt>`, `HeaderRegexp("k", "a\\tb") -> <shunt>`, true},
		{`HeaderRegexp("k\n", "a") -> <shunt>`, `HeaderRegexp("k\\n", "a") -> <shunt>`, false},
		{`PathRegexp("a\bb") -> <shunt>`, `PathRegexp("a\\bb") -> <shunt>`, false},
		{`Header("k", "a\nb") -> <shunt>`, `Header("k", "a\\nb") -> <shunt>`, false},
		{`Path("/a\nb") -> <shunt>`, `Path("/a\\nb") -> <shunt>`, false},
		{`Host("a\nb") -> <shunt>`, `Host("ab") -> <shunt>`, false},

		{`* -> <"https://b", "https://a">`, `* -> <"https://a", "https://b">`, true},
		{`* -> <"HTTPS://a">`, `* -> <"https://a">`, false},
		{`* -> <random, "https://a">`, `* -> <"HTTPS://a">`, false},
		{`* -> <"https://a?zone=z">`, `* -> <"https://a?zone=Z">`, false},
		{`* -> <"https://a">`, `* -> <"https://a", "https://a">`, false},

		// everything else is as with Eq
		{`* -> f() -> g() -> <shunt>`, `* -> g() -> f() -> <shunt>`, false},
		{`* -> "http://a"`, `* -> "http://b"`, false},
		{`* -> "HTTP://a"`, `* -> "http://a"`, false},
		{`* -> <shunt>`, `* -> <dynamic>`, false},
		{`a: * -> <shunt>`, `b: * -> <shunt>`, false},
	} {
		x, y := one(t, c.x), one(t, c.y)
		if eskip.Equivalent(x, y) != c.want || eskip.Equivalent(y, x) != c.want {
			t.Errorf("Equivalent of %s and %s is %t, want %t", c.x, c.y, !c.want, c.want)
		}
		if got := eskip.Equivalent(eskip.Canonical(x), y); got != c.want {
			t.Errorf("Equivalent of the canonical %s and %s is %t, want %t", c.x, c.y, got, c.want)
		}
	}
	any := &eskip.Route{Predicates: []*eskip.Predicate{{Name: "Any"}, {Name: "*"}}}
	if !eskip.Equivalent(any, &eskip.Route{}) || !eskip.Equivalent(nil, nil) || eskip.Equivalent(nil, any) || eskip.Equivalent(any, nil) {
		t.Error("predicates that mean nothing, or nil, are compared wrongly")
	}
}

// Whatever Eq considers equal is equivalent, in any order of the predicates and of the two arguments.
func TestEquivalentIsWiderThanEq(t *testing.T) {
	g := generator{rand.New(rand.NewPCG(11, 12))}
	for range 2_000 {
		r := g.route("r")
		c := eskip.Copy(r)
		if !eskip.Equivalent(r, c) {
			t.Fatalf("%s is not equivalent to its copy", r)
		}
		g.Shuffle(len(c.Predicates), func(i, j int) { c.Predicates[i], c.Predicates[j] = c.Predicates[j], c.Predicates[i] })
		if !eskip.Equivalent(r, c) || !eskip.Equivalent(c, r) {
			t.Fatalf("%s is not equivalent to itself with the predicates in another order: %s", r, c)
		}
		if len(c.Predicates) == 0 {
			continue
		}
		c.Predicates = c.Predicates[1:]
		if eskip.Equivalent(r, c) || eskip.Equivalent(c, r) {
			t.Fatalf("%s is equivalent to itself with a predicate less: %s", r, c)
		}
	}
}
