// Package markdown reads the documents of the repository as the usual renderers do: which lines are prose, where links lead, and
// which anchors headings have. The checks of documents and the site use it. It is safe for concurrent use.
package markdown

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

// Files returns the paths of the documents below root, root included, in lexical order. It skips hidden folders, test data, and what
// builds and long runs write (dist, artifacts).
func Files(root string) ([]string, error) {
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

// RewriteLinks returns the line with the target of each link and image replaced by what rewrite returns for it.
func RewriteLinks(line string, rewrite func(target string) string) string {
	return link.ReplaceAllStringFunc(line, func(m string) string {
		return "](" + rewrite(m[2:len(m)-1]) + ")"
	})
}

// Prose returns the lines of a document. Lines of code blocks and their fences are empty, so that the numbers of the others stay.
func Prose(text string) []string {
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

// Heading returns the text of a line that is a heading.
func Heading(line string) (title string, ok bool) {
	m := heading.FindStringSubmatch(line)
	if m == nil {
		return "", false
	}
	return m[1], true
}

// Anchors returns the anchors of the headings of a document, in its order.
func Anchors(text string) []string {
	var all []string
	seen := make(map[string]int)
	for _, line := range Prose(text) {
		title, ok := Heading(line)
		if !ok {
			continue
		}
		a := Anchor(title)
		seen[a]++
		if n := seen[a]; n > 1 {
			a = fmt.Sprintf("%s-%d", a, n-1)
		}
		all = append(all, a)
	}
	return all
}

// Anchor returns the anchor of a heading that is the first with this title: the title in lower case, with dashes for spaces and without punctuation.
func Anchor(title string) string {
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
