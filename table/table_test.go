package table_test

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/routesrv/routesrv/eskip"
	"github.com/routesrv/routesrv/table"
)

var at = time.Date(2026, 11, 21, 4, 15, 45, 0, time.UTC)

func parse(t testing.TB, text string) *table.Table {
	t.Helper()
	routes, err := table.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	tab, err := table.New(routes, 7, at)
	if err != nil {
		t.Fatal(err)
	}
	return tab
}

const document = `b: Path("/b") && Host(/^(b[.]org|c[.]org)$/) -> status(204) -> <shunt>;
a: Host("^(a[.]org)$") -> <roundRobin, "http://10.0.0.1:80?zone=z", "http://10.0.0.2:80">;
B: * -> "http://x.example.org";`

func TestCanonicalTextIsSortedByID(t *testing.T) {
	tab := parse(t, document)
	want := `B: * -> "http://x.example.org";
a: Host("^(a[.]org)$") -> <roundRobin, "http://10.0.0.1:80?zone=z", "http://10.0.0.2:80">;
b: Path("/b") && Host(/^(b[.]org|c[.]org)$/) -> status(204) -> <shunt>;`
	if got := string(tab.Text()); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if got, want := tab.Digest(), table.Digest(sha256.Sum256(tab.Text())); got != want {
		t.Errorf("digest %s, want %s", got, want)
	}
	if tab.Len() != 3 || tab.Bytes() != len(tab.Text()) || tab.Revision() != 7 || !tab.Time().Equal(at) {
		t.Errorf("got %d routes, %d bytes, revision %d, time %v", tab.Len(), tab.Bytes(), tab.Revision(), tab.Time())
	}
	var b bytes.Buffer
	if n, err := tab.WriteTo(&b); err != nil || int(n) != b.Len() || !bytes.Equal(b.Bytes(), tab.Text()) {
		t.Errorf("WriteTo wrote %d bytes, %v: %q", n, err, b.Bytes())
	}
}

func TestOrderOfInputDoesNotMatter(t *testing.T) {
	var routes []table.Route
	for _, id := range strings.Split("a b c d e f g h i j A B C _ __ a1 a_1 a10", " ") {
		routes = append(routes, table.Route{ID: id, Text: id + ": * -> <shunt>;"})
	}
	first, err := table.New(routes, 1, at)
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for range 20 {
		rng.Shuffle(len(routes), func(i, j int) { routes[i], routes[j] = routes[j], routes[i] })
		before := slices.Clone(routes)
		tab, err := table.New(routes, 1, at)
		if err != nil {
			t.Fatal(err)
		}
		if tab.Digest() != first.Digest() {
			t.Fatalf("another digest for the order %v", routes)
		}
		if !slices.Equal(before, routes) {
			t.Fatal("New changed its argument")
		}
	}
}

func TestNewRefusesWhatCouldNotBeParsed(t *testing.T) {
	route := func(id string) table.Route { return table.Route{ID: id, Text: id + ": * -> <shunt>;"} }
	for _, test := range []struct {
		name   string
		routes []table.Route
		want   string
		names  string
	}{
		{"duplicate id", []table.Route{route("a"), route("b"), route("a")}, "duplicate route id", `"a"`},
		{"no id", []table.Route{route("")}, "invalid route id", `""`},
		{"digit first", []table.Route{route("1a")}, "invalid route id", `"1a"`},
		{"dash", []table.Route{route("a-b")}, "invalid route id", `"a-b"`},
		{"other id in the text", []table.Route{{ID: "a", Text: "b: * -> <shunt>;"}}, "route text is not", `"a"`},
		{"no semicolon", []table.Route{{ID: "a", Text: "a: * -> <shunt>"}}, "route text is not", `"a"`},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := table.New(test.routes, 1, at)
			if err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), test.names) {
				t.Errorf("got %v, want %q naming %s", err, test.want, test.names)
			}
		})
	}
}

func TestEmptyTable(t *testing.T) {
	tab, err := table.New(nil, 0, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	if tab.Len() != 0 || tab.Bytes() != 0 || len(tab.Text()) != 0 || tab.Digest() != sha256.Sum256(nil) || tab.Zone("a") != tab {
		t.Errorf("got %d routes, text %q, digest %s", tab.Len(), tab.Text(), tab.Digest())
	}
}

func TestADigestIsTakenOnceForAll(t *testing.T) {
	tab := parse(t, document)
	next := tab.WithRevision(8)
	want := table.Digest(sha256.Sum256(tab.Text()))
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			if got := next.Digest(); got != want {
				t.Errorf("digest %s, want %s", got, want)
			}
		})
		group.Go(func() { // while another goroutine continues from it
			if got := tab.Next(tab.Routes(), 9, at).Digest(); got != want {
				t.Errorf("digest %s of the next table, want %s", got, want)
			}
		})
	}
	group.Wait()
	if none := (*table.Table)(nil); none.Equal(tab) || tab.Equal(none) || !none.Equal(nil) {
		t.Error("no table is equal to none only")
	}
}

