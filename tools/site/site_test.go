package main

import (
	"encoding/json"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/routesrv/routesrv/internal/programs"
)

// mkdocs skips the test on a machine that cannot build the site.
func mkdocs(t *testing.T) { programs.Tool(t, "mkdocs mkdocs-material", "mkdocs") }

// TestSite builds the site of this repository and walks all of it: no link is dead, nothing comes from elsewhere, the search knows the pages.
func TestSite(t *testing.T) {
	mkdocs(t)
	out := t.TempDir()
	if err := build(t.Context(), "../..", out, "v0.1.0"); err != nil {
		t.Fatal(err)
	}
	pages, faults := walk(t, out, "../..")
	for _, f := range faults {
		t.Error(f)
	}
	if pages < 80 { // each page twice: in v0.1.0 and in latest
		t.Errorf("%d pages", pages)
	}
	t.Run("Search", func(t *testing.T) {
		searchFinds(t, filepath.Join(out, latest), "fallback", "reference", "kube-apiserver")
	})
	t.Run("Browser", func(t *testing.T) { inABrowser(t, out) })
}

// TestVersionsStay: a version is added beside others, is replaced when it is built again, and stays as it was when it cannot be built.
func TestVersionsStay(t *testing.T) {
	mkdocs(t)
	out := t.TempDir()
	make := func(version, text string) error {
		c := testCheckout(t, map[string]string{"docs/a.md": text})
		return build(t.Context(), c.root, out, version)
	}
	has := func(file, want string) {
		t.Helper()
		if text, err := os.ReadFile(filepath.Join(out, file)); err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%s: %v, and no %q in it", file, err, want)
		}
	}
	for _, step := range [][2]string{{"v0.1.0", "first"}, {"v0.2.0", "second"}, {"v0.2.0", "third"}} {
		if err := make(step[0], "# The a\n\n"+step[1]+"\n\n1. b\n\n   ```\n   c\n   ```\n2. d\n\n```sh\ne\n```\n\n4. f\n"); err != nil {
			t.Fatal(err)
		}
	}
	has("v0.1.0/a.html", "first")
	has("v0.2.0/a.html", "third")
	has("latest/a.html", "third")
	has("latest/a.html", `<ol start="4">`) // a list goes on where it says, as on the source host
	has("index.html", `href="v0.1.0/index.html"`)
	has("versions.json", `"v0.2.0"`)
	if _, faults := walk(t, out, ""); len(faults) > 0 {
		t.Error(strings.Join(faults, "\n"))
	}
	for name, text := range map[string]string{"a dead link": "# A\n\n[x](nowhere.md)\n", "a dead link in another form": "# A\n\n[x][y]\n\n[y]: nowhere.md\n"} {
		if err := make("v0.2.0", text); err == nil {
			t.Errorf("%s: the site is built", name)
		}
	}
	has("v0.2.0/a.html", "third")
}

// searchFinds wants the index of the search to have the words, at places that exist.
func searchFinds(t *testing.T, version string, words ...string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(version, "search/search_index.json"))
	if err != nil {
		t.Fatal(err)
	}
	var index struct {
		Docs []struct{ Location, Title, Text string }
	}
	if err := json.Unmarshal(text, &index); err != nil {
		t.Fatal(err)
	}
	found := map[string]int{}
	for _, d := range index.Docs {
		location, _, _ := strings.Cut(d.Location, "#")
		if location == "" {
			location = "index.html"
		}
		if _, err := os.Stat(filepath.Join(version, location)); err != nil || path.Ext(location) != ".html" {
			t.Errorf("the search leads to %q: %v", d.Location, err)
		}
		for _, w := range words {
			if strings.Contains(d.Text, w) {
				found[w]++
			}
		}
	}
	for _, w := range words {
		if found[w] == 0 {
			t.Errorf("the search knows no %q", w)
		}
	}
}
