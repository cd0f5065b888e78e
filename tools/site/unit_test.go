package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestReleasesAreOrdered(t *testing.T) {
	want := []string{"v0.1.0-alpha", "v0.1.0-rc.9", "v0.1.0-rc.10", "v0.1.0-rc.x", "v0.1.0", "v0.2.0", "v0.10.0", "v1.0.0"}
	got := slices.Clone(want)
	slices.Reverse(got)
	slices.SortFunc(got, func(a, b string) int {
		x, _ := parse(a)
		y, _ := parse(b)
		return x.compare(y)
	})
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	for _, name := range []string{"", "dev", "0.1.0", "v0.1", "v0.1.0-3-g12ab/..", "v0.1.0/x", "v01.0.0", "v1.2.3-", "../v1.0.0"} {
		if _, ok := parse(name); ok {
			t.Errorf("%q is a release", name)
		}
	}
}

// folder makes files in a folder of the test, and returns it.
func folder(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		if err := write(filepath.Join(root, name), []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestVersionsAreListed(t *testing.T) {
	for name, c := range map[string]struct {
		folders []string
		want    []string // newest first, the latest with a star
	}{
		"releases":            {[]string{"v0.1.0", "v0.10.0", "v0.2.0", "dev", "latest", "other"}, []string{"v0.10.0*", "v0.2.0", "v0.1.0", "dev"}},
		"a pre-release":       {[]string{"v0.1.0", "v0.2.0-rc.1"}, []string{"v0.2.0-rc.1", "v0.1.0*"}},
		"only pre-releases":   {[]string{"v0.2.0-rc.1", "dev"}, []string{"v0.2.0-rc.1*", "dev"}},
		"nothing is released": {[]string{"dev"}, []string{"dev*"}},
	} {
		files := map[string]string{}
		for _, f := range c.folders {
			files[f+"/index.html"] = "of " + f
		}
		out := folder(t, files)
		if err := writeVersions(out); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(filepath.Join(out, "versions.json"))
		if err != nil {
			t.Fatal(err)
		}
		var list []entry
		if err := json.Unmarshal(text, &list); err != nil {
			t.Fatal(err)
		}
		var got []string
		copied, err := os.ReadFile(filepath.Join(out, latest, "index.html"))
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range list {
			if slices.Contains(e.Aliases, latest) {
				if string(copied) != "of "+e.Version {
					t.Errorf("%s: latest is %q, want %s", name, copied, e.Version)
				}
				e.Version += "*"
			}
			got = append(got, e.Version)
		}
		if d := cmp.Diff(c.want, got); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
	if err := writeVersions(t.TempDir()); err == nil {
		t.Error("a site without versions has a list")
	}
}

const testReadme = "# Product\n\n## Documentation\n\n| | |\n|---|---|\n| **Start** | |\n| [a](docs/a.md), [rules](rules.yaml) | x |\n" +
	"| **Understand** | |\n| [SECURITY.md](SECURITY.md) | x |\n| [docs/decisions](docs/decisions) | x |\n"

func testCheckout(t *testing.T, more map[string]string) *checkout {
	t.Helper()
	files := map[string]string{"README.md": testReadme, "SECURITY.md": "# Policy\n", "rules.yaml": "a: b\n", "docs/a.md": "# The `a`\n",
		"docs/decisions/0001-x.md": "# 1. X\n", "docs/images/p.svg": "<svg/>", "internal/testdata/README.md": "# T\n"}
	for name, text := range more {
		files[name] = text
	}
	c, err := open(folder(t, files), "v0.1.0")
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestMenuIsTheTableOfTheReadme(t *testing.T) {
	nav, err := testCheckout(t, nil).stage(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	got, err := json.Marshal(nav)
	if err != nil {
		t.Fatal(err)
	}
	const want = `[{"Home":"index.md"},{"Start":[{"The a":"a.md"}]},{"Understand":[{"Policy":"project/security.md"},` +
		`{"Decisions":[{"All decisions":"decisions/index.md"},{"1. X":"decisions/0001-x.md"}]}]}]`
	if d := cmp.Diff(want, string(got)); d != "" {
		t.Error(d)
	}
	_, err = testCheckout(t, map[string]string{"docs/lost.md": "# Lost\n"}).stage(t.TempDir())
	if err == nil || !strings.Contains(err.Error(), "docs/lost.md is not in the table") {
		t.Errorf("a document that nobody finds: %v", err)
	}
	if _, err := testCheckout(t, map[string]string{"README.md": "# Product\n"}).stage(t.TempDir()); err == nil {
		t.Error("a README without the table gives a menu")
	}
}

func TestDocumentsAreRewritten(t *testing.T) {
	c := testCheckout(t, nil)
	for name, lines := range map[string]struct{ document, in, want string }{
		"a page":                {"docs/a.md", "[x](decisions/0001-x.md#y)", "[x](decisions/0001-x.md#y)"},
		"a page from elsewhere": {"README.md", "[x](docs/a.md#y) ![p](docs/images/p.svg)", "[x](a.md#y) ![p](images/p.svg)"},
		"a page upwards":        {"docs/decisions/0001-x.md", "[x](../../SECURITY.md)", "[x](../project/security.md)"},
		"the name of a file":    {"docs/decisions/0001-x.md", "see [../a.md](../a.md#y), [a.md](../a.md)", "see [The a](../a.md#y), [The a](../a.md)"},
		"a folder with a page":  {"README.md", "[x](docs/decisions)", "[x](decisions/index.md)"},
		"a file of the source":  {"docs/a.md", "[x](../rules.yaml)", "[x](" + sourceHost + "/blob/v0.1.0/rules.yaml)"},
		"a folder":              {"docs/a.md", "[x](../internal)", "[x](" + sourceHost + "/tree/v0.1.0/internal)"},
		"test data":             {"docs/a.md", "[x](../internal/testdata/README.md)", "[x](" + sourceHost + "/blob/v0.1.0/internal/testdata/README.md)"},
		"elsewhere, and here":   {"docs/a.md", "[x](https://example.org/a.md) [y](#z)", "[x](https://example.org/a.md) [y](#z)"},
		"code":                  {"docs/a.md", "```\n# [x](nowhere.md)\n```", "```\n# [x](nowhere.md)\n```"},
		"headings":              {"docs/a.md", "# A: `b`, c ##\n\n## A\n\n## A", "# A: `b`, c {#a-b-c}\n\n## A {#a}\n\n## A {#a-1}"},
		"a list":                {"docs/a.md", "text:\n- a\n  b\n\n  c\n\ntext\n  indented", "text:\n\n- a\n    b\n\n    c\n\ntext\n  indented"},
		"code in a list":        {"docs/a.md", "1. a\n\n   ```yaml\n   b:\n     c: 1\n   ```\n2. d", "1. a\n\n    ```yaml\n    b:\n      c: 1\n    ```\n\n2. d"},
		"code after an item":    {"docs/a.md", "- a\n  ```\n  b\n\n  c\n  ```\n  d", "- a\n\n    ```\n    b\n\n    c\n    ```\n\n    d"},
		"a list in a list":      {"docs/a.md", "- a\n  - b\n- c", "- a\n    - b\n- c"},
		"code after a list":     {"docs/a.md", "- a\n\n```\n  b\n```", "- a\n\n```\n  b\n```"},
		"a table":               {"docs/a.md", "| a\\|b | `c\\|d` |", "| a\\|b | `c|d` |"},
	} {
		got, err := c.rewrite(lines.document, lines.in)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if d := cmp.Diff(lines.want, got); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
	if _, err := c.rewrite("docs/a.md", "[x](nowhere.md)"); err == nil {
		t.Error("a dead link is rewritten")
	}
}
