package table_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/routesrv/routesrv/eskip"
	"github.com/routesrv/routesrv/table"
)

// generic is what the compiler makes of a RouteGroup: predicates that have a separate field in a parsed route are in the list of
// the others, so printing a parsed route gives another text.
func generic(id string) *eskip.Route {
	return &eskip.Route{
		Id: id,
		Predicates: []*eskip.Predicate{
			{Name: "Weight", Args: []any{2}},
			{Name: "PathSubtree", Args: []any{"/x"}},
			{Name: "Host", Args: []any{`^(a[.]org|b[.]org)$`}},
			{Name: "Header", Args: []any{"X", "1"}},
		},
		BackendType: eskip.LBBackend, LBAlgorithm: "roundRobin",
		LBEndpoints: eskip.NewLBEndpoints([]string{
			"http://10.0.0.1?zone=z", "http://10.0.0.2?zone=y", "http://10.0.0.3?zone=z", "http://10.0.0.4?zone=z",
		}),
	}
}

func newTable(t testing.TB, routes ...*eskip.Route) *table.Table {
	t.Helper()
	var printed []table.Route
	for _, r := range routes {
		printed = append(printed, table.NewRoute(r))
	}
	tab, err := table.New(printed, 7, at)
	if err != nil {
		t.Fatal(err)
	}
	return tab
}

// same fails unless both tables are equal in everything that a table offers.
func same(t *testing.T, got, want *table.Table) {
	t.Helper()
	if diff := cmp.Diff(string(want.Text()), string(got.Text())); diff != "" {
		t.Fatalf("text (-want +got):\n%s", diff)
	}
	if got.Digest() != want.Digest() {
		t.Errorf("digest %s, want %s", got.Digest(), want.Digest())
	}
	for _, part := range [][2]any{{slices.Collect(want.Routes().All()), slices.Collect(got.Routes().All())}, {want.Zones(), got.Zones()}} {
		if diff := cmp.Diff(part[0], part[1]); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
	}
	for _, zone := range want.Zones() {
		if got, want := got.Zone(zone).Text(), want.Zone(zone).Text(); !bytes.Equal(got, want) {
			t.Errorf("zone %q is\n%s\nwant\n%s", zone, got, want)
		}
	}
}

func TestParseKeepsTheSpellingOfACanonicalDocument(t *testing.T) {
	want := newTable(t, generic("a"), generic("b"))
	if text := string(want.Text()); !strings.Contains(text, `Weight(2) && PathSubtree("/x") && Host("^(a[.]org|b[.]org)$")`) {
		t.Fatalf("the test tests nothing:\n%s", text)
	}
	same(t, parse(t, string(want.Text())), want)
}

func TestRestoredFileIsTheTable(t *testing.T) {
	want := newTable(t, generic("a"), generic("b"))
	got, _, err := unmarshal(marshal(t, want, table.FileMeta{Saved: saved}))
	if err != nil {
		t.Fatal(err)
	}
	same(t, got, want)
}

// Another printer may use other spellings within a definition. Verifying the digest of a received table needs the bytes that were
// received.
func TestParseKeepsWhatAnotherServerPrints(t *testing.T) {
	for _, text := range []string{
		"a: Path( `/x` )->setPath(\"\\/x;\")->  <shunt> ;\nb: * -> \"http://b\";",
		`a: Host(/[/;"]\/;/) && Path("\";") -> <loopback>;`,
		`a: Host(/^[/]$/) -> f("<") -> <random, "http://a?zone=z", "http://b?zone=z", "http://c?zone=z", "http://d">;`,
		`a: f("//") -> <dynamic>;`,
	} {
		if got := string(parse(t, text).Text()); got != text {
			t.Errorf("got  %s\nwant %s", got, text)
		}
	}
}