func TestWithRevisionSharesTheContent(t *testing.T) {
	tab := parse(t, document)
	other := tab.WithRevision(9)
	if other.Revision() != 9 || tab.Revision() != 7 || other.Digest() != tab.Digest() || !other.Time().Equal(at) {
		t.Errorf("got revision %d and %d", other.Revision(), tab.Revision())
	}
	if &other.Routes().Blocks()[0] != &tab.Routes().Blocks()[0] {
		t.Error("the content was copied")
	}
}

// TestADigestGoesOnFromTheOneBefore: when the digest of the previous table is known, the next table is hashed from the first
// block that differs, wherever that is. The benchmarks show what this saves.
func TestADigestGoesOnFromTheOneBefore(t *testing.T) {
	var routes []table.Route
	padding := strings.Repeat("x", 100)
	for i := range 2000 {
		id := fmt.Sprintf("r%05d", i)
		routes = append(routes, table.Route{ID: id, Text: fmt.Sprintf(`%s: Path("/%s") -> <shunt>;`, id, padding)})
	}
	for _, changed := range []string{"r00000", "r01000", "r01999"} {
		tab, err := table.New(routes, 1, at)
		if err != nil {
			t.Fatal(err)
		}
		tab.Digest()
		list, err := tab.Routes().With([]*table.Route{line(changed, 1)}, nil)
		if err != nil {
			t.Fatal(err)
		}
		next := tab.Next(list, 2, at)
		if digest, want := next.Digest(), table.Digest(sha256.Sum256(next.Text())); digest != want {
			t.Errorf("%s changed: digest %s, want %s", changed, digest, want)
		}
	}
}

func TestHostsAreAlternatives(t *testing.T) {
	tab := parse(t, `a: Host(/^(a[.]org[.]?(:[0-9]+)?|b[.]org[.]?(:[0-9]+)?)$/) -> <shunt>;
b: Host("^(a[.]org[.]?(:[0-9]+)?)$") && Host(/[.](x|y)[.]org$/) -> <shunt>;
c: Host(/^(a)|(b)$/) -> <shunt>;
d: Host(/plain|[|]|\|/) -> <shunt>;
e: * -> <shunt>;`)
	want := []string{`(b`, `[.](x|y)[.]org$`, `a)`, `a[.]org[.]?(:[0-9]+)?`, `b[.]org[.]?(:[0-9]+)?`, `plain|[|]|\|`}
	var got []string
	for r := range tab.Routes().All() {
		got = slices.AppendSeq(got, r.HostsOf())
	}
	slices.Sort(got)
	if diff := cmp.Diff(want, slices.Compact(got)); diff != "" {
		t.Error(diff)
	}
}

func TestZonesOfARoute(t *testing.T) {
	for _, test := range []struct{ text, zones string }{
		{`r: * -> <"http://a?zone=z">;`, "z"},
		{`r: * -> <"http://a?zone=%7A">;`, "z"},
		{`r: Path("<") -> f("-> <", /"</) -> <random, "http://a", "http://b?zone=z", "http://c?zone=y">;`, "y z"},
		{`r: * -> <roundRobin, "http://a", "http://b">;`, ""},
		{`r: * -> "http://a?zone=z";`, ""},
		{`r: * -> <shunt>;`, ""},
		{`r: * -> annotate("zalando.org/traffic-zone-aware", "false") -> <"http://a?zone=z">;`, ""},
		{`r: * -> f() -> annotate("zalando.org/traffic-zone-aware", "true") -> <"http://a?zone=z">;`, "z"},
		{`r: * -> annotate("zalando.org/traffic-zone-aware", "false", "x") -> <"http://a?zone=z">;`, "z"},
		{`r: * -> < "http://a?zone=z">;`, "z"},
		{`r: * -> <"http://a?zone=z" >;`, ""},
	} {
		if got := strings.Join(parse(t, test.text).Zones(), " "); got != test.zones {
			t.Errorf("%s: zones %q, want %q", test.text, got, test.zones)
		}
	}
}

func TestParseReportsTheParser(t *testing.T) {
	if _, err := table.Parse("a: * -> "); err == nil || !strings.Contains(err.Error(), "last route id: a") {
		t.Errorf("got %v, want the error of the parser", err)
	}
}

func TestDigestText(t *testing.T) {
	d := parse(t, document).Digest()
	got, err := table.ParseDigest(d.String())
	if err != nil || got != d {
		t.Errorf("got %v, %v; want %v", got, err, d)
	}
	for _, s := range []string{"", "00", strings.ToUpper(d.String()) + "", d.String()[1:], d.String() + "0", strings.Repeat("g", 64), strings.Repeat("A", 64)} {
		if s == d.String() {
			continue
		}
		if _, err := table.ParseDigest(s); err == nil {
			t.Errorf("ParseDigest(%q) gave no error", s)
		}
	}
	if _, err := table.ParseDigest("00"); err == nil || !strings.Contains(err.Error(), "2 characters, must have 64") {
		t.Errorf("error %v, want one that says what a digest is like", err)
	}
	if (table.Digest{}).IsZero() != true || d.IsZero() {
		t.Error("IsZero is wrong")
	}
	text, err := d.MarshalText()
	var back table.Digest
	if err != nil || back.UnmarshalText(text) != nil || back != d {
		t.Errorf("text form %q does not come back", text)
	}
}

