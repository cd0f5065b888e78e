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

// TestADecoderThatPacksNeverHasTheWholeText checks the memory that a document uses while it arrives, and once it is a table.
func TestADecoderThatPacksNeverHasTheWholeText(t *testing.T) {
	text := manyRoutes(100_000, "a")
	before := live()
	d := table.NewDecoder(nil, math.MaxInt64)
	d.Pack()
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

// TestADecoderThatPacksSharesBlocks: a full table that is mostly the previous one costs only the difference.
func TestADecoderThatPacksSharesBlocks(t *testing.T) {
	text := manyRoutes(20_000, "a")
	decode := func(base *table.Table, text string) *table.Table {
		d := table.NewDecoder(base, math.MaxInt64)
		d.Pack()
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

// TestADocumentThatTurnsOutNotToBeCanonicalIsPrinted: what was packed before the place where that shows is not lost.
func TestADocumentThatTurnsOutNotToBeCanonicalIsPrinted(t *testing.T) {
	text := manyRoutes(5000, "a")
	for name, text := range map[string]string{
		"newline at the end": text + "\n",
		"an earlier id":      text + "\na: * -> <shunt>;",
		"other spelling":     text + "\nz:\n  * -> <shunt>;",
	} {
		want, err := parsed(text)
		if err != nil {
			t.Fatal(err)
		}
		d := table.NewDecoder(nil, math.MaxInt64)
		d.Pack()
		got, err := decodeWith(d, text, 4000)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got.Digest() != want.Digest() || got.Len() != want.Len() {
			t.Errorf("%s: %d routes with digest %s, want %d with %s", name, got.Len(), got.Digest(), want.Len(), want.Digest())
		}
	}
	d := table.NewDecoder(nil, math.MaxInt64)
	d.Pack()
	if _, err := decodeWith(d, text+fmt.Sprintf("\nr%08d: * -> <shunt>;", 17), 4000); err == nil {
		t.Error("an id that is in a packed block already is no error")
	}
}

// TestARouteOfAPackedBlockKeepsNothingElse: many callers keep ids, and these must not keep blocks alive.
func TestARouteOfAPackedBlockKeepsNothingElse(t *testing.T) {
	tab, err := parsed(manyRoutes(50_000, "a"))
	if err != nil {
		t.Fatal(err)
	}
	list := tab.Routes().Packed()
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

// TestOfHostsIsAllThatAreAccepted: packed or not, the same routes come in the same order, and a loop may end early.
func TestOfHostsIsAllThatAreAccepted(t *testing.T) {
	for i, tab := range factTables(t) {
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
			for _, list := range []table.List{tab.Routes(), tab.Routes().Packed()} {
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
}
