package table_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/routesrv/routesrv/eskip"
	"github.com/routesrv/routesrv/table"
)

var saved = time.Date(2026, 11, 21, 5, 0, 0, 123456789, time.UTC)

func TestFileRoundTrip(t *testing.T) {
	empty, err := table.New(nil, 0, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	for _, tab := range []*table.Table{parse(t, document), empty} {
		for _, meta := range []table.FileMeta{{}, {Saved: saved, Origin: "https://routesrv/routes\n; // \"x\""}} {
			file := tab.MarshalFile(meta)
			got, gotMeta, err := table.ParseFile(file)
			if err != nil {
				t.Fatalf("%v\n%s", err, file)
			}
			if got.Digest() != tab.Digest() || got.Revision() != tab.Revision() || !got.Time().Equal(tab.Time()) || got.Len() != tab.Len() {
				t.Errorf("got another table:\n%s", got.Text())
			}
			want := table.FileMeta{
				Digest: tab.Digest(), Revision: tab.Revision(), Routes: tab.Len(), Bytes: tab.Bytes(), Time: tab.Time(),
				Saved: meta.Saved, Origin: meta.Origin,
			}
			if diff := cmp.Diff(want, gotMeta); diff != "" {
				t.Error(diff)
			}
			var b bytes.Buffer
			if err := tab.WriteFile(&b, meta); err != nil || !bytes.Equal(b.Bytes(), file) {
				t.Errorf("WriteFile differs from MarshalFile: %v", err)
			}
		}
	}
}

func TestFileIsADocumentThatEverybodyReads(t *testing.T) {
	tab := parse(t, document)
	routes, err := eskip.Parse(string(tab.MarshalFile(table.FileMeta{Origin: "x"})))
	if err != nil || len(routes) != tab.Len() {
		t.Errorf("got %d routes, %v; want %d", len(routes), err, tab.Len())
	}
}

func TestEveryTornFileIsRefused(t *testing.T) {
	file := parse(t, document).MarshalFile(table.FileMeta{Saved: saved, Origin: "test"})
	text := bytes.LastIndex(file, []byte("\n// ")) // the last line of the header
	text += 2 + bytes.IndexByte(file[text+1:], '\n')
	for n := range file {
		where := "within the first line"
		if n >= text {
			where = fmt.Sprintf("%d bytes of text", n-text)
		} else if n > bytes.IndexByte(file, '\n') {
			where = "within the header"
		}
		if _, _, err := table.ParseFile(file[:n]); !errors.Is(err, table.ErrTruncated) || !strings.Contains(err.Error(), where) {
			t.Fatalf("the first %d of %d bytes gave %v, want ErrTruncated that says %s", n, len(file), err, where)
		}
	}
}

func TestEveryChangedByteIsFound(t *testing.T) {
	file := parse(t, document).MarshalFile(table.FileMeta{Saved: saved, Origin: "test"})
	for n := range file {
		changed := bytes.Clone(file)
		changed[n] ^= 1
		if _, _, err := table.ParseFile(changed); err == nil {
			t.Fatalf("byte %d (%q) can be changed", n, file[n])
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
	size := len(tab.MarshalFile(table.FileMeta{}))
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
	file := string(parse(t, document).MarshalFile(table.FileMeta{Saved: saved, Origin: "test"}))
	replace := func(old, new string) string {
		if !strings.Contains(file, old) {
			t.Fatalf("no %q in the file", old)
		}
		return strings.Replace(file, old, new, 1)
	}
	for _, test := range []struct {
		name, file string
		want       error
	}{
		{"another document", document, table.ErrForeign},
		{"another program's comment", "// Code generated. DO NOT EDIT.\n" + document, table.ErrForeign},
		{"binary", "\x00\x01\x02\n", table.ErrForeign},
		{"empty file", "", table.ErrTruncated},
		{"newer version", replace("version 2", "version 3"), table.ErrFileVersion},
		{"changed revision", replace(`"revision":7`, `"revision":8`), table.ErrDigestMismatch},
		{"changed text", replace("status(204)", "status(404)"), table.ErrDigestMismatch},
		{"appended route", file + "x: * -> <shunt>;\n", table.ErrDigestMismatch},
		{"field taken out", replace(`,"routes":3`, ""), table.ErrDigestMismatch},
		{"header line taken out", strings.Replace(file, strings.SplitAfter(file, "\n")[1], "", 1), table.ErrDigestMismatch},
	} {
		t.Run(test.name, func(t *testing.T) {
			tab, meta, err := table.ParseFile([]byte(test.file))
			if !errors.Is(err, test.want) || tab != nil || meta != (table.FileMeta{}) {
				t.Errorf("got %v, %+v, %v; want %v", tab, meta, err, test.want)
			}
		})
	}
}

func FuzzParseFile(f *testing.F) {
	for _, meta := range []table.FileMeta{{}, {Saved: saved, Origin: "a\nb"}} {
		f.Add(parse(f, document).MarshalFile(meta))
	}
	f.Add([]byte("// routesrv table, version 2\n// {}\n// header: \n"))
	f.Add([]byte(fmt.Sprintf("// routesrv table, version %d\n", 1<<40)))
	f.Fuzz(func(t *testing.T, data []byte) {
		tab, meta, err := table.ParseFile(data)
		if err != nil {
			if tab != nil {
				t.Error("a table and an error")
			}
			return
		}
		if tab.Len() != meta.Routes || tab.Revision() != meta.Revision {
			t.Errorf("table %d routes, revision %d; meta %+v", tab.Len(), tab.Revision(), meta)
		}
		again, _, err := table.ParseFile(tab.MarshalFile(meta))
		if err != nil || again.Digest() != tab.Digest() {
			t.Errorf("the file form of what was read is not read: %v", err)
		}
	})
}
