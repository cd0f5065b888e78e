package eskip_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/routesrv/routesrv/eskip"
)

// one parses a document of one route.
func one(t *testing.T, text string) *eskip.Route {
	t.Helper()
	routes, err := eskip.Parse(text)
	if err != nil || len(routes) != 1 {
		t.Fatalf("%s: %d routes, error %v", text, len(routes), err)
	}
	return routes[0]
}

func TestRoutesAreEqualByMeaning(t *testing.T) {
	for _, c := range []struct {
		x, y string
		want bool
	}{
		{`Path("/x") && Host(/y/) -> <shunt>`, `Host(/y/) && Path("/x") -> <shunt>`, true},
		{`Foo() && Bar() -> <shunt>`, `Bar() && Foo() -> <shunt>`, true},
		{`Foo(1) && Foo(2) -> <shunt>`, `Foo(2) && Foo(1) -> <shunt>`, false},
		{`Foo(1) -> <shunt>`, `Foo(1, 1) -> <shunt>`, false},
		{`Foo(1) -> <shunt>`, `Foo("1") -> <shunt>`, false},
		{`Foo(/1/) -> <shunt>`, `Foo("1") -> <shunt>`, true},
		{`Foo() && * -> <shunt>`, `Foo() && Any() -> <shunt>`, true},
		{`Foo() -> <shunt>`, `Foo() && Foo() -> <shunt>`, false},
		{`Host(/a/) && Host(/b/) -> <shunt>`, `Host(/b/) && Host(/a/) -> <shunt>`, false},
		{`Header("a", "1") && Header("b", "2") -> <shunt>`, `Header("b", "2") && Header("a", "1") -> <shunt>`, true},
		{`Header("a", "1") -> <shunt>`, `Header("a", "2") -> <shunt>`, false},
		{`HeaderRegexp("a", /1/) && HeaderRegexp("a", /2/) -> <shunt>`, `HeaderRegexp("a", /2/) && HeaderRegexp("a", /1/) -> <shunt>`, true},
		{`Method("GET") -> <shunt>`, `* -> <shunt>`, false},
		{`* -> f() -> g() -> <shunt>`, `* -> f() -> g() -> <shunt>`, true},
		{`* -> f() -> g() -> <shunt>`, `* -> g() -> f() -> <shunt>`, false},
		{`* -> f(1) -> <shunt>`, `* -> f(2) -> <shunt>`, false},
		{`* -> <random, "http://a", "http://b">`, `* -> <random, "http://b", "http://a">`, true},
		{`* -> <random, "http://a", "http://b">`, `* -> <"http://b", "http://a">`, false},
		{`* -> <"http://a?zone=z">`, `* -> <"http://a">`, false},
		{`* -> <"http://a?zone=y", "http://a?zone=z">`, `* -> <"http://a?zone=z", "http://a?zone=y">`, true},
		{`* -> <"http://a">`, `* -> <"http://a", "http://a">`, false},
		{`* -> "http://a"`, `* -> "http://b"`, false},
		{`* -> <shunt>`, `* -> <loopback>`, false},
		{`a: * -> <shunt>`, `b: * -> <shunt>`, false},
	} {
		x, y := one(t, c.x), one(t, c.y)
		if eskip.Eq(x, y) != c.want || eskip.Eq(y, x) != c.want {
			t.Errorf("Eq of %s and %s is %t, want %t", c.x, c.y, !c.want, c.want)
		}
		if got := eskip.Eq(eskip.Canonical(x), y); got != c.want {
			t.Errorf("Eq of the canonical %s and %s is %t, want %t", c.x, c.y, got, c.want)
		}
	}
}

