package eskip_test

import (
	"reflect"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/routesrv/routesrv/eskip"
)

func TestSyntaxErrorsNameTokenRouteAndPosition(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{`* -> #`, `parse failed after token ->, position 5: syntax error`},
		{`fooId: * -> #`, `parse failed after token ->, last route id: fooId, position 12: syntax error`},
		{`r1: Path("/foo") -> <shunt>; r2: Path("/bar") -> #`,
			`parse failed after token ->, last route id: r2, position 49: syntax error`},
		{`* -> <shunt>;`, `parse failed after token ;, position 13: syntax error`},
		{`r: * -> <shunt> s: * -> <shunt>`, `parse failed after token s, last route id: r, position 17: syntax error`},
		{`r: -> <shunt>`, `parse failed after token ->, last route id: r, position 5: syntax error`},
		{`r: * -> a()`, `parse failed after token ), last route id: r, position 11: syntax error`},
		{`r: Foo("x) -> <shunt>`, `parse failed after token (, last route id: r, position 21: syntax error`},
		{`r: * -> <shunt>; @`, `parse failed after token ;, last route id: r, position 17: unexpected token`},
		{`r: * -> <shunt>; "abc`, `parse failed after token ;, last route id: r, position 21: incomplete token`},
		{`r: * -> <shunt>; 3.`, `parse failed after token ;, last route id: r, position 19: incomplete token`},
		{`r: * -> <shunt>/`, `parse failed after token <shunt>, last route id: r, position 15: invalid character`},
		{`@`, `parse failed after token , position 0: unexpected token`},
		{`"`, `parse failed after token , position 1: incomplete token`},
		// an incomplete number is passed over, and reported unless there is another error behind it
		{`r: * -> f(1.) -> <shunt>`, `parse failed after token (, last route id: r, position 12: incomplete token`},
		{`r: * -> f(1., 2.) -> <shunt>`, `parse failed after token ), last route id: r, position 17: syntax error`},
		{`r: * -> f(1.x) -> <shunt>`, `parse failed after token x, last route id: r, position 13: syntax error`},
		{`r: * -> f(1.1.) -> @`, `parse failed after token ->, last route id: r, position 19: syntax error`},
		{`3. r: * -> <shunt>; -.`, `parse failed after token ;, last route id: r, position 22: incomplete token`},
		{`r: 2. * -> <"x">`, `parse failed after token :, last route id: r, position 5: incomplete token`},
		{`1r: * -> <shunt>`, `parse failed after token 1, position 1: syntax error`},
		{`r-1: * -> <shunt>`, `parse failed after token -1, position 3: syntax error`},
		{`r: * -> f(1.2.3) -> <shunt>`, `parse failed after token .3, last route id: r, position 15: syntax error`},
		{`r: * /* c */ -> <shunt>`, `parse failed after token * c *, last route id: r, position 12: syntax error`},
		{`r: * -> <roundRobin "http://x">`, `parse failed after token http://x, last route id: r, position 30: syntax error`},

		// the id counts from its colon up to the next one
		{`r`, `parse failed after token r, position 1: syntax error`},
		{`r:`, `parse failed after token :, last route id: r, position 2: syntax error`},
		{`r: * -> <shunt>; s`, `parse failed after token s, last route id: r, position 18: syntax error`},
		{`r: * -> <shunt>; s: ->`, `parse failed after token ->, last route id: s, position 22: syntax error`},
		// literals are shown by their value
		{`"a\"b" c`, `parse failed after token a"b, position 6: syntax error`},
		{"`a\\`b` c", "parse failed after token a`b, position 6: syntax error"},
		// white space and comments are skipped before the end is found, and do not follow the token
		{"r: *  // x\n", "parse failed after token *, last route id: r, position 11: syntax error"},
		{"* -> <shunt> ;  ", `parse failed after token ;, position 14: syntax error`},
		{`* -> <shunt> @`, `parse failed after token <shunt>, position 13: unexpected token`},
		{`* -> <shunt> "x`, `parse failed after token <shunt>, position 15: incomplete token`},
	} {
		routes, err := eskip.Parse(c.text)
		if err == nil || err.Error() != c.want || routes != nil {
			t.Errorf("%s:\n got %v, %v\nwant nil, %s", c.text, routes, err, c.want)
		}
	}
}

