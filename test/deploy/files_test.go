package deploy

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

// folders are the folders with manifests that people read.
var folders = []string{"kustomize", "../examples", "testdata"}

// manifestFiles returns all YAML files of the folders.
func manifestFiles(t *testing.T) []string {
	t.Helper()
	var files []string
	for _, folder := range folders {
		err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
			if ext := filepath.Ext(path); err == nil && !d.IsDir() && (ext == ".yaml" || ext == "" && d.Name() == "Kustomization") {
				files = append(files, path)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if len(files) < 50 {
		t.Fatalf("%d files found; these are not all", len(files))
	}
	return files
}

// TestEveryFileSaysWhatItIsFor: in its first line.
func TestEveryFileSaysWhatItIsFor(t *testing.T) {
	for _, path := range manifestFiles(t) {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if first, _, _ := strings.Cut(string(text), "\n"); !strings.HasPrefix(first, "# ") {
			t.Errorf("%s begins with %q, want a comment", path, first)
		}
	}
}

// kustomization has the parts of a kustomization that the test reads.
type kustomization struct {
	Kind       string   `json:"kind"`
	Resources  []string `json:"resources"`
	Components []string `json:"components"`
	Patches    []struct {
		Path string `json:"path"`
	} `json:"patches"`
	Replacements []struct {
		Path string `json:"path"`
	} `json:"replacements"`
	ConfigMapGenerator []struct {
		Files []string `json:"files"`
	} `json:"configMapGenerator"`
}

// kustomizations returns all kustomizations of the folders, by their paths.
func kustomizations(t *testing.T) map[string]kustomization {
	t.Helper()
	all := make(map[string]kustomization)
	for _, path := range manifestFiles(t) {
		if !strings.HasPrefix(filepath.Base(path), "kustomization.") {
			continue
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var k kustomization
		if err := yaml.Unmarshal(text, &k); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		all[filepath.Dir(path)] = k
	}
	return all
}

// TestEveryFolderIsRendered: by itself, or as a part of another.
func TestEveryFolderIsRendered(t *testing.T) {
	all := kustomizations(t)
	used := map[string]bool{"../examples/migrate": true} // a Deployment of the reference, which test/e2e/manifests applies
	for _, dir := range renders {
		used[filepath.Clean(dir)] = true
	}
	for dir, k := range all {
		for _, part := range append(k.Resources, k.Components...) {
			used[filepath.Join(dir, part)] = true
		}
	}
	for dir, k := range all {
		if !used[dir] {
			t.Errorf("nothing renders the %s of %s", k.Kind, dir)
		}
	}
}

// TestEveryFileIsUsed: by the kustomization of its folder; a forgotten file has no effect.
func TestEveryFileIsUsed(t *testing.T) {
	used := make(map[string][]string) // by folder
	for dir, k := range kustomizations(t) {
		names := append(k.Resources, k.Components...)
		for _, p := range k.Patches {
			names = append(names, p.Path)
		}
		for _, r := range k.Replacements {
			names = append(names, r.Path)
		}
		for _, g := range k.ConfigMapGenerator {
			names = append(names, g.Files...)
		}
		used[dir] = names
	}
	for _, path := range manifestFiles(t) {
		dir, name := filepath.Split(path)
		names, ok := used[filepath.Clean(dir)]
		if ok && !strings.HasPrefix(name, "kustomization.") && !slices.Contains(names, name) {
			t.Errorf("the kustomization of %s does not name %s", dir, name)
		}
	}
}

// inTable matches the names of files and folders in the table of the README.
var inTable = regexp.MustCompile("`([a-z0-9./-]+(?:/|[.]yaml))`")

// TestReadmeHasEveryFolder: and none that does not exist.
func TestReadmeHasEveryFolder(t *testing.T) {
	text, err := os.ReadFile("kustomize/README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, ok := strings.Cut(string(text), "\n| folder | what for |\n")
	if !ok {
		t.Fatal("there is no table")
	}
	named := make(map[string]bool)
	for _, m := range inTable.FindAllStringSubmatch(table, -1) {
		named[strings.TrimSuffix(m[1], "/")] = true
		if _, err := os.Stat(filepath.Join("kustomize", m[1])); err != nil {
			t.Errorf("the table names what is not there: %v", err)
		}
	}
	for _, path := range manifestFiles(t) {
		name, ok := strings.CutPrefix(path, "kustomize/")
		dir := filepath.Dir(name)
		if ok && !named[dir] && !named[filepath.Dir(dir)] { // a folder in a component belongs to it
			t.Errorf("the table does not have %s", dir)
		}
	}
}

// TestReadmeHasTheTrialThatIsTested: the three lines of the README are those of testdata/trial.
func TestReadmeHasTheTrialThatIsTested(t *testing.T) {
	readme, err := os.ReadFile("kustomize/README.md")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("testdata/trial/kustomization.yaml")
	if err != nil {
		t.Fatal(err)
	}
	_, tested, ok := strings.Cut(string(text), "kind: Kustomization\n")
	if !ok {
		t.Fatalf("not a kustomization:\n%s", text)
	}
	for line := range strings.Lines(tested) {
		if want := "    " + strings.ReplaceAll(line, "../../", "<path>/deploy/"); !strings.Contains(string(readme), want) {
			t.Errorf("the README does not have %q", want)
		}
	}
}

// TestReadmeHasTheKustomizationThatIsTested: the one for a user's own proxies.
func TestReadmeHasTheKustomizationThatIsTested(t *testing.T) {
	readme, err := os.ReadFile("kustomize/README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, block, ok := strings.Cut(string(readme), "\n    apiVersion: ")
	if !ok {
		t.Fatal("there is none")
	}
	block, _, _ = strings.Cut("apiVersion: "+strings.ReplaceAll(block, "\n    ", "\n"), "\n\n")
	var want, got any
	if err := yaml.Unmarshal([]byte(strings.ReplaceAll(block, "<path>/deploy/", "../../")), &got); err != nil {
		t.Fatalf("%v:\n%s", err, block)
	}
	text, err := os.ReadFile("testdata/own/kustomization.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(text, &want); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the README has another one than testdata/own (-tested +README):\n%s", diff)
	}
}
