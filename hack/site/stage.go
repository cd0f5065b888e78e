package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/routesrv/routesrv/internal/markdown"
)

// sourceHost is where the repository names itself; docs/runbook.md is linked from alerts there.
const sourceHost = "https://github.com/routesrv/routesrv"

// pageOf returns the path of a document in the site, and false for a file that is no page or picture of the site. Both paths have slashes and are
// relative to their roots. Documents outside of docs get a folder, so that SECURITY.md and docs/security.md differ on every disk.
func pageOf(name string) (string, bool) {
	if name == "README.md" {
		return "index.md", true
	}
	if inDocs, ok := strings.CutPrefix(name, "docs/"); ok {
		return inDocs, path.Ext(name) != ""
	}
	if path.Ext(name) != ".md" {
		return "", false
	}
	if path.Base(name) == "README.md" {
		return path.Dir(name) + ".md", true
	}
	if path.Dir(name) == "." {
		name = strings.ToLower(name)
	}
	return path.Join("project", name), true
}

// stage writes the documents of root to a folder, as mkdocs wants them, and returns the navigation. Links to files that are no documents lead to the
// source at ref.
func stage(root, to, ref string) ([]any, error) {
	var names []string
	documents, err := markdown.Files(root)
	if err != nil {
		return nil, err
	}
	for _, d := range documents {
		name, err := filepath.Rel(root, d)
		if err != nil {
			return nil, err
		}
		names = append(names, filepath.ToSlash(name))
	}
	for _, name := range names {
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			return nil, err
		}
		page, _ := pageOf(name)
		rewritten, err := rewrite(root, name, string(text), ref)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if err := write(filepath.Join(to, page), []byte(rewritten)); err != nil {
			return nil, err
		}
	}
	if err := copyPictures(root, to); err != nil {
		return nil, err
	}
	decisions, index := decisionsIndex(names)
	if err := write(filepath.Join(to, "decisions/index.md"), []byte(index(root))); err != nil {
		return nil, err
	}
	readme, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		return nil, err
	}
	return navigation(string(readme), names, decisions)
}

// decisionsIndex returns the documents in docs/decisions, and a function that makes the page that lists them.
func decisionsIndex(names []string) ([]string, func(root string) string) {
	var decisions []string
	for _, name := range names {
		if strings.HasPrefix(name, decisionsFolder+"/") {
			decisions = append(decisions, name)
		}
	}
	return decisions, func(root string) string {
		var b strings.Builder
		b.WriteString("# Decisions\n\nThe decisions that are not obvious, with their cost.\n\n")
		for _, d := range decisions {
			fmt.Fprintf(&b, "- [%s](%s)\n", titleOf(filepath.Join(root, d)), path.Base(d))
		}
		return b.String()
	}
}

// titleOf returns the first heading of a document, and its name if there is none.
func titleOf(file string) string {
	text, err := os.ReadFile(file)
	if err == nil {
		for _, line := range markdown.Prose(string(text)) {
			if title, ok := markdown.Heading(line); ok {
				return title
			}
		}
	}
	return filepath.Base(file)
}

// copyPictures copies everything in docs that is no document.
func copyPictures(root, to string) error {
	docs := filepath.Join(root, "docs")
	return filepath.WalkDir(docs, func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(file) == ".md" {
			return err
		}
		data, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(docs, file)
		if err != nil {
			return err
		}
		return write(filepath.Join(to, name), data)
	})
}

// rewrite turns a document into what mkdocs renders in the same way as the source host: links lead to pages of the site, headings have the
// anchors that links use, and lists are indented by four.
func rewrite(root, name, text, ref string) (string, error) {
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
		lines[i] = markdown.RewriteLinks(line, func(target string) string {
			rewritten, err := linkTo(root, name, target, ref)
			errs = append(errs, err)
			return rewritten
		})
	}
	return strings.Join(indentLists(lines, prose), "\n"), errors.Join(errs...)
}

// linkTo returns what a link in the document becomes.
func linkTo(root, document, target, ref string) (string, error) {
	if strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") || strings.HasPrefix(target, "#") {
		return target, nil
	}
	file, anchor, hasAnchor := strings.Cut(target, "#")
	file = path.Join(path.Dir(document), file)
	info, err := os.Stat(filepath.Join(root, file))
	if err != nil {
		return "", fmt.Errorf("the link %s leads nowhere", target)
	}
	page, ok := pageOf(file)
	if file == decisionsFolder {
		page, ok = "decisions/index.md", true
	}
	if !ok || info.IsDir() && file != decisionsFolder {
		kind := "blob"
		if info.IsDir() {
			kind = "tree"
		}
		return sourceHost + "/" + kind + "/" + ref + "/" + file, nil
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
	for i, line := range lines {
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
