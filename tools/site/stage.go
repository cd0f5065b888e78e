package main

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/routesrv/routesrv/tools/markdown"
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

// checkout is what a site is made of: the root of a repository, its documents, and the branch or tag that links to other files lead to. Names of
// documents have slashes and are relative to root.
type checkout struct {
	root, ref string
	documents []string
}

// open finds the documents below root.
func open(root, ref string) (*checkout, error) {
	c := &checkout{root: root, ref: ref}
	files, err := markdown.Files(root)
	if err != nil {
		return nil, err
	}
	for _, f := range files {
		name, err := filepath.Rel(root, f)
		if err != nil {
			return nil, err
		}
		c.documents = append(c.documents, filepath.ToSlash(name))
	}
	return c, nil
}

// page returns the path of a file in the site, and false for a file that is not in the site.
func (c *checkout) page(name string) (string, bool) {
	if name == decisionsFolder {
		return decisionsPage, true
	}
	page, ok := pageOf(name)
	return page, ok && (path.Ext(name) != ".md" || slices.Contains(c.documents, name))
}

// stage writes the documents to a folder, as mkdocs wants them, and returns the navigation.
func (c *checkout) stage(to string) ([]any, error) {
	var readme string
	for _, name := range c.documents {
		text, err := os.ReadFile(filepath.Join(c.root, name))
		if err != nil {
			return nil, err
		}
		if name == "README.md" {
			readme = string(text)
		}
		rewritten, err := c.rewrite(name, string(text))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		page, _ := pageOf(name)
		if err := write(filepath.Join(to, page), []byte(rewritten)); err != nil {
			return nil, err
		}
	}
	if err := copyPictures(c.root, to); err != nil {
		return nil, err
	}
	if err := write(filepath.Join(to, decisionsPage), []byte(c.listOfDecisions())); err != nil {
		return nil, err
	}
	return c.navigation(readme)
}

// decisions returns the documents of the folder of decisions.
func (c *checkout) decisions() []string {
	var all []string
	for _, name := range c.documents {
		if path.Dir(name) == decisionsFolder {
			all = append(all, name)
		}
	}
	return all
}

// listOfDecisions is the page for links to the folder.
func (c *checkout) listOfDecisions() string {
	var b strings.Builder
	b.WriteString("# Decisions\n\nThe decisions that are not obvious, with their cost.\n\n")
	for _, d := range c.decisions() {
		fmt.Fprintf(&b, "- [%s](%s)\n", c.title(d), path.Base(d))
	}
	return b.String()
}

// title returns the first heading of a document without marks of code, and the name of the document if it has none.
func (c *checkout) title(name string) string {
	text, err := os.ReadFile(filepath.Join(c.root, name))
	if err == nil {
		for _, line := range markdown.Prose(string(text)) {
			if title, ok := markdown.Heading(line); ok {
				return strings.ReplaceAll(title, "`", "")
			}
		}
	}
	return path.Base(name)
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
