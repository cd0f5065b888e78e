package gate_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/routesrv/routesrv/gate"
	"github.com/routesrv/routesrv/table"
)

const factsFile = "table.eskip.facts"

// restarted returns a new gate with a packed file that has been loaded.
func restarted(t *testing.T, path string) *gate.Gate {
	t.Helper()
	g := fileGate(t, gate.FileConfig{Path: path, Pack: true})
	g.Boot(1<<20, nil)
	return g
}

// TestFactsSpareTheParser: the text of this table does not parse, which only a start without facts notices.
func TestFactsSpareTheParser(t *testing.T) {
	path := filepath.Join(t.TempDir(), "table.eskip")
	tab, err := table.New([]table.Route{{ID: "a", Text: "a: this is no route;"}}, 3, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	fileGate(t, gate.FileConfig{Path: path, Pack: true}).Begin().Offer(offered(tab))
	if g := restarted(t, path); g.Served() == nil || g.Table().Digest() != tab.Digest() || g.Table().Revision() != 3 {
		t.Errorf("with facts: %+v", g.Served())
	}
	if err := os.Remove(path + ".facts"); err != nil {
		t.Fatal(err)
	}
	if g := restarted(t, path); g.Served() != nil {
		t.Error("without facts, the text was not parsed")
	}
}

// TestFactsAreOptional: whatever is in their place, the table is written and comes back.
func TestFactsAreOptional(t *testing.T) {
	var others bytes.Buffer
	if err := tableOf(t, 7, 9).WriteFacts(&others); err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(path string) error{
		"missing":     os.Remove,
		"truncated":   func(path string) error { return os.Truncate(path, 40) },
		"empty":       func(path string) error { return os.Truncate(path, 0) },
		"too long":    func(path string) error { return os.Truncate(path, 1<<40) }, // a sparse file
		"of another":  func(path string) error { return os.WriteFile(path, others.Bytes(), 0o600) },
		"a folder":    func(path string) error { return replace(path, func() error { return os.Mkdir(path, 0o700) }) },
		"a dead link": func(path string) error { return replace(path, func() error { return os.Symlink("nowhere", path) }) },
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "table.eskip")
			fileGate(t, gate.FileConfig{Path: path, Pack: true}).Begin().Offer(offered(tableOf(t, 2, 10)))
			if err := spoil(path + ".facts"); err != nil {
				t.Fatal(err)
			}
			g := restarted(t, path)
			if g.Served() == nil || g.Table().Len() != 2 || g.Files()[0].Unusable != "" {
				t.Fatalf("served is %+v, the file %+v", g.Served(), g.Files()[0])
			}
			g.Begin().Offer(offered(tableOf(t, 3, 11)))
			if again := restarted(t, path); again.Served() == nil || again.Table().Len() != 3 || again.Files()[0].Error != "" {
				t.Errorf("after the next table: %+v, the file %+v", again.Served(), again.Files()[0])
			}
		})
	}
}

func replace(path string, with func() error) error {
	if err := os.Remove(path); err != nil {
		return err
	}
	return with()
}

// TestFactsReplaceNoFileOfSomebodyElse: a path that was mistyped must not destroy the file beside it either.
func TestFactsReplaceNoFileOfSomebodyElse(t *testing.T) {
	folder := t.TempDir()
	foreign := filepath.Join(folder, factsFile)
	if err := os.WriteFile(foreign, []byte("the only copy\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(folder, "table.eskip")
	fileGate(t, gate.FileConfig{Path: path, Pack: true}).Begin().Offer(offered(tableOf(t, 2, 10)))
	if got, err := os.ReadFile(foreign); err != nil || string(got) != "the only copy\n" {
		t.Errorf("the file has %q, %v", got, err)
	}
	if g := restarted(t, path); g.Served() == nil || g.Table().Len() != 2 {
		t.Errorf("served is %+v", g.Served())
	}
}

// TestFilesForThemselvesHaveNoFacts: nobody loads a plain file packed.
func TestFilesForThemselvesHaveNoFacts(t *testing.T) {
	for _, cfg := range []gate.FileConfig{{Plain: true, Pack: true}, {}} {
		cfg.Path = filepath.Join(t.TempDir(), "table.eskip")
		fileGate(t, cfg).Begin().Offer(offered(tableOf(t, 2, 10)))
		if files, err := os.ReadDir(filepath.Dir(cfg.Path)); err != nil || len(files) != 1 {
			t.Errorf("%+v: in the folder is %v, %v", cfg, files, err)
		}
	}
}
