package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
)

// Some documents are written by hand except for parts between two markers; the first marker names the content.
var generatedPart = regexp.MustCompile(`(?s)<!-- generated: ([^>]*?) -->\n.*?<!-- end -->`)

// allParts returns the parts by name, in Markdown.
func allParts() (map[string]string, error) {
	parts, err := endpointParts()
	if err != nil {
		return nil, err
	}
	maps.Copy(parts, reasonParts())
	return parts, nil
}

// documentsWithParts returns a writer for each document with markers, which writes the document with new parts. Every part must
// occur in a document, and every marker must name a part.
func documentsWithParts() (map[string]func(io.Writer) error, error) {
	parts, err := allParts()
	if err != nil {
		return nil, err
	}
	names, err := filepath.Glob("docs/*/*.md")
	if err != nil {
		return nil, err
	}
	var errs []error
	used := make(map[string]bool)
	documents := make(map[string]func(io.Writer) error)
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		found := generatedPart.FindAllSubmatch(text, -1)
		for _, m := range found {
			used[string(m[1])] = true
			if _, ok := parts[string(m[1])]; !ok {
				errs = append(errs, fmt.Errorf("%s: nothing is called %q: there are %q", name, m[1], slices.Sorted(maps.Keys(parts))))
			}
		}
		if len(found) > 0 {
			documents[name] = func(w io.Writer) error {
				_, err := w.Write(fill(text, parts))
				return err
			}
		}
	}
	for _, part := range slices.Sorted(maps.Keys(parts)) {
		if !used[part] {
			errs = append(errs, fmt.Errorf("no document has the marker <!-- generated: %s -->", part))
		}
	}
	return documents, errors.Join(errs...)
}

// fill inserts the parts between their markers.
func fill(text []byte, parts map[string]string) []byte {
	return generatedPart.ReplaceAllFunc(text, func(found []byte) []byte {
		name := string(generatedPart.FindSubmatch(found)[1])
		return bytes.Join([][]byte{
			[]byte("<!-- generated: " + name + " -->\n"), []byte(parts[name]), []byte("<!-- end -->"),
		}, []byte("\n"))
	})
}
