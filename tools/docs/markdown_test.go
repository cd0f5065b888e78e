package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestAnchorsAreThoseOfHeadings(t *testing.T) {
	const text = "# A `code` title: with *marks*, and 2\n\n## Twice ##\n\n```sh\n## no heading\n```\n\n## Twice\n\n  # no heading\n### [A link](x.md)\n\n~~~\n```\n# no heading\n~~~\n## Über_uns\n"
	want := []string{"a-code-title-with-marks-and-2", "twice", "twice-1", "a-link", "über_uns"}
	if d := cmp.Diff(want, anchorsOf(text)); d != "" {
		t.Error(d)
	}
}

func TestLinksAndPicturesAreFound(t *testing.T) {
	want := []string{"c.md#d", "f.svg", "h_(i)"}
	if d := cmp.Diff(want, linksOf("a [b](c.md#d) ![e](f.svg) [g](h_(i)) [j](k l) [m] (n)")); d != "" {
		t.Error(d)
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
	got, err := documentFiles(root)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{filepath.Join(root, "a.md"), filepath.Join(root, "b/c.md")}, got); d != "" {
		t.Error(d)
	}
	if _, err := documentFiles(filepath.Join(root, "gone")); err == nil {
		t.Error("a folder that does not exist has documents")
	}
}
