package table_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/routesrv/routesrv/eskip"
	"github.com/routesrv/routesrv/table"
)

// leaving decodes a document and leaves out what it can.
func leaving(base *table.Table, text string, n int) (*table.Table, int, []table.LeftOut, error) {
	d := table.NewDecoder(base, math.MaxInt64)
	d.LeaveOut()
	t, err := decodeWith(d, text, n)
	count, first := d.LeftOut()
	return t, count, first, err
}

func TestBadPartsOfADocumentAreLeftOut(t *testing.T) {
	const a, b, c = `a: Path("/a") -> <shunt>;`, `b: Host(/b/) -> "http://10.0.0.1:80";`, `c: * -> <shunt>;`
	for name, test := range map[string]struct {
		text string
		want string // ids of the table
		left string // ids that are left out
	}{
		"nothing":                       {a + "\n" + b + "\n" + c, "a b c", ""},
		"a line feed in an address":     {a + "\n" + "b: * -> \"http\n://10.0.0.1\";" + "\n" + c, "a b c", ""},
		"a quote in an address":         {a + "\n" + `b: * -> "http://a"b";` + "\n" + c, "a c", "b"},
		"a quote in the first line":     {`a: * -> "http://a"b";` + "\n" + b + "\n" + c, "b c", "a"},
		"a quote in the last line":      {a + "\n" + b + "\n" + `c: * -> "http://a"b";`, "a b", "c"},
		"two quotes":                    {a + "\n" + `b: * -> "http://a"b"c";` + "\n" + c, "a c", "b"},
		"a backslash at the end":        {a + "\n" + `b: * -> "http://a\";` + "\n" + c, "a c", "b"},
		"an expression without end":     {a + "\n" + `b: Host(/a\\[/) -> <shunt>;` + "\n" + c, "a c", "b"},
		"an empty expression":           {a + "\n" + `b: Host(//) -> <shunt>;` + "\n" + c, "a c", "b"},
		"a number with exponent":        {a + "\n" + `b: Traffic(1e-05) -> <shunt>;` + "\n" + c, "a c", "b"},
		"no backend":                    {a + "\n" + "b: * -> ;\n" + c, "a c", "b"},
		"endpoints that are no URLs":    {a + "\n" + `b: * -> <"x", "y">;` + "\n" + c, "a c", "b"},
		"mixed protocols":               {a + "\n" + `b: * -> <"http://x", "https://y">;` + "\n" + c, "a c", "b"},
		"two methods":                   {a + "\n" + `b: Method("A") && Method("B") -> <shunt>;` + "\n" + c, "a c", "b"},
		"no id":                         {a + "\n" + `: * -> <shunt>;` + "\n" + c, "a c", "-"},
		"an id that is no symbol":       {a + "\n" + `b-b: * -> <shunt>;` + "\n" + c, "a c", "-"},
		"an id twice: the last counts":  {a + "\n" + b + "\n" + `b: * -> <dynamic>;` + "\n" + c, "a b c", "b"},
		"an id twice, not adjacent":     {c + "\n" + a + "\n" + b + "\n" + `c: * -> <dynamic>;`, "a b c", "c"},
		"two lines with one quote each": {a + "\n" + `b: * -> "x"y";` + "\n" + `b2: * -> "x"y";` + "\n" + c, "a c", "b b2"},
		"a line in a literal is a line": {a + "\n" + "b: Method(\"A\") && Method(\"x\nd: * -> <shunt>;\") -> <shunt>;\n" + c, "a c", "b d"},
		"two routes in a line":          {a + "\n" + `b: * -> <shunt>; d: * -> <shunt>;` + "\n" + c, "a b c d", ""},
		"a line that is too long":       {a + "\n" + `b: Path("/` + strings.Repeat("x", 5<<20) + `") -> <shunt>;` + "\n" + c, "a c", "b"},
	} {
		for _, n := range []int{1 << 20, 64 << 10, 7, 1} {
			if n < 100 && len(test.text) > 1<<20 {
				continue
			}
			base, err := parsed(a + "\n" + b)
			if err != nil {
				t.Fatal(err)
			}
			for _, before := range []*table.Table{nil, base} {
				got, count, first, err := leaving(before, test.text, n)
				if err != nil {
					t.Errorf("%s, pieces of %d: %.200v", name, n, err)
					continue
				}
				var ids, left []string
				for r := range got.Routes().All() {
					ids = append(ids, r.ID)
				}
				for _, l := range first {
					if left = append(left, l.ID); l.ID == "" {
						left[len(left)-1] = "-"
					}
					if l.Err == nil {
						t.Errorf("%s: no reason for %q", name, l.ID)
					}
				}
				if strings.Join(ids, " ") != test.want || strings.Join(left, " ") != test.left || count != len(left) {
					t.Errorf("%s, pieces of %d: routes %q, left out %q (%d), want %q and %q", name, n, ids, left, count, test.want, test.left)
				}
				if again, err := parsed(string(got.Text())); err != nil || again.Digest() != got.Digest() {
					t.Errorf("%s: the table does not read back: %v", name, err)
				}
			}
		}
	}
}

