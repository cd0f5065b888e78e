package eskip_test

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/routesrv/routesrv/eskip"
)

func TestParsedRoutesPrintAs(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{`r: * -> <shunt>`, `r: * -> <shunt>;`},
		{`r: Any() && Foo() -> <shunt>`, `r: Foo() -> <shunt>;`},
		{`r: Weight(1) && Method("a") && Path("b") -> <shunt>`, `r: Path("b") && Method("a") && Weight(1) -> <shunt>;`},
		{`r: Header("a","b") && Header("A","b") -> <shunt>`, `r: Header("A", "b") && Header("a", "b") -> <shunt>;`},
		{`r: Host("a.*") && Host(/b/) -> <shunt>`, `r: Host(/a.*/) && Host(/b/) -> <shunt>;`},
		{`r: * -> f(/a b\/c[/]d/) -> <shunt>`, `r: * -> f("a b/c[/]d") -> <shunt>;`},
		{`r: * -> f(00012, 1.50, .5, -0, 1.0) -> <shunt>`, `r: * -> f(12, 1.5, 0.5, -0, 1) -> <shunt>;`},
		{`r: * -> f(123456789012345678901234567890) -> <shunt>`, `r: * -> f(123456789012345677877719597056) -> <shunt>;`},
		{`r: * -> <"http://x","http://y?zone=z%20q">`, `r: * -> <"http://x", "http://y?zone=z+q">;`},

		// legacy predicates have a fixed order, others keep theirs
		{`r: B() && HeaderRegexp("k", /v/) && Header("k", "v") && Method("M") && PathRegexp(/y/) && PathRegexp(/x/) && Host(/h/) && Path("/p") && A() -> <shunt>`,
			`r: Path("/p") && Host(/h/) && PathRegexp(/y/) && PathRegexp(/x/) && Method("M") && Header("k", "v") && HeaderRegexp("k", /v/) && B() && A() -> <shunt>;`},
		{`r: HeaderRegexp("b", /1/) && HeaderRegexp("a", /2/) && HeaderRegexp("a", /1/) -> <shunt>`,
			`r: HeaderRegexp("a", /1/) && HeaderRegexp("a", /2/) && HeaderRegexp("b", /1/) -> <shunt>;`},
		{`r: HeaderRegexp("c", /d/) && Header("b", "1") && Header("a", "1") -> <shunt>`,
			`r: Header("a", "1") && Header("b", "1") && HeaderRegexp("c", /d/) -> <shunt>;`},
		// sorted as text: a quote comes after an exclamation mark
		{`r: Header("a", "1") && Header("a!", "2") -> <shunt>`, `r: Header("a!", "2") && Header("a", "1") -> <shunt>;`},

		// regular expressions
		{`r: Host(/^a\/b[/]c\.d$/) -> <shunt>`, `r: Host(/^a\/b[\/]c\\.d$/) -> <shunt>;`},
		{`r: Host(/\[a\]/) -> <shunt>`, `r: Host(/\\[a\\]/) -> <shunt>;`},
		{`r: Host(/\[/) -> <shunt>`, `r: Host("\\[") -> <shunt>;`},
		{`r: PathRegexp(/^\/a\[b/) -> <shunt>`, `r: PathRegexp("^/a\\[b") -> <shunt>;`},
		{`r: Host("") -> <shunt>`, `r: Host("") -> <shunt>;`},
		// control characters as escapes where these mean the same, else as a string
		{`r: Host("a\nb") && PathRegexp("^/\t/[\r\n]") -> <shunt>`, `r: Host(/a\nb/) && PathRegexp(/^\/\t\/[\r\n]/) -> <shunt>;`},
		{`r: HeaderRegexp("k", "a\vb\f\a") -> <shunt>`, `r: HeaderRegexp("k", /a\vb\f\a/) -> <shunt>;`},
		{`r: Host("a\bb") -> <shunt>`, `r: Host("a\bb") -> <shunt>;`},
		{`r: Host("\\Qa\nb") -> <shunt>`, `r: Host("\\Qa\nb") -> <shunt>;`},
		{`r: Host("a\\\nb") -> <shunt>`, `r: Host("a\\\nb") -> <shunt>;`},
		{`r: Host("(\n") -> <shunt>`, `r: Host(/(\n/) -> <shunt>;`},
		{`r: HeaderRegexp("k", "") -> <shunt>`, `r: HeaderRegexp("k", "") -> <shunt>;`},

		// numbers have no exponents
		{`r: * -> f(0.00001, 1234567.5, 0.1, 1000000, -3) -> <shunt>`, `r: * -> f(0.00001, 1234567.5, 0.1, 1000000, -3) -> <shunt>;`},

		// addresses are printed raw where that reads back the same and stays on one line
		{`r: * -> "a\\x\\y"`, `r: * -> "a\x\y";`},
		{"r: * -> \"a\nb\"", `r: * -> "a\nb";`},
		{"r: * -> \"a\r\t\v\a\x00\u2028\"", "r: * -> \"a\\r\\t\\v\\a\x00\u2028\";"},
		{"r: * -> \"a\\\nb\"", `r: * -> "a\\\nb";`},
		{`r: * -> "a\\nb"`, `r: * -> "a\\nb";`},
		{"r: * -> `a\"b`", `r: * -> "a\"b";`},
		{`r: * -> "a\\"`, `r: * -> "a\\";`},
		{"r: * -> <`http://a/\"b`>", `r: * -> <"http://a/\"b">;`},
		{`r: * -> <forward>`, `r: * -> <forward>;`},
		{`r: * -> <"http://x/?zone=a&b=2&a=1">`, `r: * -> <"http://x/?a=1&b=2&zone=a">;`},
	} {
		routes, err := eskip.Parse(c.text)
		if err != nil {
			t.Errorf("%s: %v", c.text, err)
			continue
		}
		got := eskip.String(routes...)
		if got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.text, got, c.want)
		}
		if again, err := eskip.Parse(got); err != nil || !slices.EqualFunc(routes, again, func(a, b *eskip.Route) bool { return eskip.Equivalent(a, b) }) {
			t.Errorf("%s: %s does not read as the same: %v", c.text, got, err)
		}
	}
}

