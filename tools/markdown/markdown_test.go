package markdown_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/routesrv/routesrv/tools/markdown"
)

func TestAnchorsAreThoseOfHeadings(t *testing.T) {
	const text = "# A `code` title: with *marks*, and 2\n\n## Twice ##\n\n```sh\n## no heading\n```\n\n## Twice\n\n  # no heading\n### [A link](x.md)\n\n~~~\n```\n# no heading\n~~~\n## Über_uns\n"
	want := []string{"a-code-title-with-marks-and-2", "twice", "twice-1", "a-link", "über_uns"}
	if d := cmp.Diff(want, markdown.Anchors(text)); d != "" {
		t.Error(d)
	}
}

func TestLinksAreRewritten(t *testing.T) {
	var seen []string
	got := markdown.RewriteLinks("a [b](c.md#d) ![e](f.svg) [g](h_(i)) [j](k l) [m] (n)", func(target string) string {
		seen = append(seen, target)
		return "<" + target + ">"
	})
	if d := cmp.Diff([]string{"c.md#d", "f.svg", "h_(i)"}, seen); d != "" {
		t.Error(d)
	}
	if want := "a [b](<c.md#d>) ![e](<f.svg>) [g](<h_(i)>) [j](k l) [m] (n)"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestDocumentsAreFound(t *testing.T) {
	root := t.TempDir()
	for _, name := range []string{"a.md", "b/c.md", "b/d.txt", ".hidden/e.md", "testdata/f.md", "b/testdata/g.md", "artifacts/h.md", "dist/i.md"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, name), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := markdown.Files(root)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{filepath.Join(root, "a.md"), filepath.Join(root, "b/c.md")}, got); d != "" {
		t.Error(d)
	}
	if _, err := markdown.Files(filepath.Join(root, "gone")); err == nil {
		t.Error("a folder that does not exist has documents")
	}
}