func TestRoutesOfProgramsAreEqualByMeaning(t *testing.T) {
	predicate := func(name string, args ...interface{}) []*eskip.Predicate {
		return []*eskip.Predicate{{Name: name, Args: args}}
	}
	for _, c := range []struct {
		name string
		x, y *eskip.Route
		want bool
	}{
		{"nil and nil", nil, nil, true},
		{"nil and empty", nil, &eskip.Route{}, false},
		{"legacy path and predicate", &eskip.Route{Path: "/"}, &eskip.Route{Predicates: predicate("Path", "/")}, true},
		{"predicate wins over legacy path", &eskip.Route{Path: "/x", Predicates: predicate("Path", "/")}, &eskip.Route{Path: "/"}, true},
		{"legacy host and predicate", &eskip.Route{HostRegexps: []string{"a"}}, &eskip.Route{Predicates: predicate("Host", "a")}, true},
		{"legacy shunt and type", &eskip.Route{Shunt: true}, &eskip.Route{BackendType: eskip.ShuntBackend}, true},
		{"shunt with address", &eskip.Route{Shunt: true, Backend: "x"}, &eskip.Route{BackendType: eskip.ShuntBackend}, true},
		{"loopback with address", &eskip.Route{BackendType: eskip.LoopBackend, Backend: "x"}, &eskip.Route{BackendType: eskip.LoopBackend}, true},
		{"name and namespace", &eskip.Route{Name: "x"}, &eskip.Route{Namespace: "y"}, true},
		{"Any in the list", &eskip.Route{Predicates: predicate("Any")}, &eskip.Route{}, false},
		{"int and float64", &eskip.Route{Predicates: predicate("A", 1)}, &eskip.Route{Predicates: predicate("A", 1.0)}, false},
		{"nil arguments", &eskip.Route{Predicates: predicate("A", nil)}, &eskip.Route{Predicates: predicate("A", nil)}, true},
		{"nil and text", &eskip.Route{Predicates: predicate("A", nil)}, &eskip.Route{Predicates: predicate("A", "")}, false},
		{"bool", &eskip.Route{Predicates: predicate("A", true)}, &eskip.Route{Predicates: predicate("A", true)}, true},
		{"bool and nil", &eskip.Route{Predicates: predicate("A", true)}, &eskip.Route{Predicates: predicate("A", nil)}, false},
		{"equal lists", &eskip.Route{Predicates: predicate("A", []string{"a"})}, &eskip.Route{Predicates: predicate("A", []string{"a"})}, true},
		{"different lists", &eskip.Route{Predicates: predicate("A", []string{"a"})}, &eskip.Route{Predicates: predicate("A", []string{"b"})}, false},
		{"list and text", &eskip.Route{Predicates: predicate("A", []string{"a"})}, &eskip.Route{Predicates: predicate("A", "a")}, false},
		{"no arguments", &eskip.Route{Filters: []*eskip.Filter{{Name: "f", Args: []interface{}{}}}}, &eskip.Route{Filters: []*eskip.Filter{{Name: "f"}}}, true},
	} {
		if eskip.Eq(c.x, c.y) != c.want || eskip.Eq(c.y, c.x) != c.want {
			t.Errorf("%s: got %t, want %t", c.name, !c.want, c.want)
		}
	}
}

func TestEqTakesAnyNumberOfRoutes(t *testing.T) {
	a, b, c := one(t, "* -> <shunt>"), one(t, "Any() -> <shunt>"), one(t, "* -> <dynamic>")
	if !eskip.Eq() || !eskip.Eq(a) || !eskip.Eq(nil) || !eskip.Eq(a, b, a) {
		t.Error("equal routes are not")
	}
	if eskip.Eq(a, b, c) || eskip.Eq(c, a, b) || eskip.Eq(a, nil) {
		t.Error("different routes are equal")
	}
}

// In the reference the comparison of two equal routes with several headers sometimes fails.
func TestEqualityAndCanonicalFormAreDeterministic(t *testing.T) {
	r := &eskip.Route{Headers: map[string]string{}, HeaderRegexps: map[string][]string{}}
	for i := range 20 {
		r.Headers[fmt.Sprint(i)] = "v"
		r.HeaderRegexps[fmt.Sprint(i)] = []string{"b", "a"}
	}
	want := eskip.Canonical(r)
	for range 50 {
		if got := eskip.Canonical(r.Copy()); !reflect.DeepEqual(got, want) || !eskip.Eq(r.Copy(), want) {
			t.Fatal("the canonical form changed")
		}
	}
}

