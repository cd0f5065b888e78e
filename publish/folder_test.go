package publish_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/routesrv/routesrv/publish"
)

// A folder that cannot be created is reported at the start, and not when the first table is to be written.
func TestFolderThatCannotBeMadeIsToldAtTheStart(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(folder, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	g := filePublisher(t, publish.FileConfig{Path: filepath.Join(folder, "table.eskip")})
	g.Boot(1<<20, nil)
	if f := g.File(); f.Error == "" || g.Served() != nil {
		t.Errorf("the status is %+v, want an error", f)
	}
}