func TestSyntaxErrorsOfFilters(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{`trallala`, `parse failed after token trallala, position 8: syntax error`},
		{`foo-bar`, `parse failed after token foo, position 3: syntax error`},
		{"\u00a0 foo-bar \n", `parse failed after token foo, position 3: syntax error`},
		{`a();`, `parse failed after token ;, position 4: syntax error`},
		{`a() @`, `parse failed after token ), position 4: unexpected token`},
		{`a() ->`, `parse failed after token ->, position 6: syntax error`},
		{`@`, `parse failed after token , position 0: unexpected token`},
		{`a() && b()`, `parse failed after token &&, position 6: syntax error`},
		{`*`, `parse failed after token *, position 1: syntax error`},
		{`a() -> <shunt>`, `parse failed after token <shunt>, position 14: syntax error`},
	} {
		filters, err := eskip.ParseFilters(c.text)
		if err == nil || err.Error() != c.want || filters != nil {
			t.Errorf("%s:\n got %v, %v\nwant nil, %s", c.text, filters, err, c.want)
		}
	}
}

func TestSyntaxErrorsOfPredicates(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{`Header#`, `parse failed after token Header, position 6: syntax error`},
		{`not predicates`, `parse failed after token predicates, position 14: syntax error`},
		{`Foo() & Bar()`, `parse failed after token ), position 6: unexpected token`},
		{`* "x`, `parse failed after token *, position 4: incomplete token`},
		{`Foo() -> a()`, `parse failed after token ->, position 8: syntax error`},
		{`Foo() &&`, `parse failed after token &&, position 8: syntax error`},
	} {
		predicates, err := eskip.ParsePredicates(c.text)
		if err == nil || err.Error() != c.want || predicates != nil {
			t.Errorf("%s:\n got %v, %v\nwant nil, %s", c.text, predicates, err, c.want)
		}
	}
}

func TestTheseDocumentsParse(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{`* -> <shunt>`, `* -> <shunt>`},
		{`Foo() -> <shunt>`, `Foo() -> <shunt>`},
		{`;;a: * -> <shunt>;;; b : * -> <shunt>;;`, "a: * -> <shunt>;\nb: * -> <shunt>;"},
		{`r: * && * -> <shunt>`, `r: * -> <shunt>;`},
		{`r: Any(1, "x") -> <shunt>`, `r: * -> <shunt>;`},
		{`r: foo() -> Path() -> <shunt>`, `r: foo() -> Path() -> <shunt>;`},
		{`r: Foo(,1) -> f(,"a",2) -> <shunt>`, `r: Foo(1) -> f("a", 2) -> <shunt>;`},
		{`r: * -> <shunt, "http://x">`, `r: * -> <shunt, "http://x">;`},
		{`r: * -> <"http://x">`, `r: * -> <"http://x">;`},
		{"r: * -> `http://x`", `r: * -> "http://x";`},
		{"r: * -> <`http://x`>", `r: * -> <"http://x">;`},
		{`r: * -> ""`, `r: * -> "";`},
		{`r: * -> <forward>`, `r: * -> <forward>;`},
		{`r: * -> <shunt>; r: * -> <dynamic>`, "r: * -> <shunt>;\nr: * -> <dynamic>;"},
	} {
		routes, err := eskip.Parse(c.text)
		if err != nil {
			t.Errorf("%s: %v", c.text, err)
			continue
		}
		if got := eskip.String(routes...); got != c.want {
			t.Errorf("%s: got %s, want %s", c.text, got, c.want)
		}
	}
}

