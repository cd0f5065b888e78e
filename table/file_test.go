package table_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/routesrv/routesrv/eskip"
	"github.com/routesrv/routesrv/table"
)

// marshal returns the file form of a table.
func marshal(t testing.TB, tab *table.Table, meta table.FileMeta) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := tab.WriteFile(&b, meta); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func unmarshal(data []byte) (*table.Table, table.FileMeta, error) {
	return table.ReadFile(bytes.NewReader(data))
}

var saved = time.Date(2026, 11, 21, 5, 0, 0, 123456789, time.UTC)

func TestFileRoundTrip(t *testing.T) {
	empty, err := table.New(nil, 0, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	for _, tab := range []*table.Table{parse(t, document), empty} {
		for _, meta := range []table.FileMeta{{}, {Saved: saved, Origin: "https://routesrv/routes\n; // \"x\""}} {
			file := marshal(t, tab, meta)
			got, gotMeta, err := unmarshal(file)
			if err != nil {
				t.Fatalf("%v\n%s", err, file)
			}
			if got.Digest() != tab.Digest() || got.Revision() != tab.Revision() || !got.Time().Equal(tab.Time()) || got.Len() != tab.Len() {
				t.Errorf("got another table:\n%s", got.Text())
			}
			want := table.FileMeta{Digest: tab.Digest(), Revision: tab.Revision(), Time: tab.Time(), Saved: meta.Saved, Origin: meta.Origin}
			if diff := cmp.Diff(want, gotMeta); diff != "" {
				t.Error(diff)
			}
		}
	}
}

func TestFileIsADocumentThatEverybodyReads(t *testing.T) {
	tab := parse(t, document)
	routes, err := eskip.Parse(string(marshal(t, tab, table.FileMeta{Origin: "x"})))
	if err != nil || len(routes) != tab.Len() {
		t.Errorf("got %d routes, %v; want %d", len(routes), err, tab.Len())
	}
}

func TestEveryTornFileIsRefused(t *testing.T) {
	file := marshal(t, parse(t, document), table.FileMeta{Saved: saved, Origin: "test"})
	for n := range file {
		_, _, err := unmarshal(file[:n])
		if !errors.Is(err, table.ErrDamaged) && (n >= len("// routesrv table") || err.Error() != "not a table file") {
			t.Fatalf("the first %d of %d bytes gave %v", n, len(file), err)
		}
	}
}

func TestEveryChangedByteIsFound(t *testing.T) {
	tab := parse(t, document)
	file := marshal(t, tab, table.FileMeta{Saved: saved, Origin: "test"})
	for n := range file {
		for bit := range 8 {
			changed := bytes.Clone(file)
			changed[n] ^= 1 << bit
			if got, _, err := unmarshal(changed); err == nil && string(got.Text()) != string(tab.Text()) {
				t.Fatalf("byte %d (%q) can be changed", n, file[n])
			}
		}
	}
}

// full is a disk with so many bytes left.
type full struct{ left int }

var errFull = errors.New("no space left")

func (f *full) Write(p []byte) (int, error) {
	if len(p) > f.left {
		n := f.left
		f.left = 0
		return n, errFull
	}
	f.left -= len(p)
	return len(p), nil
}

func TestAWriteThatFailsIsReported(t *testing.T) {
	tab := parse(t, document)
	size := len(marshal(t, tab, table.FileMeta{}))
	for n := range size {
		if err := tab.WriteFile(&full{n}, table.FileMeta{}); !errors.Is(err, errFull) {
			t.Errorf("WriteFile with room for %d of %d bytes: error %v", n, size, err)
		}
	}
	if err := tab.WriteFile(&full{size}, table.FileMeta{}); err != nil {
		t.Errorf("WriteFile with room for all: error %v", err)
	}
	for n := range tab.Bytes() {
		if written, err := tab.WriteTo(&full{n}); !errors.Is(err, errFull) || written != int64(n) {
			t.Errorf("WriteTo with room for %d of %d bytes: %d, error %v", n, tab.Bytes(), written, err)
		}
	}
}

func TestFileErrors(t *testing.T) {
	file := string(marshal(t, parse(t, document), table.FileMeta{Saved: saved, Origin: "test"}))
	replace := func(old, new string) string {
		if !strings.Contains(file, old) {
			t.Fatalf("no %q in the file", old)
		}
		return strings.Replace(file, old, new, 1)
	}
	for _, test := range []struct {
		name, file string
		damaged    bool
	}{
		{"another document", document, false},
		{"another program's comment", "// Code generated. DO NOT EDIT.\n" + document, false},
		{"binary", "\x00\x01\x02\n", false},
		{"empty file", "", false},
		{"newer version", replace("version 1", "version 2"), true},
		{"changed revision", replace(`"revision":7`, `"revision":8`), true},
		{"changed text", replace("status(204)", "status(404)"), true},
		{"text that does not parse", replace("status(204)", "status(204"), true},
		{"appended route", file + "x: * -> <shunt>;\n", true},
		{"header line taken out", strings.Replace(file, strings.SplitAfter(file, "\n")[1], "", 1), true},
		{"endless header", "// routesrv table, version 1" + strings.Repeat("x", 1<<20), true},
	} {
		t.Run(test.name, func(t *testing.T) {
			tab, meta, err := unmarshal([]byte(test.file))
			if err == nil || errors.Is(err, table.ErrDamaged) != test.damaged || tab != nil || meta != (table.FileMeta{}) {
				t.Errorf("got %v, %+v, %v; damaged: %v", tab, meta, err, test.damaged)
			}
		})
	}
}

func FuzzParseFile(f *testing.F) {
	for _, meta := range []table.FileMeta{{}, {Saved: saved, Origin: "a\nb"}} {
		f.Add(marshal(f, parse(f, document), meta))
	}
	f.Add([]byte("// routesrv table, version 1, header 0\n// {}\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		tab, meta, err := unmarshal(data)
		if err != nil {
			if tab != nil {
				t.Error("a table and an error")
			}
			return
		}
		if tab.Digest() != meta.Digest || tab.Revision() != meta.Revision {
			t.Errorf("table %d routes, revision %d; meta %+v", tab.Len(), tab.Revision(), meta)
		}
		again, _, err := unmarshal(marshal(t, tab, meta))
		if err != nil || again.Digest() != tab.Digest() {
			t.Errorf("the file form of what was read is not read: %v", err)
		}
	})
}
