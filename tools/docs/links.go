package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// checkLinks requires that every relative link in every document below root has a target: an existing file or folder, and, if it
// has an anchor, a heading of that document. It does not check external links. Diagrams must be files, because the site loads no renderer.
func checkLinks(root string) error {
	all, err := documentFiles(root)
	if err != nil {
		return err
	}
	var errs []error
	for _, name := range all {
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		if strings.Contains(string(text), "\n```mermaid") {
			errs = append(errs, fmt.Errorf("%s has a Mermaid diagram, which the site shows as code: draw an SVG file in docs/images", name))
		}
		for i, line := range prose(string(text)) {
			for _, target := range linksOf(line) {
				if err := checkLink(name, target); err != nil {
					errs = append(errs, fmt.Errorf("%s:%d: %w", name, i+1, err))
				}
			}
		}
	}
	return errors.Join(errs...)
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
	if !slices.Contains(anchorsOf(string(text)), anchor) {
		return fmt.Errorf("the link %s leads to no heading of %s", target, file)
	}
	return nil
}