// zoneByDefinition implements section 4 of the specification with parsed routes.
func zoneByDefinition(t testing.TB, text, zone string) string {
	t.Helper()
	routes, err := eskip.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range routes {
		if r.BackendType != eskip.LBBackend {
			continue
		}
		var in []*eskip.LBEndpoint
		for _, ep := range r.LBEndpoints {
			if ep.Zone == zone {
				in = append(in, ep)
			}
		}
		if len(in) >= 3 {
			r.LBEndpoints = in
		}
	}
	slices.SortFunc(routes, func(a, b *eskip.Route) int { return strings.Compare(a.Id, b.Id) })
	return eskip.String(routes...)
}

func TestZoneTable(t *testing.T) {
	eps := func(eps ...string) string { return `"` + strings.Join(eps, `", "`) + `"` }
	three := eps("http://10.0.0.1:80?zone=z", "http://10.0.0.2:80?zone=y", "http://10.0.0.3:80?zone=z", "http://10.0.0.4:80", "http://10.0.0.5:80?zone=z")
	two := eps("http://10.0.0.1:80?zone=z", "http://10.0.0.2:80?zone=y", "http://10.0.0.3:80?zone=z")
	odd := eps("http://a/p?b=1&zone=z+1", "http://[fd00::1]:80?zone=z+1", "http://c?zone=%7A%2B1", "http://d?zone=z%201", "http://e", `http://f?x=\"`, `http://g?x=\\&y=1`)
	routes, err := eskip.Parse(`three: * -> <roundRobin, ` + three + `>;
bare: * -> <` + three + `>;
two: * -> <roundRobin, ` + two + `>;
odd: * -> <` + odd + `>;
plain: * -> "http://10.0.0.1?zone=only-here";`)
	if err != nil {
		t.Fatal(err)
	}
	tab := parse(t, eskip.String(routes...))
	if diff := cmp.Diff([]string{"y", "z", "z 1", "z+1"}, tab.Zones()); diff != "" {
		t.Error(diff)
	}
	for _, zone := range tab.Zones() {
		got := tab.Zone(zone)
		if want := zoneByDefinition(t, string(tab.Text()), zone); string(got.Text()) != want {
			t.Errorf("zone %q: got\n%s\nwant\n%s", zone, got.Text(), want)
		}
		if got.Len() != tab.Len() || got.Revision() != 7 || !got.Time().Equal(at) {
			t.Errorf("zone %q: %d routes, revision %d, time %v", zone, got.Len(), got.Revision(), got.Time())
		}
	}
	if tab.Zone("y") != tab || tab.Zone("") != tab || tab.Zone("only-here") != tab || tab.Zone("nowhere") != tab {
		t.Error("a zone in which nothing differs is not the table itself")
	}
}

func TestZoneRuleIsOnlyForRoutesThatWantIt(t *testing.T) {
	eps := `<"http://a?zone=z", "http://b?zone=z", "http://c?zone=z", "http://d?zone=y">`
	tab := parse(t, `out: * -> annotate("zalando.org/traffic-zone-aware", "false") -> `+eps+`;`)
	if len(tab.Zones()) != 0 || tab.Zone("z") != tab {
		t.Errorf("zones %q of a route that opts out", tab.Zones())
	}
}

// FuzzZone compares the scan of printed text with the definition.
func FuzzZone(f *testing.F) {
	f.Add(`r: * -> <"http://a?zone=z", "http://b?zone=z", "http://c?zone=z", "http://d?zone=y">;`, "z")
	f.Add(`r: Path("\"<") -> <random, "http://a?x=1&zone=z", "http://b?zone=%7A", "http://c\"?zone=z", "http://d\\?zone=z">`, "z")
	f.Add(`a: * -> <"http://a#?zone=z", "http://b?zone=z#x", "http://c?zone=", "http://d??zone=z", "http://e?ZONE=z">`, "z")
	f.Fuzz(func(t *testing.T, text, zone string) {
		routes, err := table.Parse(text)
		if err != nil {
			return
		}
		tab, err := table.New(routes, 1, at)
		if err != nil {
			return
		}
		canonical := string(tab.Text())
		if reread, err := eskip.Parse(canonical); err != nil || eskip.String(reread...) != canonical {
			return // a route that does not survive printing, which compile omits
		}
		want := zoneByDefinition(t, canonical, zone)
		if strings.Contains(text, "traffic-zone-aware") || zone == "" {
			want = canonical
		}
		if got := string(tab.Zone(zone).Text()); got != want && !strings.Contains(text, "traffic-zone-aware") {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
	})
}
