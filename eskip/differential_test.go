package eskip

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// pieces are the parts of random documents. Most are tokens, some are nearly tokens.
var pieces = []string{
	"r", "r1", "_x", "Path", "Host", "PathRegexp", "Method", "Header", "HeaderRegexp", "Any", "Foo", "PathSubtree",
	"(", "(", "(", ")", ")", ")", ":", ":", ",", ",", ";", ";", "->", "->", "->", "&&", "&&", "*", "*", "<", ">",
	"<shunt>", "<shunt>", "<loopback>", "<dynamic>", "<forward>", "< shunt >", "<shunt", "roundRobin",
	`"/a"`, `"http://x"`, `"http://y?zone=z"`, `"https://z"`, "`b\\`c`", `"\n\x\"\\"`, `""`, `"é`, `"`, "`",
	"/a/", `/a\/b/`, `/[/]/`, `/\[/`, `/[\]]/`, "//c\n", "//", "/", "/x", "/* c */",
	"1", "-1", "0.5", ".5", "007", "1.2.3", "1e3", "1.", "-", "-.", ".", "+", "1234567890123456789012",
	" ", " ", "\n", "\t", "\v", "\f", "\r", "\x85", "\xa0", "\u00a0", "é", "@", "#", "&", "|", "\x00", "\\",
}

// sentences are pieces with which random documents get further.
var sentences = []string{
	"r: ", "* -> ", "Foo(1) ", `Host(/x/) && `, `Path("/p")`, `Header("k", "v") && `, `HeaderRegexp("k", /v/)`,
	"r: * -> <shunt>;", `s: Path("/x") -> f(1, "a", /b/) -> "http://a";`, `<"http://a", "http://b">`,
	`<random, "http://a?zone=z">`, " -> f() -> ", ` -> <shunt>`, `Method("GET")`, `f("a")`,
}

func randomText(rnd *rand.Rand) string {
	var b strings.Builder
	for range 1 + rnd.IntN(14) {
		if rnd.IntN(3) == 0 {
			b.WriteString(sentences[rnd.IntN(len(sentences))])
		} else {
			b.WriteString(pieces[rnd.IntN(len(pieces))])
		}
		if rnd.IntN(3) == 0 {
			b.WriteByte(' ')
		}
	}
	return b.String()
}

// checkAgainstOracle compares all entry points with the oracle: results, error texts and positions.
func checkAgainstOracle(t *testing.T, text string) {
	t.Helper()
	routes, err := Parse(text)
	wantRoutes, wantErr := oracleParse(text)
	compareResults(t, "Parse", text, routes, wantRoutes, err, wantErr)

	predicates, err := ParsePredicates(text)
	wantPredicates, wantErr := oraclePredicates(text)
	compareResults(t, "ParsePredicates", text, predicates, wantPredicates, err, wantErr)

	filters, err := ParseFilters(text)
	wantFilters, wantErr := oracleFilters(text)
	compareResults(t, "ParseFilters", text, filters, wantFilters, err, wantErr)
}

func compareResults(t *testing.T, what, text string, got, want any, gotErr, wantErr error) {
	t.Helper()
	message := func(err error) string {
		if err == nil {
			return ""
		}
		return err.Error()
	}
	if message(gotErr) != message(wantErr) {
		t.Errorf("%s(%q):\n got error %q\nwant error %q", what, text, message(gotErr), message(wantErr))
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s(%q):\n got %+v\nwant %+v", what, text, got, want)
	}
}

// Inputs of some kilobytes use blocks and the table of repeated texts.
func TestAgreesWithOracleOnLargeText(t *testing.T) {
	rnd := rand.New(rand.NewPCG(5, 6))
	for range 20 {
		var b strings.Builder
		for b.Len() < 3*largeInput {
			if text := randomText(rnd); len(text) > 0 {
				if _, err := Parse(text + ";"); err == nil {
					b.WriteString(text + ";\n")
				}
			}
			b.WriteString("x: Path(`" + strings.Repeat("a", rnd.IntN(1000)) + "`) -> f(0, 511, 512, 0.5) -> \"\";")
		}
		checkAgainstOracle(t, b.String())
	}
}

// Truncating a document anywhere must give the same error as the oracle, at every byte.
func TestAgreesWithOracleOnEveryPrefix(t *testing.T) {
	text := "a: Path(\"/x\\\"\") && Host(/^a[/]\\/$/) // c\n && Header(`k`, `v`) -> f(1, -.5, 10.25) ->" +
		" <random, \"http://a?zone=z\", \"http://b\">;\nb: * -> <shunt>"
	for i := range len(text) {
		checkAgainstOracle(t, text[:i])
		checkAgainstOracle(t, text[:i]+"@"+text[i:])
	}
}

func FuzzParse(f *testing.F) {
	addDocuments(f)
	f.Fuzz(func(t *testing.T, text string) {
		routes, err := Parse(text)
		want, wantErr := oracleParse(text)
		compareResults(t, "Parse", text, routes, want, err, wantErr)
		var reader Reader
		for _, before := range []string{"", text, `a: Path("/b") && Header("c", "d") -> e("f") -> <roundRobin, "http://a", "http://b">; c: *`} {
			_, _ = reader.Parse(before) // earlier documents must not affect later ones
			routes, err = reader.Parse(text)
			compareResults(t, "Reader.Parse", text, []*Route{}, []*Route{}, err, wantErr)
			if !slices.EqualFunc(routes, want, eq) || String(routes...) != String(want...) {
				t.Errorf("Reader.Parse(%q):\n got %v\nwant %v", text, routes, want)
			}
		}
	})
}

