package main

import (
	"fmt"
	"io/fs"
	"path/filepath"
	"regexp"
	"strings"
)

var (
	// link matches ](target), the end of [text](target) and ![text](target).
	link = regexp.MustCompile(`\]\(([^()\s]+(?:\([^()\s]*\))?)\)`)
	// heading matches a line such as "## Name".
	heading = regexp.MustCompile(`^#{1,6} +(.*?) *#*$`)
	// linkText matches a link in a heading; its text remains.
	linkText = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
)

// documentFiles returns the paths of the documents below root, root included, in lexical order. It skips hidden folders, test data, and what
// builds and long runs write (dist, artifacts).
func documentFiles(root string) ([]string, error) {
	var names []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != root && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" || d.Name() == "artifacts" || d.Name() == "dist"):
			return filepath.SkipDir
		case !d.IsDir() && filepath.Ext(path) == ".md":
			names = append(names, path)
		}
		return nil
	})
	return names, err
}

// linksOf returns the targets of the links and images of a line.
func linksOf(line string) (targets []string) {
	for _, m := range link.FindAllStringSubmatch(line, -1) {
		targets = append(targets, m[1])
	}
	return targets
}

// prose returns the lines of a document. Lines of code blocks and their fences are empty, so that the numbers of the others stay.
func prose(text string) []string {
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

// headingOf returns the text of a line that is a heading.
func headingOf(line string) (title string, ok bool) {
	m := heading.FindStringSubmatch(line)
	if m == nil {
		return "", false
	}
	return m[1], true
}

// anchorsOf returns the anchors of the headings of a document, in its order.
func anchorsOf(text string) []string {
	var all []string
	seen := make(map[string]int)
	for _, line := range prose(text) {
		title, ok := headingOf(line)
		if !ok {
			continue
		}
		a := anchorOf(title)
		seen[a]++
		if n := seen[a]; n > 1 {
			a = fmt.Sprintf("%s-%d", a, n-1)
		}
		all = append(all, a)
	}
	return all
}

// anchorOf returns the anchor of a heading that is the first with this title: the title in lower case, with dashes for spaces and without punctuation.
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
