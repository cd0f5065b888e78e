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
		if filepath.Ext(name) != ".go" || name == "internal/arch/language_test.go" {
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
			for _, b := range banned {
				if found := b.phrase.FindString(text); found != "" {
					t.Errorf("%s:%d: %q: better %s", name, file.Line(pos), found, b.plain)
				}
			}
		}
	}
}