func FuzzParsePredicates(f *testing.F) {
	for _, s := range []string{
		"", " ", "*", "Any()", `Path("/a") && Host(/b/) && *`, "Header#", "not predicates", "Foo() & Bar()", "// c", "Foo(,1)",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := ParsePredicates(text)
		want, wantErr := oraclePredicates(text)
		compareResults(t, "ParsePredicates", text, got, want, err, wantErr)
		for _, p := range got {
			again, err := ParsePredicates(p.String())
			if err != nil || len(again) != 1 || !eqPredicate(again[0], p) {
				t.Errorf("%q does not survive printing: %v %v", p, again, err)
			}
		}
	})
}

func FuzzParseFilters(f *testing.F) {
	for _, s := range []string{
		"", " ", "trallala", "foo-bar", "a();", `setPath("/x") -> status(201)`, "f(/a b\\/c[/]d/)", "f(00012, 1.50, .5, -0, 1.0)",
		"f(123456789012345678901234567890, 0.00001, 1234567.5)", "// c", "f(,1)", "f(3.)",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := ParseFilters(text)
		want, wantErr := oracleFilters(text)
		compareResults(t, "ParseFilters", text, got, want, err, wantErr)
		for _, g := range got {
			again, err := ParseFilters(g.String())
			if err != nil || len(again) != 1 || !eqCall(again[0].Name, again[0].Args, g.Name, g.Args) {
				t.Errorf("%q does not survive printing: %v %v", g, again, err)
			}
		}
	})
}

// addDocuments adds documents that show each rule of the language to the seeds of a fuzz target.
func addDocuments(f *testing.F) {
	for _, s := range []string{
		"", ";", ";;", "// comment", "* -> <shunt>", "r: * -> <shunt>", `r: Path("/a") && Method("GET") -> f(1, "a", /b/) -> "http://x";`,
		"* -> #", `r1: Path("/foo") -> <shunt>; r2: Path("/bar") -> #`, "* -> <shunt>;", "r: * -> <shunt> s: * -> <shunt>",
		"r: * -> <shunt>; @", `r: * -> <shunt>; "abc`, "r: * -> <shunt>; 3.", "r: * -> <shunt>/", "@", `"`, "1r: * -> <shunt>",
		"r-1: * -> <shunt>", "r: * -> f(1.2.3) -> <shunt>", "r: * /* c */ -> <shunt>", `r: * -> <roundRobin "http://x">`,
		`r: Header("a","b") && Header("A","b") && HeaderRegexp("a", /2/) && HeaderRegexp("a", /1/) -> <forward>`,
		`r: Host(/\[/) && Host("\n") && Host("") && PathRegexp(/^\/a[/]b/) -> <loopback>`, "r: * -> f(-0, 1e3) -> <dynamic>",
		`r: * -> <shunt, "http://x", "http://y?zone=z%20q">`, `r: * -> <"http://y/p?b=1&zone=z#f", "http://10.0.0.1:80?zone=a">`,
		"r: * -> `a\"b\\x\\c`", `r: * -> <"/a?zone=b", "//c?zone=d">`, "r: Any(1) && Foo(,1) -> \"\"",
	} {
		f.Add(s)
	}
}

func FuzzRoundTrip(f *testing.F) {
	addDocuments(f)
	f.Fuzz(func(t *testing.T, text string) {
		routes, err := Parse(text)
		if err != nil {
			return
		}
		checkRoundTrip(t, routes)
	})
}

// checkRoundTrip checks that parsed routes survive printing in any layout, alone and together.
func checkRoundTrip(t *testing.T, routes []*Route) {
	t.Helper()
	printed := String(routes...)
	for _, layout := range []string{printed, Print(PrettyPrintInfo{Pretty: true, IndentStr: "\t"}, routes...)} {
		again, err := Parse(layout)
		if err != nil {
			t.Fatalf("%q does not parse: %v", layout, err)
		}
		if len(again) != len(routes) {
			t.Fatalf("%q gives %d routes, want %d", layout, len(again), len(routes))
		}
		for i := range again {
			if !Equivalent(again[i], routes[i]) {
				t.Errorf("%q is not what it was printed from:\n got %+v\nwant %+v", layout, again[i], routes[i])
			}
		}
		// Control characters in expressions are read as their escapes, so that only what was read is a fixed point.
		second := String(again...)
		if twice := String(MustParse(second)...); twice != second {
			t.Errorf("printing is no fixed point:\nfirst %q\n then %q", second, twice)
		}
		if second != printed && EqLists(routes, again) {
			t.Errorf("equal routes print differently:\nfirst %q\n then %q", printed, second)
		}
	}
	for _, r := range routes {
		if alone, err := Parse(r.String()); err != nil || len(alone) != 1 || !equivalentUnnamed(alone[0], r) {
			t.Errorf("%q does not survive alone: %v", r, err)
		}
		c := Canonical(r)
		if !Eq(r, c) || !Eq(c, r) || !Eq(Canonical(c), c) || !Eq(Copy(r), r) || !Eq(r.Copy(), r) {
			t.Errorf("%q is not equal to its canonical form or copies", r)
		}
	}
}

// equivalentUnnamed is Equivalent for a route that was parsed from an expression, which has no id.
func equivalentUnnamed(a, r *Route) bool {
	c := *r
	c.Id = a.Id
	return Equivalent(a, &c)
}