func TestCanonicalForm(t *testing.T) {
	p := func(name string, args ...interface{}) *eskip.Predicate {
		return &eskip.Predicate{Name: name, Args: args}
	}
	a, b := &eskip.LBEndpoint{Address: "http://a"}, &eskip.LBEndpoint{Address: "http://b", Zone: "z"}
	filters := []*eskip.Filter{{Name: "f"}}
	for _, c := range []struct {
		name        string
		route, want *eskip.Route
	}{
		{"nil", nil, nil},
		{"empty", &eskip.Route{}, &eskip.Route{}},
		{
			"all fields",
			&eskip.Route{
				Id: "r", Path: "/p", HostRegexps: []string{"h2", "h1"}, PathRegexps: []string{"x"}, Method: "GET",
				Headers: map[string]string{"b": "2", "a": "1"}, HeaderRegexps: map[string][]string{"b": {"3"}, "a": {"2", "1"}},
				Predicates: []*eskip.Predicate{p("Weight", 1.0), p("Any"), p("*")}, Filters: filters,
				Backend: "http://x", LBAlgorithm: "random", LBEndpoints: []*eskip.LBEndpoint{a}, Name: "n", Namespace: "ns",
			},
			&eskip.Route{
				Id: "r",
				Predicates: []*eskip.Predicate{
					p("*"), p("Any"), p("Header", "a", "1"), p("Header", "b", "2"), p("HeaderRegexp", "a", "1"), p("HeaderRegexp", "a", "2"),
					p("HeaderRegexp", "b", "3"), p("Host", "h2"), p("Host", "h1"), p("Method", "GET"), p("Path", "/p"), p("PathRegexp", "x"),
					p("Weight", 1.0),
				},
				Filters: filters, Backend: "http://x",
			},
		},
		{
			"method first, other predicates of a name behind it in order",
			&eskip.Route{Method: "GET", Path: "/x", Predicates: []*eskip.Predicate{p("Path", "/y"), p("Method", "PUT")}},
			&eskip.Route{Predicates: []*eskip.Predicate{p("Method", "GET"), p("Method", "PUT"), p("Path", "/y")}},
		},
		{
			"many hosts",
			&eskip.Route{HostRegexps: []string{"d", "c", "b", "a"}},
			&eskip.Route{Predicates: []*eskip.Predicate{p("Host", "d"), p("Host", "c"), p("Host", "b"), p("Host", "a")}},
		},
		{
			"load balanced",
			&eskip.Route{BackendType: eskip.LBBackend, Backend: "x", Shunt: true, LBAlgorithm: "random", LBEndpoints: []*eskip.LBEndpoint{b, a}},
			&eskip.Route{BackendType: eskip.LBBackend, LBAlgorithm: "random", LBEndpoints: []*eskip.LBEndpoint{a, b}},
		},
		{
			"load balanced without endpoints",
			&eskip.Route{BackendType: eskip.LBBackend},
			&eskip.Route{BackendType: eskip.LBBackend, LBEndpoints: []*eskip.LBEndpoint{}},
		},
		{"shunt", &eskip.Route{Shunt: true, Backend: "x"}, &eskip.Route{BackendType: eskip.ShuntBackend}},
		{"loopback", &eskip.Route{BackendType: eskip.LoopBackend, Backend: "x"}, &eskip.Route{BackendType: eskip.LoopBackend}},
		{"forward", &eskip.Route{BackendType: eskip.ForwardBackend, Backend: "x"}, &eskip.Route{BackendType: eskip.ForwardBackend}},
	} {
		if got := eskip.Canonical(c.route); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s:\n got %v %+v\nwant %v %+v", c.name, got, got, c.want, c.want)
		}
	}
}

