package table_test

import (
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/routesrv/routesrv/eskip"
	"github.com/routesrv/routesrv/table"
)

// decode returns what a Decoder makes of a document that arrives in pieces of n bytes.
func decode(base *table.Table, text string, n int, limit int64) (*table.Table, error) {
	return decodeWith(table.NewDecoder(base, limit), text, n)
}

func decodeWith(d *table.Decoder, text string, n int) (*table.Table, error) {
	for rest := text; rest != ""; {
		piece := rest[:min(n, len(rest))]
		rest = rest[len(piece):]
		if _, err := io.WriteString(d, piece); err != nil {
			return nil, err
		}
	}
	return d.Table(7, time.Unix(1, 0))
}

// begins matches the beginning of a route in a document.
var begins = regexp.MustCompile(`(?m)^[A-Za-z_][A-Za-z0-9_]*:`)

// parts splits a document at the lines that begin with an id.
func parts(text string) (all []string) {
	begin := 0
	for _, at := range begins.FindAllStringIndex(text, -1) {
		all, begin = append(all, strings.TrimRight(text[begin:at[0]], "\n")), at[0]
	}
	return append(all, strings.TrimRight(text[begin:], "\n"))
}

// parsed returns the table of a document, whose parts the parser reads alone: lines of canonical text keep their text, all other
// routes are printed.
func parsed(text string) (*table.Table, error) {
	var routes []table.Route
	for _, part := range parts(text) {
		all, err := eskip.Parse(part)
		if err != nil {
			return nil, err
		}
		for _, r := range all {
			route, ok := (&table.Route{Text: part}).Reread(r)
			if !ok {
				route = table.NewRoute(r)
			}
			routes = append(routes, route)
		}
	}
	return table.New(routes, 7, time.Unix(1, 0))
}

func routesOf(t *table.Table) []table.Route {
	var all []table.Route
	for r := range t.Routes().All() {
		all = append(all, *r)
	}
	return all
}

// sameAsParse checks that a Decoder, and Parse, agree with the parser about a document, however it arrives and whatever it has in
// common with the base.
func sameAsParse(t *testing.T, base *table.Table, text string) {
	t.Helper()
	want, wantErr := parsed(text)
	if wantErr == nil {
		routes, err := table.Parse(text)
		slices.SortFunc(routes, func(a, b table.Route) int { return strings.Compare(a.ID, b.ID) })
		if diff := cmp.Diff(routesOf(want), routes, cmpopts.EquateEmpty()); diff != "" || err != nil {
			t.Fatalf("Parse (-parsed +got): %v\n%s", err, diff)
		}
		if whole, err := eskip.Parse(string(want.Text())); err != nil || len(whole) != want.Len() {
			t.Fatalf("a proxy reads %d routes of %q: %v", len(whole), want.Text(), err)
		}
	}
	for _, b := range []*table.Table{nil, base} {
		for _, n := range []int{1, 3, 64, 1 << 20} {
			got, err := decode(b, text, n, math.MaxInt64)
			if (err == nil) != (wantErr == nil) {
				t.Fatalf("pieces of %d: error %v, the parser gives %v, of %q", n, err, wantErr, text)
			}
			if err != nil {
				continue
			}
			if diff := cmp.Diff(routesOf(want), routesOf(got)); diff != "" || got.Digest() != want.Digest() {
				t.Fatalf("pieces of %d (-parsed +decoded):\n%s", n, diff)
			}
		}
	}
}

var documents = []string{
	"", "\n", "// nothing but a comment; with a semicolon", document,
	"a: * -> <shunt>;", "a: * -> <shunt>", "a: * -> <shunt>;\n", "a: * -> <shunt>;\nb: * -> <shunt>;", "b: * -> <shunt>;\na: * -> <shunt>;",
	"a: * -> <shunt>;\na: * -> <shunt>;", "a: * -> <shunt>;\n\nb: * -> <shunt>;", "a: * -> <shunt>; b: * -> <shunt>;", "* -> <shunt>",
	"a: * -> <shunt>;;", ";", "a: * -> <shunt>; // behind; it\nb: * -> <shunt>;", "// before; it\na: * -> <shunt>;",
	`a: Path("/;\";") -> <shunt>;`, "a: Path(`;\"\\`;`) -> <shunt>;", `a: PathRegexp(/[/;"]\/;/) -> <shunt>;`, `a: PathRegexp(//) -> <shunt>;`,
	`a: PathRegexp(/[;]/) -> "http://10.0.0.1:80";`, `a: Path("/`, `a: PathRegexp(/`, "a: * /", "a: * -> <shunt>; /", "a: * -> <shunt>;\x00",
	"a:\n*\n->\n<shunt>;", "a: * -> <roundRobin, \"http://10.0.0.1:80?zone=x\", \"http://10.0.0.2:80?zone=y\">;",
	"a: * -> <roundRobin,\"http://10.0.0.1:80?zone=x\">;", "a: Host(\"^(a)$\") && Host(/b/) -> <shunt>;", "a: * -> <shunt>;\r\nb: * -> <shunt>;",
	"a: PathRegexp(/b\nc/) -> <shunt>;", "a: Path(\"/b\nc\") -> <shunt>;", "a: Path(`/b\nc`) -> <shunt>;",
	"a: PathRegexp(/b\nc/) -> <shunt>;\nd: * -> <shunt>;", "a: Path(\"/b\nc\") -> <shunt>;\nd: * -> <shunt>;",
	"x", "a: * -> <shunt>;\nb: *", "Z: * -> <shunt>;\na: * -> <shunt>;",
}