func TestDocumentForms(t *testing.T) {
	a := &eskip.Route{Id: "a", BackendType: eskip.ShuntBackend, Filters: []*eskip.Filter{{Name: "f"}}}
	bare := &eskip.Route{BackendType: eskip.LoopBackend}
	pretty := eskip.PrettyPrintInfo{Pretty: true, IndentStr: "  "}
	for _, c := range []struct {
		info   eskip.PrettyPrintInfo
		routes []*eskip.Route
		want   string
	}{
		{eskip.PrettyPrintInfo{}, nil, ""},
		{pretty, nil, ""},
		{eskip.PrettyPrintInfo{}, []*eskip.Route{{}}, `* -> ""`},
		{eskip.PrettyPrintInfo{}, []*eskip.Route{bare}, "* -> <loopback>"},
		{pretty, []*eskip.Route{bare}, "*\n  -> <loopback>"},
		{eskip.PrettyPrintInfo{}, []*eskip.Route{a}, "a: * -> f() -> <shunt>;"},
		{eskip.PrettyPrintInfo{IndentStr: "  "}, []*eskip.Route{a}, "a: * -> f() -> <shunt>;"},
		{pretty, []*eskip.Route{a}, "a: *\n  -> f()\n  -> <shunt>;"},
		{eskip.PrettyPrintInfo{Pretty: true}, []*eskip.Route{a}, "a: *\n-> f()\n-> <shunt>;"},
		{eskip.PrettyPrintInfo{}, []*eskip.Route{a, a}, "a: * -> f() -> <shunt>;\na: * -> f() -> <shunt>;"},
		{eskip.PrettyPrintInfo{}, []*eskip.Route{a, bare}, "a: * -> f() -> <shunt>;\n: * -> <loopback>;"},
		{pretty, []*eskip.Route{a, a}, "a: *\n  -> f()\n  -> <shunt>;\n\na: *\n  -> f()\n  -> <shunt>;"},
	} {
		if got := eskip.Print(c.info, c.routes...); got != c.want {
			t.Errorf("Print(%+v) is %q, want %q", c.info, got, c.want)
		}
		var b strings.Builder
		eskip.Fprint(&b, c.info, c.routes...)
		if b.String() != c.want {
			t.Errorf("Fprint(%+v) writes %q, want %q", c.info, b.String(), c.want)
		}
	}
	if got, want := a.String(), "* -> f() -> <shunt>"; got != want {
		t.Errorf("a route prints as %q, want its expression %q", got, want)
	}
	if got, want := a.Print(pretty), "*\n  -> f()\n  -> <shunt>"; got != want {
		t.Errorf("a pretty route prints as %q, want its expression %q", got, want)
	}
}

