// Command pictures draws the pictures of the documents in docs/images: the modes of a data plane, what happens on a change,
// the trip of one object and the layers. Times come from docs/performance.md and the layers from ARCHITECTURE.md, so that
// a picture cannot say something else. With -check it writes nothing and fails if a picture is not what it would draw.
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	check := flag.Bool("check", false, "fail if a picture is stale, and write nothing")
	root := flag.String("root", ".", "root of the repository")
	flag.Parse()
	if err := run(*root, *check); err != nil {
		fmt.Fprintln(os.Stderr, "pictures:", err)
		os.Exit(1)
	}
}

// draw draws all pictures, by file name.
func draw(root string) (map[string]*picture, error) {
	performance, err := os.ReadFile(filepath.Join(root, "docs/performance.md"))
	if err != nil {
		return nil, err
	}
	change, err := changePicture(string(performance))
	if err != nil {
		return nil, fmt.Errorf("docs/performance.md: %w", err)
	}
	architecture, err := os.ReadFile(filepath.Join(root, "ARCHITECTURE.md"))
	if err != nil {
		return nil, err
	}
	layers, err := layersPicture(string(architecture), func(name string) bool {
		for _, folder := range []string{"", "internal"} {
			if files, err := filepath.Glob(filepath.Join(root, folder, filepath.FromSlash(name), "*.go")); err == nil && len(files) > 0 {
				return true
			}
		}
		return false
	})
	if err != nil {
		return nil, fmt.Errorf("ARCHITECTURE.md: %w", err)
	}
	return map[string]*picture{"modes.svg": modesPicture(), "change.svg": change, "trip.svg": tripPicture(), "layers.svg": layers}, nil
}

func run(root string, check bool) error {
	pictures, err := draw(root)
	if err != nil {
		return err
	}
	var errs []error
	for name, p := range pictures {
		path := filepath.Join(root, "docs/images", name)
		if !check {
			errs = append(errs, os.WriteFile(path, p.svg(), 0o644))
			continue
		}
		if have, err := os.ReadFile(path); err != nil {
			errs = append(errs, err)
		} else if !bytes.Equal(have, p.svg()) {
			errs = append(errs, fmt.Errorf("%s is stale: run make docs", path))
		}
	}
	return errors.Join(errs...)
}
