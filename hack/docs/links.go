package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// link is [text](target) or ![text](target).
var link = regexp.MustCompile(`\]\(([^()\s]+(?:\([^()\s]*\))?)\)`)

// heading matches a line such as "## Name".
var heading = regexp.MustCompile(`^#{1,6} +(.*?) *#*$`)

// checkLinks requires that every relative link in every document below root has a target: an existing file or folder, and, if it
// has an anchor, a heading of that document. It does not check external links.
func checkLinks(root string) error {
	documents, err := markdownFiles(root)
	if err != nil {
		return err
	}
	var errs []error
	for _, name := range documents {
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		for i, line := range proseLines(string(text)) {
			for _, m := range link.FindAllStringSubmatch(line, -1) {
				if err := checkLink(name, m[1]); err != nil {
					errs = append(errs, fmt.Errorf("%s:%d: %w", name, i+1, err))
				}
			}
		}
	}
	return errors.Join(errs...)
}

// markdownFiles returns the documents below root, without hidden folders and test data.
func markdownFiles(root string) ([]string, error) {
	var names []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != root && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" || d.Name() == "artifacts"):
			return filepath.SkipDir
		case !d.IsDir() && filepath.Ext(path) == ".md":
			names = append(names, path)
		}
		return nil
	})
	return names, err
}

// checkLink requires that the target of a link in the document exists.
func checkLink(document, target string) error {
	if strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
		return nil
	}
	path, anchor, hasAnchor := strings.Cut(target, "#")
	file := document
	if path != "" {
		file = filepath.Join(filepath.Dir(document), path)
		if _, err := os.Stat(file); err != nil {
			return fmt.Errorf("the link %s leads nowhere", target)
		}
	}
	if !hasAnchor || filepath.Ext(file) != ".md" {
		return nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if !slices.Contains(anchors(string(text)), anchor) {
		return fmt.Errorf("the link %s leads to no heading of %s", target, file)
	}
	return nil
}

// anchors returns the anchors of the headings of a document, as common renderers build them.
func anchors(text string) []string {
	var all []string
	seen := make(map[string]int)
	for _, line := range proseLines(text) {
		m := heading.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		a := anchorOf(m[1])
		seen[a]++
		if n := seen[a]; n > 1 {
			a = fmt.Sprintf("%s-%d", a, n-1)
		}
		all = append(all, a)
	}
	return all
}

// linkText matches a link in a heading; its text remains.
var linkText = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)

// anchorOf returns the anchor of a heading: its text in lower case, with dashes for spaces and without punctuation.
func anchorOf(title string) string {
	title = linkText.ReplaceAllString(title, "$1")
	var b strings.Builder
	for _, r := range strings.ToLower(title) {
		switch {
		case r == ' ':
			b.WriteByte('-')
		case r == '-' || r == '_' || r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r > 127:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// proseLines returns the lines of a document. Lines of code blocks are emptied, so that line numbers stay correct.
func proseLines(text string) []string {
	lines := strings.Split(text, "\n")
	fence := ""
	for i, line := range lines {
		trimmed := strings.TrimSpace(line)
		switch {
		case fence == "" && (strings.HasPrefix(trimmed, "```") || strings.HasPrefix(trimmed, "~~~")):
			fence = trimmed[:3]
		case fence != "" && strings.HasPrefix(trimmed, fence):
			fence = ""
		case fence == "":
			continue
		}
		lines[i] = ""
	}
	return lines
}
