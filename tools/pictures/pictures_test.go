package main

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestPicturesAreNotStale(t *testing.T) {
	if err := run("../..", true); err != nil {
		t.Error(err)
	}
}

func TestStalePicturesAreFound(t *testing.T) {
	const section = "# P\n\n## From a write to a proxy\n\n| | p50 | p99 |\n|---|---|---|\n| poll and poll: at `/routes` | 1 s | 2 s |\n" +
		"| poll and poll: at the proxy's data plane | 3 s | 4 s |\n| watch and stream: at `/routes` | 5 ms | 6 ms |\n"
	const last = "| watch and stream: at the proxy's data plane | 7 ms | 8 ms |\n"
	root := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("ARCHITECTURE.md", "# A\n\n```\nserving etagcache\nlanguage eskip\naside x\n```\n")
	write("etagcache/a.go", "package etagcache\n")
	write("eskip/a.go", "package eskip\n")
	write("docs/images/other.svg", "")
	write("docs/performance.md", section)
	if err := run(root, false); err == nil {
		t.Error("pictures are drawn without the times")
	}
	write("docs/performance.md", section+last)
	if err := run(root, false); err != nil {
		t.Fatal(err)
	}
	if err := run(root, true); err != nil {
		t.Errorf("pictures just drawn: %v", err)
	}
	write("docs/performance.md", strings.Replace(section, "5 ms", "9 ms", 1)+last)
	if err := run(root, true); err == nil || !strings.Contains(err.Error(), "change.svg is stale") {
		t.Errorf("with another time: %v", err)
	}
	write("docs/performance.md", section+last)
	write("ARCHITECTURE.md", "# A\n\n```\nserving etagcache\naside x\n```\n")
	if err := run(root, true); err == nil || !strings.Contains(err.Error(), "layers.svg is stale") {
		t.Errorf("with another row: %v", err)
	}
}

// TestTextFits: no box covers another, and every text stays in its box and in the picture, and covers no other text.
func TestTextFits(t *testing.T) {
	pictures, err := draw("../..")
	if err != nil {
		t.Fatal(err)
	}
	if len(pictures) != 4 {
		t.Errorf("%d pictures", len(pictures))
	}
	for name, p := range pictures {
		for _, problem := range p.misfits() {
			t.Errorf("%s: %s", name, problem)
		}
		if len(p.boxes) < 4 || len(p.labels) < 4 || p.title == "" || p.desc == "" {
			t.Errorf("%s: %d boxes, %d texts, title %q, description %q", name, len(p.boxes), len(p.labels), p.title, p.desc)
		}
	}
}

func TestMisfitsAreFound(t *testing.T) {
	for name, draw := range map[string]func(p *picture){
		"a text wider than its box":  func(p *picture) { p.box("box", 20, 20, 60, 40, "much too long") },
		"more lines than a box has":  func(p *picture) { p.box("box", 20, 20, 200, 40, "a", "b", "c") },
		"a box over another":         func(p *picture) { p.frame("box", 20, 20, 60, 40, "a"); p.frame("box", 70, 30, 60, 40, "b") },
		"a box outside":              func(p *picture) { p.frame("box", 600, 20, 60, 40, "a") },
		"a text outside":             func(p *picture) { p.text("small", "end", 30, 40, "more than thirty units") },
		"a text over another":        func(p *picture) { p.text("small", "start", 30, 40, "one"); p.text("small", "start", 40, 44, "two") },
		"a text that crosses a box":  func(p *picture) { p.frame("box", 20, 20, 60, 40, "a"); p.text("small", "start", 60, 40, "words") },
		"a box below the lower edge": func(p *picture) { p.frame("box", 20, 180, 60, 40, "a") },
	} {
		p := &picture{height: 200}
		draw(p)
		if len(p.misfits()) == 0 {
			t.Errorf("%s is not found", name)
		}
	}
	p := &picture{height: 200}
	p.box("box", 20, 20, 200, 60, "title", "line")
	p.text("small", "start", 20, 120, "below", "lower")
	if found := p.misfits(); len(found) > 0 {
		t.Errorf("a picture that is fine: %v", found)
	}
}

// TestPicturesAreForEverybody: well-formed, with a title and a description for those who do not see them, with colours for dark
// pages, and with nothing from elsewhere.
func TestPicturesAreForEverybody(t *testing.T) {
	pictures, err := draw("../..")
	if err != nil {
		t.Fatal(err)
	}
	for name, p := range pictures {
		seen := map[string]int{}
		for d := xml.NewDecoder(bytes.NewReader(p.svg())); ; {
			token, err := d.Token()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if e, ok := token.(xml.StartElement); ok {
				seen[e.Name.Local]++
			}
		}
		text := string(p.svg())
		if seen["title"] != 1 || seen["desc"] != 1 || !strings.Contains(text, "prefers-color-scheme: dark") {
			t.Errorf("%s: no title, description or dark colours", name)
		}
		if seen["image"]+seen["script"]+seen["foreignObject"] > 0 || strings.Contains(text, "@import") || strings.Contains(text, "url(") ||
			strings.Count(text, "://") != 1 {
			t.Errorf("%s loads something", name)
		}
	}
}

func TestRowsAreReadOfThePicture(t *testing.T) {
	exists := func(name string) bool { return name != "and" && !strings.ContainsAny(name, "()") }
	rows, err := readRows("# A\n\n```\ntop   cmd/a   cmd/b\n        |   |\nlow     c  (and)\n      c d\n\naside x\n```\n", exists)
	if err != nil || len(rows) != 2 || strings.Join(rows[0].packages, " ") != "cmd/a cmd/b" || strings.Join(rows[1].packages, " ") != "c d" {
		t.Errorf("%v, %v", rows, err)
	}
	for _, text := range []string{"# A\n", "```\n  a\n```\n", "```\ntop a\n```\n"} {
		if rows, err := readRows(text, exists); err == nil {
			t.Errorf("%q gives %v", text, rows)
		}
	}
}
