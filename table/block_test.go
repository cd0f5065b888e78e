package table_test

import (
	"crypto/sha256"
	"fmt"
	"io"
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/routesrv/routesrv/table"
)

// live returns the bytes that are in use.
func live() int64 {
	var m runtime.MemStats
	for range 3 { // the second collection empties pools
		runtime.GC()
	}
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestADecoderNeverHasTheWholeText checks the memory that a document uses while it arrives, and once it is a table.
func TestADecoderNeverHasTheWholeText(t *testing.T) {
	text := manyRoutes(100_000, "a")
	before := live()
	d := table.NewDecoder(nil, math.MaxInt64)
	half := len(text) / 2
	for rest := text; rest != ""; rest = rest[min(32<<10, len(rest)):] {
		if _, err := io.WriteString(d, rest[:min(32<<10, len(rest))]); err != nil {
			t.Fatal(err)
		}
		if half -= 32 << 10; half > 0 && half <= 32<<10 {
			if used := live() - before; used > int64(len(text))/2 {
				t.Errorf("%d bytes in use in the middle of a document of %d", used, len(text))
			}
		}
	}
	tab, err := d.Table(1, at)
	if err != nil {
		t.Fatal(err)
	}
	if used := live() - before; used > int64(len(text))/2 {
		t.Errorf("%d bytes in use for a table of %d", used, len(text))
	}
	if want := table.Digest(sha256.Sum256([]byte(text))); tab.Digest() != want || tab.Bytes() != len(text) {
		t.Errorf("digest %s of %d bytes, want %s of %d", tab.Digest(), tab.Bytes(), want, len(text))
	}
	runtime.KeepAlive(text)
}

// TestADecoderSharesBlocks: a full table that is mostly the previous one costs only the difference.
func TestADecoderSharesBlocks(t *testing.T) {
	text := manyRoutes(20_000, "a")
	decode := func(base *table.Table, text string) *table.Table {
		d := table.NewDecoder(base, math.MaxInt64)
		tab, err := decodeWith(d, text, 10_000)
		if err != nil {
			t.Fatal(err)
		}
		return tab
	}
	first := decode(nil, text)
	if same := decode(first, text); !slices.Equal(same.Routes().Blocks(), first.Routes().Blocks()) {
		t.Error("the same document has other blocks")
	}
	changed := strings.Replace(text, `"/a7777"`, `"/changed"`, 1)
	second := decode(first, changed)
	others := 0
	for i, b := range second.Routes().Blocks() {
		if b != first.Routes().Blocks()[i] {
			others++
		}
	}
	if others != 1 || string(second.Text()) != changed {
		t.Errorf("%d blocks are others, want 1; the text is right: %v", others, string(second.Text()) == changed)
	}
}

// TestADocumentThatTurnsOutNotToBeSortedIsWhole: what was packed before the place where that shows is not lost.
func TestADocumentThatTurnsOutNotToBeSortedIsWhole(t *testing.T) {
	text := manyRoutes(5000, "a")
	for name, text := range map[string]string{
		"newline at the end": text + "\n",
		"an earlier id":      text + "\na: * -> <shunt>;",
		"other spelling":     text + "\nz:*-><shunt>;",
	} {
		want, err := parsed(text)
		if err != nil {
			t.Fatal(err)
		}
		d := table.NewDecoder(nil, math.MaxInt64)
		got, err := decodeWith(d, text, 4000)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got.Digest() != want.Digest() || got.Len() != want.Len() {
			t.Errorf("%s: %d routes with digest %s, want %d with %s", name, got.Len(), got.Digest(), want.Len(), want.Digest())
		}
	}
	d := table.NewDecoder(nil, math.MaxInt64)
	if _, err := decodeWith(d, text+fmt.Sprintf("\nr%08d: * -> <shunt>;", 17), 4000); err == nil {
		t.Error("an id that is in a finished block already is no error")
	}
}

// TestARouteKeepsNoBlock: many callers keep ids, and these must not keep blocks alive.
func TestARouteKeepsNoBlock(t *testing.T) {
	tab, err := parsed(manyRoutes(50_000, "a"))
	if err != nil {
		t.Fatal(err)
	}
	list := tab.Routes()
	tab = nil
	before := live()
	var ids []string
	for _, b := range list.Blocks() {
		ids = append(ids, b.Routes()[0].ID)
	}
	if used := live() - before; used > int64(len(ids))*300 {
		t.Errorf("%d ids of %d blocks keep %d bytes", len(ids), len(list.Blocks()), used)
	}
	runtime.KeepAlive(list)
}

// TestOfHostsIsAllThatAreAccepted: they come in order, and a loop may end early.
func TestOfHostsIsAllThatAreAccepted(t *testing.T) {
	for i, tab := range differentTables(t) {
		for _, keep := range []func(string) bool{
			func(string) bool { return true }, func(string) bool { return false },
			func(h string) bool { return h == "" }, func(h string) bool { return strings.HasSuffix(h, "7[.]example[.]org$") },
		} {
			var want []table.Route
			for r := range tab.Routes().All() {
				if keep(r.Hosts) {
					want = append(want, *r)
				}
			}
			list := tab.Routes()
			var got []table.Route
			for r := range list.OfHosts(keep) {
				got = append(got, *r)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("table %d: %s", i, diff)
			}
			for r := range list.OfHosts(keep) {
				if *r != want[0] {
					t.Errorf("table %d: the first is %s, want %s", i, r.ID, want[0].ID)
				}
				break
			}
		}
	}
}

// zonedRoutes is a table with zones.
const zonedRoutes = `a: Host(/^(a[.]org)$/) -> <random, "http://10.0.0.1:80?zone=z", "http://10.0.0.2:80?zone=y", "http://10.0.0.3:80?zone=z">;
b: Path("/b") -> <random, "http://10.0.0.1:80?zone=z", "http://10.0.0.2:80?zone=y", "http://10.0.0.3:80?zone=z">;
c: * -> <shunt>;`

// differentTables are tables with hosts, zones, many blocks, and nothing.
func differentTables(t testing.TB) []*table.Table {
	t.Helper()
	var zoned strings.Builder
	for i := range 3000 {
		fmt.Fprintf(&zoned, "z%05d: Host(/^h%d[.]example[.]org$/) -> <random, \"http://10.0.%d.1:80\", \"http://10.0.%d.2:80\">;\n", i, i%700, i%250, i%250)
	}
	empty, err := table.New(nil, 0, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	return []*table.Table{
		empty, parse(t, document), parse(t, zonedRoutes), parse(t, strings.TrimSuffix(zoned.String(), "\n")),
		parse(t, manyRoutes(20_000, "a")), table.Of(parse(t, manyRoutes(5000, "b")).Routes(), 7, saved),
	}
}
