package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/routesrv/routesrv/internal/markdown"
)

// checkLinks wants every relative link of every document below root to lead somewhere: to a file or folder that exists,
// and, if it has an anchor, to a heading of that document. What is out on the net is not asked.
func checkLinks(root string) error {
	documents, err := markdown.Files(root)
	if err != nil {
		return err
	}
	var errs []error
	for _, name := range documents {
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		for i, line := range markdown.Prose(string(text)) {
			markdown.RewriteLinks(line, func(target string) string {
				if err := checkLink(name, target); err != nil {
					errs = append(errs, fmt.Errorf("%s:%d: %w", name, i+1, err))
				}
				return target
			})
		}
	}
	return errors.Join(errs...)
}

// checkLink wants the target of a link in the document to exist.
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
	if !slices.Contains(markdown.Anchors(string(text)), anchor) {
		return fmt.Errorf("the link %s leads to no heading of %s", target, file)
	}
	return nil
}
