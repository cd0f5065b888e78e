package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// tripPicture shows the path of one changed object, in the steps of the section "The trip of one object".
func tripPicture() *picture {
	p := &picture{
		title: "The trip of one object: from the API to a proxy",
		desc: "A RouteGroup changes. The source reads all kinds completely, decodes the one object that changed, the compiler makes its routes, the guard judges the table, " +
			"the cache publishes it, data planes take a delta and verify it, and the proxy polls.",
	}
	y := 20
	step := func(class, title string, lines ...string) {
		h := 26 + lineHeight*(1+len(lines))
		if y > 20 {
			p.down("line", width/2, y, y+24)
			y += 24
		}
		p.frame(class, 20, y, 600, h, title)
		p.left(title, lines...)
		y += h
	}
	step("box", "The API: somebody changes a weight in RouteGroup shop/cart")
	step("own", "1. Read: poller, source/cluster", "Lists each kind once. One failure fails the read; the old table stays.")
	step("own", "2. Decode: source/cluster", "Hashes each item and decodes only shop/cart: a snapshot that shares the rest.")
	step("own", "3. Compile: compile", "Routes of that object, each read back alone. A bad one becomes a problem.")
	step("stop", "4. Judge: publish, guard", "Looks like an accident? Then what it would lose is kept; the rest goes on.")
	step("own", "5. Publish: publish, etagcache", "SHA-256, the changed block compressed, one pointer swapped, ETag.")
	step("own", "6. Send: etagcache to dataplane", "One delta for all clients. Applied, compared, judged again, kept on disk.")
	step("box", "7. Poll: Skipper asks with its ETag", "200 with the new table, then 304 from any replica until it changes.")
	p.height = y + 20
	return p
}

// row is one row of the picture in ARCHITECTURE.md.
type row struct {
	name     string
	packages []string
}

// readRows returns the rows of the text picture in ARCHITECTURE.md, from the top down, without what is aside. Exists tells names of
// packages from remarks. The tests of test/arch hold that text against the imports.
func readRows(document string, exists func(name string) bool) ([]row, error) {
	_, text, found := strings.Cut(document, "```\n")
	text, _, closed := strings.Cut(text, "```")
	if !found || !closed {
		return nil, errors.New("no picture of the layers")
	}
	var rows []row
	for line := range strings.Lines(text) {
		words := strings.FieldsFunc(line, func(r rune) bool { return strings.ContainsRune(" \n|", r) })
		if !strings.HasPrefix(line, " ") && len(words) > 0 {
			rows = append(rows, row{name: words[0]})
			words = words[1:]
		}
		if len(rows) == 0 {
			return nil, fmt.Errorf("the line %q belongs to no row", line)
		}
		last := &rows[len(rows)-1]
		if last.name == "aside" {
			return rows[:len(rows)-1], nil
		}
		for _, w := range words {
			if exists(w) && !slices.Contains(last.packages, w) {
				last.packages = append(last.packages, w)
			}
		}
	}
	return nil, errors.New("the picture of the layers has no row aside")
}

// rowHelp says what a row is, in few words.
var rowHelp = map[string]string{
	"binaries": "flags, signals, wiring", "assembly": "what a binary runs", "pages": "for operators", "parts": "what they share",
	"producers": "candidates to publish", "seam": "what is served to whom", "serving": "conditional HTTP", "answers": "what became of an object",
	"pure": "no I/O, clock or log", "rules": "one object to its routes", "words": "guard, wire and names", "data": "what was read, versions", "language": "standard library only",
}

// layersPicture shows the rows of packages, the highest at the top.
func layersPicture(architecture string, exists func(name string) bool) (*picture, error) {
	rows, err := readRows(architecture, exists)
	if err != nil {
		return nil, err
	}
	p := &picture{title: "The layers: a package imports only packages of lower rows"}
	y := 20
	var names []string
	for _, r := range rows {
		help, known := rowHelp[r.name]
		if !known || len(r.packages) == 0 {
			return nil, fmt.Errorf("row %q: %d packages, described: %v", r.name, len(r.packages), known)
		}
		lines := wrap(r.packages, 350)
		h := 20 + lineHeight*max(2, len(lines))
		class := "box"
		if r.name == "seam" {
			class = "own"
		}
		p.frame(class, 44, y, 576, h, r.name)
		in := len(p.boxes) - 1
		middle := y + h/2
		p.write("text", "start", 58, middle-4, in, r.name)
		p.write("small", "start", 58, middle+16, in, help)
		for i, line := range lines {
			p.write("small", "start", 262, middle+5-lineHeight*(len(lines)-1)/2+i*lineHeight, in, line)
		}
		y += h + 8
		names = append(names, r.name)
	}
	p.height = y + 12
	p.down("line", 26, 24, y-12)
	p.desc = "From the top: " + strings.Join(names, ", ") + ". Imports point down."
	return p, nil
}

// wrap joins names to lines no wider than the width.
func wrap(names []string, width int) []string {
	var lines []string
	for _, name := range names {
		if n := len(lines); n > 0 && widthOf("small", lines[n-1]+", "+name) <= width {
			lines[n-1] += ", " + name
		} else {
			lines = append(lines, name)
		}
	}
	return lines
}
