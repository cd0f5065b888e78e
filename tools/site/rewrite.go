package main

import (
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/routesrv/routesrv/tools/markdown"
)

// rewrite turns a document into what mkdocs renders in the same way as the source host: links lead to pages of the site, headings have the
// anchors that links use, and lists are indented by four.
func (c *checkout) rewrite(name, text string) (string, error) {
	lines, prose := strings.Split(text, "\n"), markdown.Prose(text)
	anchors := markdown.Anchors(text)
	var errs []error
	for i, line := range prose {
		if line == "" {
			continue // blank, or code
		}
		if _, ok := markdown.Heading(line); ok {
			line = strings.TrimRight(line, " #") + " {#" + anchors[0] + "}"
			anchors = anchors[1:]
		}
		if strings.HasPrefix(line, "|") {
			line = pipesInCode(line)
		}
		line = c.nameLinks(name, line)
		lines[i] = markdown.RewriteLinks(line, func(target string) string {
			rewritten, err := c.link(name, target)
			errs = append(errs, err)
			return rewritten
		})
	}
	return strings.Join(indentLists(lines, prose), "\n"), errors.Join(errs...)
}

// fileLink matches a link whose text is a file name. The site shows the title of the document instead.
var fileLink = regexp.MustCompile(`\[([^\]\[]+\.md)\]\(([^()\s#]+\.md)(#[^()\s]*)?\)`)

// nameLinks replaces the text of links that only names the file by the title of the document.
func (c *checkout) nameLinks(document, line string) string {
	return fileLink.ReplaceAllStringFunc(line, func(m string) string {
		parts := fileLink.FindStringSubmatch(m)
		file := path.Join(path.Dir(document), parts[2])
		if path.Base(parts[1]) != path.Base(file) || !slices.Contains(c.documents, file) {
			return m
		}
		return "[" + c.title(file) + "](" + parts[2] + parts[3] + ")"
	})
}

// link returns what the target of a link in the document becomes: the page in the site, or the file at the source host.
func (c *checkout) link(document, target string) (string, error) {
	if strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") || strings.HasPrefix(target, "#") {
		return target, nil
	}
	file, anchor, hasAnchor := strings.Cut(target, "#")
	file = path.Join(path.Dir(document), file)
	info, err := os.Stat(filepath.Join(c.root, file))
	if err != nil {
		return "", fmt.Errorf("the link %s leads nowhere", target)
	}
	page, ok := c.page(file)
	if !ok {
		kind := "blob"
		if info.IsDir() {
			kind = "tree"
		}
		return sourceHost + "/" + kind + "/" + c.ref + "/" + file, nil
	}
	from, _ := pageOf(document)
	relative, err := filepath.Rel(filepath.FromSlash(path.Dir(from)), filepath.FromSlash(page))
	if err != nil {
		return "", err
	}
	relative = filepath.ToSlash(relative)
	if hasAnchor {
		relative += "#" + anchor
	}
	return relative, nil
}

// pipesInCode takes the backslash from escaped pipes in code of a table row: the renderer needs none there and would show it.
func pipesInCode(row string) string {
	parts := strings.Split(row, "`")
	for i := 1; i < len(parts); i += 2 {
		parts[i] = strings.ReplaceAll(parts[i], `\|`, "|")
	}
	return strings.Join(parts, "`")
}

// indentLists indents what belongs to an item of a list by four, as the renderer wants it, instead of by the width of its mark, and separates a list from
// the paragraph above it. Prose has the same lines without code.
func indentLists(lines, prose []string) []string {
	var out []string
	mark := 0 // width of the mark of the current item; 0 outside of lists
	code := func(i int) bool { return prose[i] == "" && strings.TrimSpace(lines[i]) != "" }
	for i, line := range lines {
		if mark > 0 && strings.TrimSpace(line) != "" && strings.TrimSpace(lines[i-1]) != "" && code(i) != code(i-1) {
			out = append(out, "") // the renderer wants an empty line before code in an item
		}
		switch indent := len(line) - len(strings.TrimLeft(line, " ")); {
		case strings.TrimSpace(line) == "":
		case prose[i] != "" && indent == 0 && markOf(line) > 0:
			if mark == 0 && i > 0 && strings.TrimSpace(lines[i-1]) != "" {
				out = append(out, "")
			}
			mark = markOf(line)
		case mark > 0 && indent >= mark:
			line = strings.Repeat(" ", 4+indent-mark) + line[indent:]
		case mark > 0 && (prose[i] == "" || i > 0 && strings.TrimSpace(lines[i-1]) == ""):
			mark = 0
		}
		out = append(out, line)
	}
	return out
}

// markOf returns the width of the mark of a list item with the space behind it, 0 for another line.
func markOf(line string) int {
	word, _, ok := strings.Cut(line, " ")
	if !ok {
		return 0
	}
	number := strings.TrimSuffix(word, ".")
	if slices.Contains([]string{"-", "*", "+"}, word) ||
		number != word && number != "" && len(number) < 4 && strings.Trim(number, "0123456789") == "" {
		return len(word) + 1
	}
	return 0
}
