package release

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// changelog is the file that the release notes are taken from.
const changelog = "CHANGELOG.md"

var (
	// released matches a version that has its own section in the changelog. Versions with a suffix, such as
	// v0.2.0-rc.1 or the output of git describe, may have one.
	released = regexp.MustCompile(`^v(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)$`)
	// localLink matches a link to a file of the sources, or to a heading in one.
	localLink = regexp.MustCompile(`\]\(([^)#:]+)(#[^)]*)?\)`)
)

// Notes returns the changelog's text about the version: its section or, for a version with a suffix and without a
// section, the section "Unreleased". It turns links to files into links to the files of that version, because the
// notes are read elsewhere. It joins each paragraph into one line, because code hosts keep the line breaks of release
// notes. A version without a suffix needs a section with text.
func Notes(c Config) ([]byte, error) {
	text, err := os.ReadFile(filepath.Join(c.Source, changelog))
	if err != nil {
		return nil, err
	}
	body, found := section(string(text), c.Version)
	if !found && !released.MatchString(c.Version) {
		body, found = section(string(text), "Unreleased")
	}
	if !found {
		return nil, fmt.Errorf("%s has no section %q: move the lines of Unreleased there", changelog, "## "+c.Version)
	}
	if body == "" && !released.MatchString(c.Version) {
		body = "No changes are listed." // a build between releases
	}
	if body == "" {
		return nil, fmt.Errorf("%s: the section of %s is empty", changelog, c.Version)
	}
	body = unwrap(body)
	body = localLink.ReplaceAllString(body, "](https://"+ourModule+"/blob/"+c.Version+"/$1$2)")
	var out bytes.Buffer
	fmt.Fprintf(&out, "# routesrv %s\n\n%s\n\n", c.Version, body)
	fmt.Fprintf(&out, "[docs/release.md](https://%s/blob/%s/docs/release.md) says what each file is and how to verify it.\n", ourModule, c.Version)
	return out.Bytes(), nil
}

// section returns the text below the heading "## NAME". A date may follow the name.
func section(text, name string) (body string, found bool) {
	var lines []string
	for line := range strings.Lines(text) {
		if heading, ok := strings.CutPrefix(line, "## "); ok {
			if found {
				break
			}
			words := strings.Fields(heading)
			found = len(words) > 0 && words[0] == name
			continue
		}
		if found {
			lines = append(lines, line)
		}
	}
	return strings.TrimSpace(strings.Join(lines, "")), found
}

// block matches the beginning of a line that does not continue the previous one: of a list, heading, table, quotation
// or code block.
var block = regexp.MustCompile("^ *([-*] |[>|]|#+ |\\d+\\. |```|$)")

// unwrap joins the lines of each paragraph and of each list item. Code blocks stay unchanged.
func unwrap(text string) string {
	var lines []string
	inCode := false
	for line := range strings.SplitSeq(text, "\n") {
		fence := strings.HasPrefix(strings.TrimSpace(line), "```")
		joins := len(lines) > 0 && !inCode && !block.MatchString(line) && strings.TrimSpace(lines[len(lines)-1]) != "" &&
			!strings.HasPrefix(strings.TrimSpace(lines[len(lines)-1]), "```") && !strings.HasPrefix(lines[len(lines)-1], "#")
		if joins {
			lines[len(lines)-1] += " " + strings.TrimSpace(line)
		} else {
			lines = append(lines, line)
		}
		if fence {
			inCode = !inCode
		}
	}
	return strings.Join(lines, "\n")
}
