package main

import (
	"bytes"
	"errors"
	"fmt"
	"go/scanner"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// maxTranslated is how many lines may have a phrase of [phrases]. Lower it with every rewrite; never raise it.
const maxTranslated = 30

// A phrase often reads as translated. Some uses are right, so the check only limits their number.
type phrase struct {
	name   string
	match  *regexp.Regexp
	unless *regexp.Regexp // of the text from the match to the end of the line
}

var phrases = []phrase{
	{name: "people as filler: name the component", match: regexp.MustCompile(`(?i)\b(?:no|some|any)body\b|\bwhoever\b`)},
	{
		name: "a clause as the subject: name the actor",
		match: regexp.MustCompile(`(?:^|[.:;,(] |// )(?:[Ww]ho|[Ww]hat) ` +
			`(?:is|was|has|had|does|asks?|asked|reads?|needs?|knows?|goes|comes|came|gets|got|it|they)\b`),
		unless: regexp.MustCompile(`^[^.]*\?`),
	},
	{
		name: "is there, is gone: exists, was deleted, ended", match: regexp.MustCompile(`\b(?:is|are|was|were|be) (?:there|gone)\b`),
		unless: regexp.MustCompile(`^\w+ there (?:an?|any|are|is|no|was)\b`),
	},
	{name: "of its own: its own, separate", match: regexp.MustCompile(`\bof (?:her|its|our|their) own\b`)},
	{
		name:  "lives with, goes on: keeps, continues",
		match: regexp.MustCompile(`\blive[sd]? with\b|\b(?:go|goes|went) on\b|\bstands? (?:alone|beside|somewhere|there|twice)\b|\b(?:had \w+|was there) first\b`),
	},
	{name: "want: must be", match: regexp.MustCompile(`"[^"]*\bwant(?:ed|s)? (?:an?|at|from|no|one|only|the|two|\d)\b`)},
	{name: "that of: repeat the noun", match: regexp.MustCompile(`\bth(?:at|ose) of (?:all|an?|its|other|the)\b`)},
	{name: "of which: two sentences", match: regexp.MustCompile(`\bof wh(?:ich|om|ose)\b|\bdie[sd]? (?:twice )?of\b`)},
	{name: "no more: no longer", match: regexp.MustCompile(`\bno (?:\w+ )?(?:any )?more\b|\bany more\b|\bno longer any\b`)},
	{name: "takes away, gives back: removes, restores", match: regexp.MustCompile(`\b(?:takes?|took|gives?|gave) (?:\w+ ){0,3}(?:away|in turn)\b`)},
	{name: "is said, says so: is reported, logs", match: regexp.MustCompile(`\b(?:is|are|was|were) said\b|\bsays (?:no|so|that|what|which|why)\b`)},
	{name: "by itself: alone, automatically", match: regexp.MustCompile(`\bby (?:itself|themselves)\b`)},
}

// translated names what is wrong with a line; "" if nothing is.
func translated(line string) string {
	for _, p := range phrases {
		if at := p.match.FindStringIndex(line); at != nil && (p.unless == nil || !p.unless.MatchString(strings.TrimLeft(line[at[0]:], ".:;,(/ "))) {
			return p.name
		}
	}
	return ""
}

// foreign are the files that quote others, keep what was once released, or have these phrases as data.
var foreign = regexp.MustCompile(`(?:^|/)(?:testdata|test|artifacts|dist)/|_test\.go$|golden|(?:filters|predicates)\.txt$|^CHANGELOG\.md$|^tools/docs/language\.go$`)

// checkLanguage limits the lines of comments, texts, manifests and documents that read as translated.
func checkLanguage() error {
	var found []error
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != "." && strings.HasPrefix(d.Name(), "."):
			return filepath.SkipDir
		case d.IsDir() || foreign.MatchString(path):
			return nil
		}
		switch filepath.Ext(path) {
		default:
			return nil
		case ".go", ".md", ".yaml", ".txt":
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if filepath.Ext(path) == ".go" {
			text = wordsOf(text)
		}
		number := 0
		for line := range strings.Lines(string(text)) {
			number++
			if name := translated(strings.TrimSpace(line)); name != "" {
				found = append(found, fmt.Errorf("%s:%d: %s: %s", path, number, name, strings.TrimSpace(line)))
			}
		}
		return nil
	})
	if err != nil || len(found) <= maxTranslated {
		return err
	}
	return errors.Join(append(found, fmt.Errorf("%d lines read as translated, and %d may: rewrite some of them", len(found), maxTranslated))...)
}

// wordsOf returns the comments and texts of a Go file, on their lines.
func wordsOf(src []byte) []byte {
	var (
		s    scanner.Scanner
		out  bytes.Buffer
		file = token.NewFileSet().AddFile("", -1, len(src))
		line = 1
	)
	s.Init(file, src, nil, scanner.ScanComments)
	for {
		pos, kind, text := s.Scan()
		if kind == token.EOF {
			return out.Bytes()
		}
		if kind != token.COMMENT && (kind != token.STRING || !strings.Contains(text, " ")) {
			continue
		}
		for ; line < file.Line(pos); line++ {
			out.WriteByte('\n')
		}
		out.WriteString(" " + text)
		line += strings.Count(text, "\n")
	}
}
