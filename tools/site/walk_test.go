package main

import (
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/html"
)

// page is what the links of a site need of a page.
type page struct {
	ids   map[string]bool
	links []reference
	text  strings.Builder // outside of code
}

// reference is a link, or something that a browser loads.
type reference struct {
	to     string
	loaded bool
}

// read reads a page.
func read(t *testing.T, file string) *page {
	t.Helper()
	in, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	root, err := html.Parse(in)
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	p := &page{ids: map[string]bool{"": true}}
	for n := range root.Descendants() {
		if n.Type == html.TextNode && !within(n, "pre", "code", "script", "style") {
			p.text.WriteString(n.Data + "\n")
			if (n.Parent.Data == "p" || n.Parent.Data == "li") && item.MatchString(n.Data) {
				p.text.WriteString("- an item: " + n.Data + "\n")
			}
		}
		for _, a := range n.Attr {
			switch {
			case a.Key == "id" || a.Key == "name" && n.Data == "a":
				p.ids[a.Val] = true
			case a.Key == "href" && n.Data == "a":
				p.links = append(p.links, reference{a.Val, false})
			case a.Key == "href" || a.Key == "src" || a.Key == "data":
				p.links = append(p.links, reference{a.Val, true})
			case a.Key == "srcset":
				p.links = append(p.links, reference{"srcset:" + a.Val, true}) // a fault: it would have to be read
			}
		}
	}
	return p
}

func within(n *html.Node, names ...string) bool {
	for p := range n.Ancestors() {
		if slices.Contains(names, p.Data) {
			return true
		}
	}
	return false
}

// loadedByStyle is what a style sheet loads, outside of data.
var loadedByStyle = regexp.MustCompile(`(?:url\(|@import)\s*["']?(?:https?:)?//`)

// item is an item of a list that has become text.
var item = regexp.MustCompile(`^\s*\d+\. `)

// unrendered is Markdown that has become text.
var unrendered = regexp.MustCompile("(?m)^(?:```|- \\S|\\|[ -]|#{1,6} )|\\{#|\\]\\(|\\*\\*\\w")

// walk reads every page below out and follows every link in it. Links to the source must lead to what is in the repository, unless
// that is empty. It returns the number of pages and what is wrong.
func walk(t *testing.T, out, repository string) (n int, faults []string) {
	t.Helper()
	fault := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	pages := map[string]*page{}
	err := filepath.WalkDir(out, func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		switch filepath.Ext(file) {
		case ".html":
			pages[file] = read(t, file)
		case ".css", ".svg":
			text, err := os.ReadFile(file)
			if err != nil {
				return err
			}
			if found := loadedByStyle.Find(text); found != nil {
				fault("%s loads %s", file, found)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	followed := 0
	for file, p := range pages {
		if found := unrendered.FindString(p.text.String()); found != "" {
			fault("%s shows %q", file, found)
		}
		for _, l := range p.links {
			to, err := url.Parse(l.to)
			if err != nil {
				fault("%s: %v", file, err)
				continue
			}
			if to.IsAbs() || to.Host != "" {
				inSource, isSource := strings.CutPrefix(l.to, sourceHost+"/")
				if l.loaded && to.Scheme != "data" {
					fault("%s loads %s", file, l.to)
				}
				if isSource && repository != "" {
					// blob/v0.1.0/folder/file
					parts := strings.SplitN(inSource, "/", 3)
					if len(parts) == 3 && (parts[0] == "blob" || parts[0] == "tree") {
						if _, err := os.Stat(filepath.Join(repository, parts[2])); err != nil {
							fault("%s links to %s: %v", file, l.to, err)
						}
					}
				}
				continue
			}
			followed++
			target := file
			if to.Path != "" {
				target = filepath.Join(filepath.Dir(file), filepath.FromSlash(to.Path))
			}
			info, err := os.Stat(target)
			if err == nil && info.IsDir() {
				target = filepath.Join(target, "index.html")
				_, err = os.Stat(target)
			}
			if err != nil {
				fault("%s links to %s: %v", file, l.to, err)
			} else if other := pages[target]; other != nil && !other.ids[to.Fragment] {
				fault("%s links to %s, which has no such anchor", file, l.to)
			}
		}
	}
	if followed < len(pages) {
		fault("%d links in %d pages", followed, len(pages))
	}
	return len(pages), faults
}

func TestWalkFindsFaults(t *testing.T) {
	const fine = `<a href="b.html#x">b</a> <a href="#top">c</a> <p id="top"> <a href="https://example.org/">d</a> <img src="p.svg"> <a href="sub/">e</a>`
	for name, c := range map[string]struct{ page, style, want string }{
		"nothing":                   {fine, "", ""},
		"a dead link":               {`<a href="gone.html">x</a>`, "", "gone.html"},
		"a dead anchor":             {`<a href="b.html#gone">x</a>`, "", "no such anchor"},
		"a dead anchor of the page": {`<a href="#gone">x</a>`, "", "no such anchor"},
		"a picture that is missing": {`<img src="q.svg">`, "", "q.svg"},
		"a script from elsewhere":   {`<script src="https://example.org/x.js"></script>`, "", "loads https://example.org/x.js"},
		"a font from elsewhere":     {`<link rel="stylesheet" href="//example.org/x.css">`, "", "loads //example.org/x.css"},
		"a style from elsewhere":    {"", `a{background:url("https://example.org/x")}`, "loads url("},
		"a file that is not there":  {`<a href="` + sourceHost + `/blob/main/gone.go">x</a>`, "", "gone.go"},
		"Markdown as text":          {"<p>see [x](y.md)</p>", "", `shows "]("`},
		"Markdown in code":          {"<p><code>[x](y.md)</code></p>", "", ""},
		"an item as text":           {"<ol><li>x<pre>y</pre>\n2. z</li></ol>", "", `shows "- `},
		"several sizes":             {`<img srcset="p.svg 2x">`, "", "srcset"},
	} {
		out := folder(t, map[string]string{"a.html": "<html><body>" + fine + c.page, "b.html": `<p id="x"><a href="a.html">a</a>`, "p.svg": "<svg/>", "s.css": c.style, "sub/index.html": `<a href="../a.html">a</a>`})
		n, faults := walk(t, out, "../..")
		if all := strings.Join(faults, "\n"); n != 3 || (c.want == "") != (all == "") || !strings.Contains(all, c.want) {
			t.Errorf("%s: %d pages, %q, want %q", name, n, all, c.want)
		}
	}
}
