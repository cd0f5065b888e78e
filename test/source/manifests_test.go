package source_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/source/manifests"
)

// folder is a folder with a file for each object, in the order in which they came.
type folder struct {
	t     *testing.T
	dir   string
	files map[kube.Ref]string
}

func (w *folder) apply(objects string) {
	for _, doc := range manifests.Split([]byte(objects)) {
		text, err := manifests.ToJSON(doc)
		if err != nil {
			w.t.Fatal(err)
		}
		_, kind, _ := strings.Cut(string(text), `"kind":"`)
		kind, _, _ = strings.Cut(kind, `"`)
		ref := kube.SalvageRef(kube.Kind(kind), text)
		if w.files[ref] == "" {
			w.files[ref] = filepath.Join(w.dir, fmt.Sprintf("%03d.yaml", len(w.files)))
		}
		writeFile(w.t, w.files[ref], string(doc.Text))
	}
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestAFolderKeepsTheContractOfSources(t *testing.T) {
	testSource(t, func(t *testing.T, objects string) world {
		w := &folder{t, t.TempDir(), map[kube.Ref]string{}}
		w.apply(objects)
		source, err := manifests.New(manifests.Config{Paths: []string{w.dir}})
		if err != nil {
			t.Fatal(err)
		}
		return world{
			Source: source,
			Apply:  w.apply,
			Delete: func(r kube.Ref) {
				if err := os.Remove(w.files[r]); err != nil {
					t.Fatal(err)
				}
			},
			Break: func(broken bool) {
				path := filepath.Join(w.dir, "broken.yaml")
				if broken {
					writeFile(t, path, "a: [")
				} else if err := os.Remove(path); err != nil {
					t.Fatal(err)
				}
			},
		}
	})
}