type failingWriter struct{ writes int }

func (w *failingWriter) Write([]byte) (int, error) {
	w.writes++
	return 0, errors.New("full")
}

func TestFprintStopsAtTheFirstError(t *testing.T) {
	var w failingWriter
	eskip.Fprint(&w, eskip.PrettyPrintInfo{}, eskip.MustParse(tableText(1000))...)
	if w.writes != 1 {
		t.Errorf("%d writes, want 1", w.writes)
	}
}

func TestFprintWritesLargeTablesInBlocks(t *testing.T) {
	text := tableText(1000)
	routes := eskip.MustParse(text)
	var b strings.Builder
	eskip.Fprint(&b, eskip.PrettyPrintInfo{}, routes...)
	if b.String() != text || eskip.String(routes...) != text {
		t.Error("a large table does not print as it was read")
	}
}

type textArg struct{ err error }

func (a textArg) MarshalText() ([]byte, error) { return []byte(`<"x">`), a.err }

func TestArgumentsPrintAs(t *testing.T) {
	type named string
	for _, c := range []struct {
		arg  interface{}
		want string
	}{
		{1, `1`}, {-7, `-7`}, {1.0, `1`}, {1.5, `1.5`}, {math.Copysign(0, -1), `-0`}, {1e20, `100000000000000000000`},
		{1e-7, `0.0000001`}, {float64(1 << 53), `9007199254740992`}, {-float64(1<<53) + 1, `-9007199254740991`},
		{math.Inf(1), `1` + strings.Repeat("0", 309)}, {math.Inf(-1), `-1` + strings.Repeat("0", 309)}, {math.NaN(), `"NaN"`},
		{`a"b\c/d`, `"a\"b\\c/d"`}, {"\a\b\f\n\r\t\v\x00\x7f\xff", `"\a\b\f\n\r\t\v` + "\x00\x7f\xff" + `"`},
		{textArg{}, `"<\"x\">"`}, {textArg{errors.New("x")}, `"[error]"`},
		{nil, `"<nil>"`}, {true, `"true"`}, {int64(1), `"1"`}, {float32(1.5), `"1.5"`}, {[]string{"a", "b"}, `"[a b]"`}, {named("a"), `"a"`},
	} {
		f := &eskip.Filter{Name: "f", Args: []interface{}{c.arg}}
		if got, want := f.String(), "f("+c.want+")"; got != want {
			t.Errorf("filter with %T %v prints as %s, want %s", c.arg, c.arg, got, want)
		}
		p := &eskip.Predicate{Name: "P", Args: []interface{}{c.arg, 1}}
		if got, want := p.String(), "P("+c.want+", 1)"; got != want {
			t.Errorf("predicate with %T %v prints as %s, want %s", c.arg, c.arg, got, want)
		}
		if _, err := eskip.ParseFilters(f.String()); err != nil {
			t.Errorf("%s does not parse: %v", f, err)
		}
	}
}