// A definition keeps its text if that is a line of a canonical text; every other one is printed.
func TestParsePrintsWhatIsNoLine(t *testing.T) {
	const (
		keptA, printedA = `a: Host("x") -> <shunt>;`, `a: Host(/x/) -> <shunt>;`
		b               = `b: * -> f("\n") -> <"http://b?zone=z">;`
	)
	for name, test := range map[string]struct{ text, a string }{
		"several in a line":        {`a: Host("x") -> <shunt>; b: * -> f("\n") -> <"http://b?zone=z">;`, printedA},
		"in another order":         {"b: * -> f(\"\\n\") -> <\"http://b?zone=z\">;\na: Host(\"x\") -> <shunt>;", keptA},
		"newline in a string":      {"a: Host(\"x\") -> <shunt>;\nb: * -> f(\"\n\") -> <\"http://b?zone=z\">;", keptA},
		"pretty":                   {"a: Host(\"x\")\n  -> <shunt>;\n\nb: *\n  -> f(\"\\n\")\n  -> <\"http://b?zone=z\">;", printedA},
		"comment":                  {"// a;\na: Host(\"x\") -> <shunt>;\nb: * -> f(\"\\n\") -> <\"http://b?zone=z\">;", keptA},
		"comment in a line":        {"a: Host(\"x\") -> <shunt>; //;\nb: * -> f(\"\\n\") -> <\"http://b?zone=z\">;", printedA},
		"comment within":           {"a: Host(\"x\") -> <shunt> //;\n;\nb: * -> f(\"\\n\") -> <\"http://b?zone=z\">;", printedA},
		"newline at the end":       {"a: Host(\"x\") -> <shunt>;\nb: * -> f(\"\\n\") -> <\"http://b?zone=z\">;\n", keptA},
		"no semicolon":             {"a: Host(\"x\") -> <shunt>;\nb: * -> f(\"\\n\") -> <\"http://b?zone=z\">", keptA},
		"no semicolon, other text": {b + "\na: Host(\"x\") -> <shunt>", printedA},
		"empty definition":         {"a: Host(\"x\") -> <shunt>;\n;\nb: * -> f(\"\\n\") -> <\"http://b?zone=z\">;", printedA},
		"no space":                 {"a:Host(\"x\") -> <shunt>;\nb:* -> f(\"\\n\") -> <\"http://b?zone=z\">;", printedA},
	} {
		t.Run(name, func(t *testing.T) {
			if got, want := string(parse(t, test.text).Text()), test.a+"\n"+b; got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
}

// TestALineThatBeginsWithAnIDBeginsARoute: also in a literal, which then has no end.
func TestALineThatBeginsWithAnIDBeginsARoute(t *testing.T) {
	if routes, err := table.Parse("a: Path(\"x;\nb: \") -> <shunt>; b: * -> <shunt>;"); err == nil {
		t.Errorf("got %v", routes)
	}
}

// FuzzParse checks, for any document, that each route's text is a definition that says what the document said, and that reading
// the canonical text changes nothing.
func FuzzParse(f *testing.F) {
	f.Add(document)
	f.Add("a: Host(/[/;\"]\\/;/) && Path(`\\`;`) -> <loopback>;\nb: f(\"<\") -> <random, \"http://a?zone=z\">;")
	f.Add("a: * -> <\"http://a?zone=z\"> //;\n;\nb: * -> <shunt>;")
	f.Fuzz(func(t *testing.T, text string) {
		routes, err := table.Parse(text)
		if err != nil {
			return
		}
		tab, err := table.New(routes, 7, at)
		if err != nil {
			return
		}
		var parsed []*eskip.Route
		for _, part := range parts(text) {
			one, err := eskip.Parse(part)
			if err != nil {
				t.Fatal(err)
			}
			parsed = append(parsed, one...)
		}
		if printed, err := eskip.Parse(eskip.String(parsed...)); err != nil || !eskip.EqLists(printed, parsed) {
			return // a route that does not survive printing, which compile omits
		}
		for i, r := range routes {
			alone, err := eskip.Parse(r.Text)
			if err != nil || len(alone) != 1 || !eskip.Eq(alone[0], parsed[i]) {
				t.Fatalf("%q: route %q reads as %v, %v", text, r.Text, alone, err)
			}
		}
		again, err := table.Parse(string(tab.Text()))
		if err != nil {
			t.Fatal(err)
		}
		reread, err := table.New(again, 7, at)
		if err != nil {
			t.Fatal(err)
		}
		same(t, reread, tab)
	})
}

// FuzzCompiledTableComesBack makes tables as the compiler does, of routes that are built and not parsed.
func FuzzCompiledTableComesBack(f *testing.F) {
	for seed := range uint64(20) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		rng := rand.New(rand.NewPCG(seed, 0))
		routes := []*eskip.Route{generic("r")}
		for i := range 1 + rng.IntN(8) {
			r := randomRoute(rng, fmt.Sprintf("r%d", i))
			if back, err := eskip.Parse(string(newTable(t, r).Text())); err == nil && len(back) == 1 && eskip.Eq(back[0], r) {
				routes = append(routes, r) // compile omits the others
			}
		}
		want := newTable(t, routes...)
		got, _, err := unmarshal(marshal(t, want, table.FileMeta{}))
		if err != nil {
			t.Fatal(err)
		}
		same(t, got, want)
	})
}

// randomRoute makes a route with predicates in the list that a parser puts elsewhere, and with texts full of characters with a
// meaning in the language.
func randomRoute(rng *rand.Rand, id string) *eskip.Route {
	pick := func(of ...string) string { return of[rng.IntN(len(of))] }
	text := func() string {
		var b strings.Builder
		for range rng.IntN(8) {
			b.WriteString(pick("a", "/", `\`, `"`, "`", ";", "\n", "<", "[", "]", "//", "é", " -> ", "r0: "))
		}
		return b.String()
	}
	r := &eskip.Route{Id: id}
	for range rng.IntN(5) {
		p := &eskip.Predicate{Name: pick("Host", "Path", "PathRegexp", "Method", "Weight", "HostAny"), Args: []any{text()}}
		if rng.IntN(4) == 0 {
			p = &eskip.Predicate{Name: pick("Header", "HeaderRegexp"), Args: []any{text(), text()}}
		}
		r.Predicates = append(r.Predicates, p)
	}
	if rng.IntN(3) == 0 {
		r.HostRegexps = []string{text()}
	}
	if rng.IntN(3) == 0 {
		r.Filters = append(r.Filters, &eskip.Filter{Name: "f", Args: []any{text(), float64(rng.IntN(9)) / 2}})
	}
	switch rng.IntN(4) {
	case 0:
		r.BackendType = eskip.ShuntBackend
	case 1:
		r.Backend = "http://" + pick("a", "b?zone=z", `c/"`, `c/\`, "c/;<")
	default:
		r.BackendType, r.LBAlgorithm = eskip.LBBackend, pick("", "roundRobin", "random")
		for range 1 + rng.IntN(6) {
			r.LBEndpoints = append(r.LBEndpoints, &eskip.LBEndpoint{Address: "http://" + pick("a", "b:80", "c/x;y", "[fd00::1]"), Zone: pick("", "z", "y", "z", "z 1", `"`)})
		}
	}
	return r
}
