package main

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/xml"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"time"

	"go.yaml.in/yaml/v3"
)

// outdated is what the theme shows above the pages of a version that is not the latest.
//
//go:embed theme/main.html
var outdated []byte

// colours makes links of dark pages light enough to read.
//
//go:embed theme/site.css
var colours []byte

// build makes the pages of a version and adds them to the site in out. A site that cannot be built stays as it was.
func build(ctx context.Context, root, out, version string) (err error) {
	folder, ref := unreleased, "main"
	if _, ok := parse(version); ok {
		folder, ref = version, version
	}
	work, err := os.MkdirTemp("", "site")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	docs, theme, built := filepath.Join(work, "docs"), filepath.Join(work, "theme"), filepath.Join(work, "site")
	source, err := open(root, ref)
	if err != nil {
		return err
	}
	nav, err := source.stage(docs)
	if err != nil {
		return err
	}
	if err := errors.Join(write(filepath.Join(theme, "main.html"), outdated), write(filepath.Join(docs, "site.css"), colours)); err != nil {
		return err
	}
	configuration, err := yaml.Marshal(settings(nav, docs, theme, built))
	if err != nil {
		return err
	}
	file := filepath.Join(work, "mkdocs.yml")
	if err := write(file, configuration); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "mkdocs", "build", "--strict", "--config-file", file)
	cmd.WaitDelay = 10 * time.Second
	if output, err := cmd.CombinedOutput(); errors.Is(err, exec.ErrNotFound) {
		return errors.New("mkdocs is not installed: install the Debian packages mkdocs and mkdocs-material")
	} else if err != nil {
		return fmt.Errorf("mkdocs build --strict: %w\n%s", err, output)
	}
	// The page for unknown addresses refers to the root of a host, which this folder is not.
	if err := os.Remove(filepath.Join(built, "404.html")); err != nil {
		return err
	}
	if err := listPages(built); err != nil {
		return err
	}
	if err := replace(filepath.Join(out, folder), built); err != nil {
		return err
	}
	return writeVersions(out)
}

// settings is the configuration of mkdocs.
func settings(nav []any, docs, theme, built string) map[string]any {
	palette := func(media, scheme, icon, to string) map[string]any {
		return map[string]any{"media": "(prefers-color-scheme: " + media + ")", "scheme": scheme, "primary": "indigo",
			"toggle": map[string]string{"icon": "material/" + icon, "name": "Switch to " + to}}
	}
	return map[string]any{
		"site_name": "routesrv",
		"docs_dir":  docs, "site_dir": built, "nav": nav,
		"use_directory_urls": false, // so that links work without a web server, too
		"theme": map[string]any{
			"name": "material", "custom_dir": theme, "language": "en",
			"font":     false, // the fonts of the reader's system, and none from elsewhere
			"features": []string{"navigation.sections", "navigation.top"},
			"palette": []any{palette("light", "default", "weather-night", "dark"),
				palette("dark", "slate", "weather-sunny", "light")},
		},
		"extra_css": []string{"site.css"},
		"plugins":   []string{"search"},
		"markdown_extensions": []any{
			"attr_list", "sane_lists", "tables", "pymdownx.superfences",
			map[string]any{"pymdownx.highlight": map[string]any{"guess_lang": false}},
			map[string]any{"toc": map[string]any{"permalink": true, "toc_depth": 3}},
		},
		"extra": map[string]any{"version": map[string]string{"provider": "mike", "default": latest}},
	}
}

// listPages replaces the list of pages that mkdocs has written, which needs to know the address of the site. The menu of versions reads the list to stay on
// the same page in another version; for that, names relative to the folder are enough.
func listPages(built string) error {
	if err := os.Remove(filepath.Join(built, "sitemap.xml.gz")); err != nil {
		return err
	}
	var list bytes.Buffer
	list.WriteString(`<?xml version="1.0" encoding="UTF-8"?>` + "\n" + `<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">` + "\n")
	err := fs.WalkDir(os.DirFS(built), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || path.Ext(name) != ".html" {
			return err
		}
		list.WriteString("<url><loc>")
		if err := xml.EscapeText(&list, []byte(name)); err != nil {
			return err
		}
		list.WriteString("</loc></url>\n")
		return nil
	})
	if err != nil {
		return err
	}
	list.WriteString("</urlset>\n")
	return write(filepath.Join(built, "sitemap.xml"), list.Bytes())
}

// write makes a file and its folders.
func write(path string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, data, 0o644)
}

// replace puts a copy of the folder from where path is.
func replace(path, from string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	fresh := path + ".new"
	if err := os.RemoveAll(fresh); err != nil {
		return err
	}
	if err := os.CopyFS(fresh, os.DirFS(from)); err != nil {
		return errors.Join(err, os.RemoveAll(fresh))
	}
	if err := os.RemoveAll(path); err != nil {
		return err
	}
	return os.Rename(fresh, path)
}