func TestBackendsOfProgramsPrintAs(t *testing.T) {
	eps := []*eskip.LBEndpoint{{Address: "http://b", Zone: "z"}, {Address: "http://a"}}
	for _, c := range []struct {
		route eskip.Route
		want  string
	}{
		{eskip.Route{Backend: "http://x"}, `"http://x"`},
		{eskip.Route{Backend: "http://x", Shunt: true}, `<shunt>`},
		{eskip.Route{BackendType: eskip.LoopBackend, Shunt: true}, `<shunt>`},
		{eskip.Route{BackendType: eskip.ForwardBackend, Shunt: true}, `<shunt>`},
		{eskip.Route{BackendType: eskip.LBBackend, Shunt: true, LBEndpoints: eps}, `<"http://b?zone=z", "http://a">`},
		{eskip.Route{BackendType: eskip.LBBackend, LBAlgorithm: "random", LBEndpoints: eps}, `<random, "http://b?zone=z", "http://a">`},
		{eskip.Route{BackendType: eskip.LBBackend}, `<>`},
		{eskip.Route{BackendType: eskip.ForwardBackend, Backend: "x"}, `<forward>`},
		{eskip.Route{BackendType: 17, Backend: "x y"}, `x y`},
	} {
		if got, want := c.route.String(), "* -> "+c.want; got != want {
			t.Errorf("%+v prints as %s, want %s", c.route, got, want)
		}
	}
}

func TestPredicatesNamedLikeFieldsPrintAsStrings(t *testing.T) {
	r := &eskip.Route{Predicates: []*eskip.Predicate{
		{Name: "Host", Args: []interface{}{"^a[.]b$"}}, {Name: "Any"}, {Name: "*"}, {Name: "any"}, {Name: "Path", Args: []interface{}{"/"}},
	}}
	if got, want := r.String(), `Host("^a[.]b$") && any() && Path("/") -> ""`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestAppendExprSaysWhereTheBackendBegins(t *testing.T) {
	for _, text := range []string{
		`* -> <shunt>`, `Path("/ -> ") -> f(" -> ") -> "http://x -> "`, `Foo() -> f() -> <random, "http://a?zone=z", "http://b">`, `* -> ""`,
	} {
		r := eskip.MustParse(text)[0]
		out, backend := eskip.AppendExpr([]byte("prefix "), r)
		if got := string(out); got != "prefix "+text {
			t.Errorf("%s: AppendExpr gives %s", text, got)
		}
		head, tail := string(out[len("prefix "):backend]), string(out[backend:])
		if !strings.HasSuffix(head, " -> ") || head+tail != text || (&eskip.Route{
			Shunt: r.Shunt, BackendType: r.BackendType, Backend: r.Backend, LBAlgorithm: r.LBAlgorithm, LBEndpoints: r.LBEndpoints,
		}).String() != "* -> "+tail {
			t.Errorf("%s: the backend is said to be %s", text, tail)
		}
		if got := string(eskip.AppendRoute([]byte("x"), r)); got != "x"+r.String() {
			t.Errorf("%s: AppendRoute gives %s", text, got)
		}
	}
}

func TestPrintingIsDeterministic(t *testing.T) {
	r := &eskip.Route{Headers: map[string]string{}, HeaderRegexps: map[string][]string{}}
	for i := range 20 {
		k := fmt.Sprintf("k%d", i)
		r.Headers[k] = "v"
		r.HeaderRegexps[k] = []string{"b", "a"}
	}
	want := r.String()
	for range 50 {
		if got := r.String(); got != want {
			t.Fatalf("got %s, then %s", want, got)
		}
	}
}

func TestParsedTextIsAFixedPointOfPrinting(t *testing.T) {
	text := tableText(600)
	routes := eskip.MustParse(text)
	for _, info := range []eskip.PrettyPrintInfo{{}, {Pretty: true}, {Pretty: true, IndentStr: "    "}} {
		again, err := eskip.Parse(eskip.Print(info, routes...))
		if err != nil || !reflect.DeepEqual(routes, again) {
			t.Errorf("%+v: the table changed, error %v", info, err)
		}
	}
}
