package tables_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/routesrv/routesrv/source/tables"
	"github.com/routesrv/routesrv/table"
)

func write(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestFileIsReadEachTime(t *testing.T) {
	path := write(t, "routes.eskip", document(3)+"\n")
	r := reader(t, tables.Config{})
	for _, n := range []int{3, 5} {
		if err := os.WriteFile(path, []byte(document(n)), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := load(t, r, path); err != nil || len(got.Routes) != n || got.Name != path {
			t.Errorf("%+v %v, want %d routes", got, err, n)
		}
	}
}

// parsed is a table of the document, with a revision.
func parsed(t *testing.T, document string) *table.Table {
	t.Helper()
	routes, err := table.Parse(document)
	if err != nil {
		t.Fatal(err)
	}
	tab, err := table.New(routes, 42, time.Unix(1000, 0))
	if err != nil {
		t.Fatal(err)
	}
	return tab
}

func TestCopyOfATableIsChecked(t *testing.T) {
	tab := parsed(t, document(5))
	var b bytes.Buffer
	if err := tab.WriteFile(&b, table.FileMeta{Origin: "cluster"}); err != nil {
		t.Fatal(err)
	}
	got, err := load(t, reader(t, tables.Config{}), write(t, "table.eskip", b.String()))
	if err != nil || len(got.Routes) != 5 || got.Revision != 42 {
		t.Errorf("%+v, %v", got, err)
	}
	damaged := strings.Replace(b.String(), "/3", "/4", 1)
	if _, err := load(t, reader(t, tables.Config{}), write(t, "table.eskip", damaged)); !errors.Is(err, table.ErrDamaged) {
		t.Errorf("a damaged copy: %v", err)
	}
}

func TestErrorsOfFilesNameTheirPlace(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct{ place, want string }{
		{filepath.Join(dir, "none.eskip"), filepath.Join(dir, "none.eskip") + ": no such file or directory"},
		{write(t, "a.eskip", "a: * -> <shunt>;\nb: * -> f( -> <shunt>"), "a.eskip:2:14: parse failed after token ->, last route id: b, position 30: syntax error"},
		{write(t, "b.eskip", "a: Path(1) -> <shunt>"), `b.eskip: invalid route "a": Path predicate expects 1 string argument`},
		{write(t, "c.eskip", document(100)), "larger than 1000 bytes"},
		{write(t, "d.yaml", "kind: Ingress"), "d.yaml: manifests cannot be compiled here"},
		{dir, dir + ": manifests cannot be compiled here"},
		{"", "the name of a table is empty"},
		{"ftp://host/routes", "ftp://host/routes: must be an http or https URL"},
		{"http:///routes", "the URL has no host"},
		{"http://[::1/routes", "not a URL"},
		{"-", "-: no standard input"},
	} {
		_, err := load(t, reader(t, tables.Config{MaxBytes: 1000}), c.place)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want … %s", c.place, err, c.want)
		}
	}
}

func TestStandardInputIsReadOnce(t *testing.T) {
	r := reader(t, tables.Config{Stdin: strings.NewReader(document(4))})
	if got, err := load(t, r, "-"); err != nil || len(got.Routes) != 4 || got.Name != "-" {
		t.Errorf("%v %v", got, err)
	}
	if _, err := load(t, r, "-"); err == nil || !strings.Contains(err.Error(), "only one of the tables") {
		t.Errorf("the second: %v", err)
	}
	broken := reader(t, tables.Config{Stdin: iotest.ErrReader(io.ErrUnexpectedEOF)})
	if _, err := load(t, broken, "-"); !errors.Is(err, io.ErrUnexpectedEOF) || !strings.HasPrefix(err.Error(), "standard input: ") {
		t.Error(err)
	}
}

func TestManifestsAreCompiled(t *testing.T) {
	var asked []string
	failure := errors.New("bad manifest")
	cfg := tables.Config{Compile: func(_ context.Context, path string) (table.List, error) {
		asked = append(asked, filepath.Base(path))
		if strings.HasPrefix(filepath.Base(path), "bad") {
			return table.List{}, failure
		}
		return parsed(t, document(2)).Routes(), nil
	}}
	for _, place := range []string{write(t, "x.yaml", ""), write(t, "x.YML", ""), write(t, "x.json", ""), t.TempDir()} {
		if got, err := load(t, reader(t, cfg), place); err != nil || len(got.Routes) != 2 {
			t.Errorf("%s: %v %v", place, got, err)
		}
	}
	if len(asked) != 4 {
		t.Errorf("compiled: %q", asked)
	}
	if _, err := load(t, reader(t, cfg), write(t, "bad.yaml", "")); !errors.Is(err, failure) {
		t.Error(err)
	}
}