// TestDocumentThatIsNoTableIsRefused: leaving out has a limit.
func TestDocumentThatIsNoTableIsRefused(t *testing.T) {
	page := "<html>\n<body style=\"color: red;\">\nerror: gone; retry: later;\n</body></html>"
	for name, text := range map[string]string{
		"a page":             page,
		"an expression":      `* -> <shunt>`,
		"more bad than good": "a: * -> <shunt>;\n" + `b: * -> "x"y";` + "\n" + `c: * -> "x"y";`,
		"far too many":       manyRoutes(1000, "x") + strings.Repeat("\nb: * -> <x>;", 1001),
		"endless":            `a: Path("` + strings.Repeat("x", 6<<20),
	} {
		if got, _, _, err := leaving(nil, text, 64<<10); err == nil {
			t.Errorf("%s: a table of %d routes", name, got.Len())
		}
	}
}

// FuzzLeavingOutKeepsWhatReads: a document that a strict decoder accepts is the same table, and one hostile line between others that
// the reference could write costs itself only.
func FuzzLeavingOutKeepsWhatReads(f *testing.F) {
	for _, text := range []string{"", `http://a"b`, "http://a\nb", `a\`, "`", `";x: * -> "`, "\"\nz: * -> \"", "//", ";", "\";\nz: * -> \"x", "é\xff\x00"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, address string) {
		const a, z = `aa: Path("/a") -> <shunt>;`, `zz: Path("/z") -> <shunt>;`
		if strings.Contains(address, "aa") || strings.Contains(address, "zz") {
			return // it may replace them
		}
		text := a + "\n" + `m: * -> "` + address + `";` + "\n" + z + "\n" + strings.Replace(z, "zz", "zz2", 1)
		strict, strictErr := parsed(text)
		got, count, _, err := leaving(nil, text, 16)
		if strictErr == nil && (err != nil || got.Digest() != strict.Digest() || count != 0) {
			t.Fatalf("%q: %v, %d left out, although it reads", text, err, count)
		}
		if err != nil {
			if _, wrong := eskip.Parse(text); wrong == nil && strictErr == nil {
				t.Fatalf("%q: %v", text, err)
			}
			return
		}
		if wanted := got.Routes().Get("aa"); wanted == nil || wanted.Text != a {
			t.Errorf("%q: the route before the line is %v", text, wanted)
		}
		if last := got.Routes().Get("zz2"); last == nil {
			t.Errorf("%q: the route behind the line is lost: %s", text, got.Text())
		}
	})
}

func TestFirstPartsAreDescribed(t *testing.T) {
	var bad []string
	for i := range 30 {
		bad = append(bad, fmt.Sprintf("b%02d: * -> <x>;", i))
	}
	_, count, first, err := leaving(nil, manyRoutes(100, "x")+"\n"+strings.Join(bad, "\n"), 64<<10)
	if err != nil || count != 30 || len(first) != 10 || !slices.ContainsFunc(first, func(l table.LeftOut) bool { return l.ID == "b00" }) {
		t.Errorf("%d left out, %d described, %v", count, len(first), err)
	}
}

// TestTableHasALimitOfZones: those that most parts of a table have stay, so one object with many zones takes none from the others.
func TestTableHasALimitOfZones(t *testing.T) {
	var b strings.Builder
	for i := range 3000 {
		fmt.Fprintf(&b, "r%05d: * -> <\"http://10.0.0.1:80?zone=eu-1a\", \"http://10.0.0.2:80?zone=eu-1b\">;\n", i)
	}
	b.WriteString("s: * -> <\"http://10.0.0.1:80\"")
	for i := range 3000 {
		fmt.Fprintf(&b, ", \"http://10.1.%d.%d:80?zone=a-%04d\"", i/250, i%250, i)
	}
	b.WriteString(">;")
	got, err := parsed(b.String())
	if err != nil {
		t.Fatal(err)
	}
	if zones := got.Zones(); len(zones) != 64 || !slices.Contains(zones, "eu-1a") || !slices.Contains(zones, "eu-1b") || !slices.IsSorted(zones) {
		t.Errorf("%d zones: %q", len(zones), zones)
	}
	if got.Zone("a-2999") != got {
		t.Error("a zone beyond the limit has a table of its own")
	}
}