func TestTheseDocumentsDoNotParse(t *testing.T) {
	for _, text := range []string{
		`r: * <shunt>`, `r: * ->`, `r: *() -> <shunt>`, `r: Foo -> <shunt>`, `r: * -> /http/`, `r: * -> </http/>`, `r: * -> <>`,
		`r: * -> <roundRobin>`, `r: * -> <roundRobin,>`, `r: * -> <"http://x",>`, `r: Foo(1,) -> <shunt>`, `r: Foo(,) -> <shunt>`,
		`r: Foo(,,1) -> <shunt>`, `r: Foo(1 2) -> <shunt>`, `r: Foo(a) -> <shunt>`, `r: Foo(Bar()) -> <shunt>`, `; * -> <shunt>`,
		`r: * -> <shunt>; * -> <shunt>`, `* -> <shunt> * -> <shunt>`, `: * -> <shunt>`, `r:: * -> <shunt>`, `r: * -> <shunt> -> <shunt>`,
		`r: * && -> <shunt>`, `r: && * -> <shunt>`, `r: * & * -> <shunt>`, `"r": * -> <shunt>`, `r: * -> -> <shunt>`,
	} {
		if routes, err := eskip.Parse(text); err == nil || !strings.HasSuffix(err.Error(), "syntax error") {
			t.Errorf("%s: got %v, %v, want a syntax error", text, routes, err)
		}
	}
}

func TestEmptyDocumentIsAnEmptyList(t *testing.T) {
	for _, text := range []string{"", " \n", "// nothing", ";", " ; ;; // x\n;"} {
		if routes, err := eskip.Parse(text); err != nil || routes == nil || len(routes) != 0 {
			t.Errorf("%q: got %#v, %v, want an empty list that is not nil", text, routes, err)
		}
	}
}

func TestEmptyPredicatesAndFiltersAreNil(t *testing.T) {
	for _, text := range []string{"", " \n", "// nothing", "\u00a0\u2003"} {
		if got, err := eskip.ParsePredicates(text); got != nil || err != nil {
			t.Errorf("predicates %q: got %#v, %v, want nil, nil", text, got, err)
		}
		if got, err := eskip.ParseFilters(text); got != nil || err != nil {
			t.Errorf("filters %q: got %#v, %v, want nil, nil", text, got, err)
		}
	}
	if got, err := eskip.ParsePredicates("* && *"); got != nil || err != nil {
		t.Errorf("predicates * && *: got %#v, %v, want nil, nil", got, err)
	}
}

func TestParsePredicatesKeepsAllAsTheyAre(t *testing.T) {
	got := eskip.MustParsePredicates(` Path() && * && Any() && Path(1) && Method(/GET/) `)
	want := []*eskip.Predicate{
		{Name: "Path"}, {Name: "Any"}, {Name: "Path", Args: []interface{}{1.0}}, {Name: "Method", Args: []interface{}{"GET"}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestMustParsePanicsWithTheError(t *testing.T) {
	for name, f := range map[string]func(){
		"MustParse":           func() { eskip.MustParse("x") },
		"MustParseFilters":    func() { eskip.MustParseFilters("x") },
		"MustParsePredicates": func() { eskip.MustParsePredicates("x") },
	} {
		func() {
			defer func() {
				if err, ok := recover().(error); !ok || err.Error() != "parse failed after token x, position 1: syntax error" {
					t.Errorf("%s: got %v, want the error of parsing", name, err)
				}
			}()
			f()
		}()
	}
}

func TestParseIsSafeForConcurrentUse(t *testing.T) {
	text := tableText(300)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			if got := eskip.String(eskip.MustParse(text)...); got != text {
				t.Error("concurrent parsing gave another table")
			}
		})
	}
	wg.Wait()
}

// Appending to a slice of one parsed route must not write into another.
func TestAppendingToAParsedRouteLeavesOthersAlone(t *testing.T) {
	text := tableText(300)
	routes := eskip.MustParse(text)
	for _, r := range routes {
		_ = append(r.Filters, &eskip.Filter{Name: "x"})
		_ = append(r.Predicates, &eskip.Predicate{Name: "X"})
		_ = append(r.HostRegexps, "x")
		_ = append(r.PathRegexps, "x")
		_ = append(r.LBEndpoints, &eskip.LBEndpoint{Address: "x"})
		for _, f := range r.Filters {
			_ = append(f.Args, "x")
		}
		for _, p := range r.Predicates {
			_ = append(p.Args, "x")
		}
	}
	_ = append(routes[:1:1], routes[0])
	if got := eskip.String(routes...); got != text {
		t.Error("routes changed")
	}
}

func TestOneRouteDoesNotKeepTheWholeDocument(t *testing.T) {
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	kept := eskip.MustParse(tableText(20_000))[10_000]
	if after := heap(); after > before+1<<20 {
		t.Errorf("one route keeps %d bytes", after-before)
	}
	runtime.KeepAlive(kept)
}
