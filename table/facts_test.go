package table_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/routesrv/routesrv/table"
)

// withFacts returns the file and the facts of a table.
func withFacts(t testing.TB, tab *table.Table) (file, facts []byte) {
	t.Helper()
	var b bytes.Buffer
	if err := tab.WriteFacts(&b); err != nil {
		t.Fatal(err)
	}
	return tab.MarshalFile(table.FileMeta{Saved: saved, Origin: "test"}), b.Bytes()
}

func readWithFacts(file, facts []byte) (*table.Table, table.FileMeta, error) {
	return table.ReadFileWithFacts(bytes.NewReader(file), int64(len(file)), facts)
}

// zonedRoutes is a table with zones.
const zonedRoutes = `a: Host(/^(a[.]org)$/) -> <random, "http://10.0.0.1:80?zone=z", "http://10.0.0.2:80?zone=y", "http://10.0.0.3:80?zone=z">;
b: Path("/b") -> <random, "http://10.0.0.1:80?zone=z", "http://10.0.0.2:80?zone=y", "http://10.0.0.3:80?zone=z">;
c: * -> <shunt>;`

// factTables are tables with hosts, zones, many blocks, and nothing.
func factTables(t testing.TB) []*table.Table {
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
		parse(t, manyRoutes(20_000, "a")), table.Of(parse(t, manyRoutes(5000, "b")).Routes().Packed(), 7, saved),
	}
}

// TestFileWithFactsIsTheFileWithout: everything that a table is asked has the same answer, and later tables share its blocks.
func TestFileWithFactsIsTheFileWithout(t *testing.T) {
	for i, tab := range factTables(t) {
		file, facts := withFacts(t, tab)
		got, meta, err := readWithFacts(file, facts)
		if err != nil {
			t.Fatalf("table %d: %v", i, err)
		}
		want, wantMeta, err := table.ParseFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(wantMeta, meta); diff != "" {
			t.Errorf("table %d: %s", i, diff)
		}
		sameTables(t, i, want, got)
		own := table.Route{ID: "zzz", Text: "zzz: * -> <shunt>;"}
		list, err := got.Routes().With([]*table.Route{&own}, nil)
		if err != nil {
			t.Fatal(err)
		}
		wanted, err := want.Routes().With([]*table.Route{&own}, nil)
		if err != nil {
			t.Fatal(err)
		}
		sameTables(t, i, table.Of(wanted, 9, saved), got.Next(list, 9, saved))
	}
}

func sameTables(t testing.TB, n int, want, got *table.Table) {
	t.Helper()
	if got.Digest() != want.Digest() || got.Revision() != want.Revision() || !got.Time().Equal(want.Time()) || got.Len() != want.Len() ||
		got.Bytes() != want.Bytes() || got.Checksum() != want.Checksum() || len(got.Routes().Blocks()) != len(want.Routes().Blocks()) {
		t.Errorf("table %d: another table: %d routes, %s", n, got.Len(), got.Digest())
	}
	if diff := cmp.Diff(want.Hosts(), got.Hosts()); diff != "" {
		t.Errorf("table %d: %s", n, diff)
	}
	if diff := cmp.Diff(want.Zones(), got.Zones()); diff != "" {
		t.Errorf("table %d: %s", n, diff)
	}
	for was, is := range table.Changes(want.Routes(), got.Routes()) {
		t.Fatalf("table %d: %+v became %+v", n, was, is)
	}
	all := want.Routes().Lookup()
	for r := range got.Routes().All() {
		if w := all.Get(r.ID); w == nil || *w != *r {
			t.Fatalf("table %d: the facts of %s are %+v, want %+v", n, r.ID, r, w)
		}
	}
}

// TestFactsThatDoNotFitAreNotUsed: facts that are damaged, or of another table, give no table.
func TestFactsThatDoNotFitAreNotUsed(t *testing.T) {
	file, facts := withFacts(t, parse(t, zonedRoutes))
	for i := range facts {
		damaged := bytes.Clone(facts)
		damaged[i] ^= 1
		if _, _, err := readWithFacts(file, damaged); !errors.Is(err, table.ErrFacts) {
			t.Errorf("byte %d of the facts changed: %v", i, err)
		}
		if _, _, err := readWithFacts(file, facts[:i]); !errors.Is(err, table.ErrFacts) {
			t.Errorf("%d bytes of the facts: %v", i, err)
		}
	}
	_, others := withFacts(t, parse(t, document))
	if _, _, err := readWithFacts(file, others); !errors.Is(err, table.ErrFacts) {
		t.Errorf("facts of another table: %v", err)
	}
	if !table.IsFacts(facts) || table.IsFacts(file) {
		t.Error("facts are not told from other files")
	}
}

// TestADamagedFileIsRefusedWithFacts: the text is verified as it is without facts.
func TestADamagedFileIsRefusedWithFacts(t *testing.T) {
	file, facts := withFacts(t, parse(t, zonedRoutes))
	for i := range file {
		damaged := bytes.Clone(file)
		damaged[i] ^= 1
		if _, _, err := readWithFacts(damaged, facts); err == nil {
			t.Errorf("byte %d of the file changed, and taken", i)
		}
		if _, _, err := readWithFacts(file[:i], facts); err == nil {
			t.Errorf("%d bytes of the file taken", i)
		}
	}
}

// FuzzFileWithFacts: whatever both files have, a table with facts is the one without.
func FuzzFileWithFacts(f *testing.F) {
	for _, tab := range factTables(f)[:3] {
		file, facts := withFacts(f, tab)
		f.Add(file, facts)
		f.Add(file, facts[:len(facts)-1])
	}
	f.Fuzz(func(t *testing.T, file, facts []byte) {
		got, _, err := readWithFacts(file, facts)
		if err != nil {
			return
		}
		want, _, err := table.ParseFile(file)
		if err != nil {
			return // somebody computed the digests for a text that is no table
		}
		sameTables(t, 0, want, got)
	})
}