// The sort has to be stable for any number of predicates.
func TestCanonicalFormKeepsTheOrderOfManyEqualNames(t *testing.T) {
	r := &eskip.Route{}
	for i := range 100 {
		r.Predicates = append(r.Predicates, &eskip.Predicate{Name: string(rune('C' - i%2)), Args: []interface{}{float64(i)}})
	}
	last := map[string]float64{"B": -1, "C": -1}
	for _, p := range eskip.Canonical(r).Predicates {
		if v := p.Args[0].(float64); v < last[p.Name] {
			t.Fatalf("%s(%v) is behind %s(%v)", p.Name, v, p.Name, last[p.Name])
		}
		last[p.Name] = p.Args[0].(float64)
	}
}

func TestCanonicalSharesButDoesNotSort(t *testing.T) {
	r := one(t, `B() && A() -> f() -> <"http://b", "http://a">`)
	c := eskip.Canonical(r)
	if r.Predicates[0].Name != "B" || r.LBEndpoints[0].Address != "http://b" {
		t.Error("the original changed")
	}
	if c.Predicates[0] != r.Predicates[1] || c.LBEndpoints[0] != r.LBEndpoints[1] || &c.Filters[0] != &r.Filters[0] {
		t.Error("the canonical form does not share its parts with the original")
	}
}

func TestCanonicalList(t *testing.T) {
	if got := eskip.CanonicalList([]*eskip.Route{}); got != nil {
		t.Errorf("of an empty list: got %v, want nil", got)
	}
	got := eskip.CanonicalList([]*eskip.Route{{Id: "b", Shunt: true}, nil, {Id: "a"}})
	want := []*eskip.Route{{Id: "b", BackendType: eskip.ShuntBackend}, nil, {Id: "a"}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestListsAreEqualInAnyOrder(t *testing.T) {
	a, b := "a: * -> <shunt>;", "b: * -> <dynamic>;"
	for _, c := range []struct {
		lists []string
		want  bool
	}{
		{nil, true},
		{[]string{""}, true},
		{[]string{"", ""}, true},
		{[]string{a}, true},
		{[]string{a + b, b + a, a + b}, true},
		{[]string{a + b, a}, false},
		{[]string{a, a + b}, false},
		{[]string{a, b}, false},
		{[]string{"a: * -> <dynamic>", a}, false},
		{[]string{a + a}, false},
		{[]string{a + a, a + a}, false},
		{[]string{a, a + a}, false},
	} {
		var lists [][]*eskip.Route
		for _, text := range c.lists {
			lists = append(lists, eskip.MustParse(text))
		}
		if got := eskip.EqLists(lists...); got != c.want {
			t.Errorf("%q: got %t, want %t", c.lists, got, c.want)
		}
	}
	if !eskip.EqLists(nil, []*eskip.Route{}) {
		t.Error("nil and an empty list differ")
	}
}

func TestEqListsOnlyReads(t *testing.T) {
	x := eskip.MustParse(tableText(200))
	rand.New(rand.NewPCG(1, 1)).Shuffle(len(x), func(i, j int) { x[i], x[j] = x[j], x[i] })
	before := slices.Clone(x)
	if !eskip.EqLists(x, eskip.MustParse(tableText(200))) {
		t.Error("a shuffled table is not equal")
	}
	if !slices.Equal(x, before) {
		t.Error("the list was sorted in place")
	}
}

func TestComparingEqualRoutesDoesNotAllocate(t *testing.T) {
	x, y := eskip.MustParse(tableText(30)), eskip.MustParse(tableText(30))
	for i := range x {
		pair := []*eskip.Route{x[i], y[i]}
		if n := testing.AllocsPerRun(20, func() { eskip.Eq(pair...) }); n > 0 {
			t.Errorf("%v allocations for %s", n, x[i])
		}
	}
}
