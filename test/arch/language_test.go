package arch

import (
	"go/scanner"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// banned matches phrases that once filled the comments of this repository, and the plain words for them.
var banned = []struct {
	phrase *regexp.Regexp
	plain  string
}{
	{regexp.MustCompile(`(?i)\banew\b`), "again"},
	{regexp.MustCompile(`(?i)\bunder way\b`), "in progress, running"},
	{regexp.MustCompile(`(?i)\bth(?:ose|at) (?:from|of) before\b`), "the previous ones"},
	{regexp.MustCompile(`(?i)\bmore seldom\b`), "less often"},
	{regexp.MustCompile(`(?i)\bnot any more\b`), "no longer"},
	{regexp.MustCompile(`(?i)\bfor want of\b`), "because there is no"},
	{regexp.MustCompile(`(?i)\bto and fro\b`), "back and forth"},
	{regexp.MustCompile(`(?i)\bunder the hands of\b`), "controlled by"},
	{regexp.MustCompile(`(?i)\bin the manner of\b`), "like"},
	{regexp.MustCompile(`(?i)\bscripts of chance\b`), "random scripts"},
	{regexp.MustCompile(`(?i)\bis there any more\b`), "still exists"},
	{regexp.MustCompile(`(?i)\bhas gone on\b`), "has continued"},
}

// literals are the texts that matches of the banned phrases contain.
var literals = func() (all []string) {
	for _, b := range banned {
		all = append(all, literalOf(b.phrase))
	}
	return all
}()

// TestWordsArePlain finds banned phrases in comments and string literals.
func TestWordsArePlain(t *testing.T) {
	root := filepath.Join("..", "..")
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		name = filepath.ToSlash(name)
		if d.IsDir() {
			if base := d.Name(); name != "." && (strings.HasPrefix(base, ".") || base == "testdata" || base == "artifacts") {
				return filepath.SkipDir
			}
			return nil
		}
		if filepath.Ext(name) != ".go" || name == "test/arch/language_test.go" {
			return nil
		}
		return checkWords(t, path, name)
	})
	if err != nil {
		t.Fatal(err)
	}
}

func checkWords(t *testing.T, path, name string) error {
	src, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var (
		s    scanner.Scanner
		file = token.NewFileSet().AddFile(name, -1, len(src))
	)
	s.Init(file, src, nil, scanner.ScanComments)
	for {
		pos, kind, text := s.Scan()
		switch kind {
		case token.EOF:
			return nil
		case token.COMMENT, token.STRING:
			lower := strings.ToLower(text)
			for i, b := range banned {
				if !strings.Contains(lower, literals[i]) {
					continue // with the race detector, expressions over the whole repository take ten seconds
				}
				if found := b.phrase.FindString(text); found != "" {
					t.Errorf("%s:%d: %q: better %s", name, file.Line(pos), found, b.plain)
				}
			}
		}
	}
}

var groups = regexp.MustCompile(`\([^)]*\)`)

// literalOf returns a text that every match of the phrase contains, in lower case.
func literalOf(phrase *regexp.Regexp) string {
	longest := ""
	for _, part := range strings.Split(groups.ReplaceAllString(phrase.String(), `\b`), `\b`) {
		if len(part) > len(longest) {
			longest = part
		}
	}
	return longest
}

func TestBannedPhrasesAreFound(t *testing.T) {
	for _, text := range []string{"It begins Anew.", "those of before", "That From Before it", "they are under way now", "For want of time"} {
		found := false
		for _, b := range banned {
			found = found || strings.Contains(strings.ToLower(text), literalOf(b.phrase)) && b.phrase.MatchString(text)
		}
		if !found {
			t.Errorf("%q passes", text)
		}
	}
}