func TestDecoderAcceptsWhatParseDoes(t *testing.T) {
	base, err := parsed("a: * -> <shunt>;\nb: * -> <loopback>;\nc: * -> <dynamic>;")
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range documents {
		sameAsParse(t, base, text)
	}
}

// TestDecoderKeepsTheSpellingBehindAKnownRoute: what the base has in common with a document must not affect what follows it.
func TestDecoderKeepsTheSpellingBehindAKnownRoute(t *testing.T) {
	long := `a: Path("/a/path/that/is/longer/than/all/that/comes/behind/it") -> status(204) -> <shunt>;`
	base, err := parsed(long + "\nb: * -> <shunt>;")
	if err != nil {
		t.Fatal(err)
	}
	sameAsParse(t, base, long+"\n"+`b: Host("^(b)$") -> <shunt>;`+"\n"+`c: Host("^(c)$") -> <shunt>;`)
}

func FuzzDecoderAcceptsWhatParseDoes(f *testing.F) {
	for i, text := range documents {
		f.Add(text, documents[(i+5)%len(documents)])
	}
	f.Fuzz(func(t *testing.T, text, before string) {
		base, err := parsed(before)
		if err != nil {
			base = nil
		}
		sameAsParse(t, base, text)
	})
}

func manyRoutes(n int, path string) string {
	var b strings.Builder
	for i := range n {
		if i > 0 {
			b.WriteByte('\n')
		}
		fmt.Fprintf(&b, `r%08d: Path("/%s%d") -> setPath("/x") -> "http://10.0.0.1:8080";`, i, path, i)
	}
	return b.String()
}

func TestDecoderIsBounded(t *testing.T) {
	for name, c := range map[string]struct {
		text  string
		limit int64
		ok    bool
	}{
		"at the limit":           {manyRoutes(100, "x"), int64(len(manyRoutes(100, "x"))), true},
		"a byte more":            {manyRoutes(100, "x"), int64(len(manyRoutes(100, "x"))) - 1, false},
		"a literal without end":  {`a: Path("` + strings.Repeat("x", 3<<20), 8 << 20, false},
		"a comment without end":  {"//" + strings.Repeat("x", 3<<20), 8 << 20, false},
		"a line is too long":     {`a: Path("/` + strings.Repeat("x", 1<<20) + `") -> <shunt>;`, 8 << 20, false},
		"a long line":            {`a: Path("/` + strings.Repeat("x", table.MaxRoute-30) + `") -> <shunt>;`, 8 << 20, true},
		"does not parse, and on": {"x;\n" + strings.Repeat("x", 3<<20), 2 << 20, false},
	} {
		if _, err := decode(nil, c.text, 32<<10, c.limit); errors.Is(err, table.ErrTooLarge) == c.ok {
			t.Errorf("%s: error %.200v", name, err)
		}
	}
}

func TestDeltaIsReadWithinALimit(t *testing.T) {
	head := `{"base":"` + strings.Repeat("1", 64) + `","target":"` + strings.Repeat("2", 64) + `","count":1,`
	for name, c := range map[string]struct {
		text  string
		limit int64
		ok    bool
	}{
		"all is well":          {head + `"deletes":["a"],"upserts":["b: * -> <shunt>;"]}`, 1000, true},
		"of just the limit":    {head + `"upserts":["a"]}`, int64(len(head + `"upserts":["a"]}`)), true},
		"a byte more":          {head + `"upserts":["a"]}`, int64(len(head+`"upserts":["a"]}`)) - 1, false},
		"null lists":           {head + `"deletes":null,"upserts":null}`, 1000, true},
		"a long string":        {head + `"upserts":["` + strings.Repeat("x", 3<<20) + `"]}`, 16 << 20, true},
		"a long delta":         {head + `"upserts":["` + strings.Repeat("x", 4<<20) + `"]}`, 16 << 20, false},
		"beyond the limit":     {head + `"upserts":["` + strings.Repeat("x", 1000) + `"]}`, 1000, false},
		"deep":                 {head + `"later":` + strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000) + "}", 1 << 20, false},
		"a later field":        {head + `"later":{"a":[1,{"b":null}]},"upserts":["a"]}`, 1000, true},
		"a list of numbers":    {head + `"upserts":[1]}`, 1000, false},
		"a value behind it":    {head + `"upserts":[]} {}`, 1000, false},
		"space without an end": {head + strings.Repeat(" ", 4<<20) + `"upserts":[]}`, 64 << 20, false},
		"cut":                  {head + `"upserts":["a"`, 1000, false},
	} {
		d, err := table.ReadDelta(strings.NewReader(c.text), c.limit)
		if (err == nil) != c.ok || (d == nil) == c.ok {
			t.Errorf("%s: %v, error %.200v", name, d != nil, err)
		}
	}
}

// brokenOnce fails at one place and could be read on after it.
type brokenOnce struct {
	r    io.Reader
	left int // bytes before it
	done bool
}

var errBroken = errors.New("connection reset")

func (b *brokenOnce) Read(p []byte) (int, error) {
	if b.left == 0 && !b.done {
		b.done = true
		return 0, errBroken
	}
	if !b.done {
		p = p[:min(len(p), b.left)]
	}
	n, err := b.r.Read(p)
	b.left -= n
	return n, err
}

func TestADeltaIsNotReadOnBehindAnError(t *testing.T) {
	text := `{"base":"` + strings.Repeat("1", 64) + `","later":[{}],"target":"` + strings.Repeat("2", 64) + `","count":1,"deletes":["a","b"]}`
	for n := range text {
		if d, err := table.ReadDelta(&brokenOnce{r: strings.NewReader(text), left: n}, 1000); !errors.Is(err, errBroken) || d != nil {
			t.Errorf("an error behind %d bytes: %v, %v", n, d, err)
		}
	}
}
