package main

import (
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/routesrv/routesrv/tools/markdown"
)

// decisionsFolder is a folder that documents link to as a whole; the site has a page for it and one for each decision.
const (
	decisionsFolder = "docs/decisions"
	decisionsPage   = "decisions/index.md"
)

// group matches a row of the table in README.md that names a group of documents.
var group = regexp.MustCompile(`^\| \*\*(.+?)\*\* \|`)

// navigation returns the menu of the site: the groups of the table "Documentation" of README.md with their documents, in its order. Documents that the
// table does not name cannot be found by readers, so they are an error.
func (c *checkout) navigation(readme string) ([]any, error) {
	type section struct {
		name  string
		pages []any
	}
	var sections []*section
	named := []string{"README.md"}
	inTable := false
	for _, line := range markdown.Prose(readme) {
		if title, ok := markdown.Heading(line); ok {
			inTable = title == "Documentation"
		}
		if !inTable {
			continue
		}
		if m := group.FindStringSubmatch(line); m != nil {
			sections = append(sections, &section{name: m[1]})
			continue
		}
		markdown.RewriteLinks(line, func(target string) string {
			target, _, _ = strings.Cut(target, "#")
			page, ok := pageOf(target)
			if len(sections) == 0 || slices.Contains(named, target) {
				return target
			}
			last := sections[len(sections)-1]
			switch {
			case target == decisionsFolder:
				pages := []any{map[string]any{"All decisions": decisionsPage}}
				for _, d := range c.decisions() {
					p, _ := pageOf(d)
					pages = append(pages, map[string]any{c.title(d): p})
				}
				last.pages = append(last.pages, map[string]any{"Decisions": pages})
				named = append(named, c.decisions()...)
			case ok && path.Ext(target) == ".md":
				last.pages = append(last.pages, map[string]any{c.title(target): page})
				named = append(named, target)
			}
			return target
		})
	}
	var errs []error
	for _, d := range c.documents {
		if !slices.Contains(named, d) {
			errs = append(errs, fmt.Errorf("%s is not in the table Documentation of README.md", d))
		}
	}
	nav := []any{map[string]any{"Home": "index.md"}}
	for _, s := range sections {
		if len(s.pages) == 0 {
			errs = append(errs, fmt.Errorf("README.md: the group %s has no document", s.name))
		}
		nav = append(nav, map[string]any{s.name: s.pages})
	}
	if len(sections) == 0 {
		errs = append(errs, errors.New("README.md has no table Documentation with groups"))
	}
	return nav, errors.Join(errs...)
}
