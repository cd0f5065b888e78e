package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"html/template"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Folders of the site besides those of releases: the documents of what is not released, and a copy of the newest release.
const (
	unreleased = "dev"
	latest     = "latest"
)

// semantic matches the version of a release, for instance v0.2.0 or v1.0.0-rc.1.
var semantic = regexp.MustCompile(`^v(0|[1-9]\d{0,8})\.(0|[1-9]\d{0,8})\.(0|[1-9]\d{0,8})(?:-([0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?$`)

// release is a semantic version.
type release struct {
	core [3]int
	pre  []string // empty for a final release
}

// parse reads a version. Everything that is not the name of a release gives false.
func parse(version string) (release, bool) {
	m := semantic.FindStringSubmatch(version)
	if m == nil {
		return release{}, false
	}
	var r release
	for i := range r.core {
		r.core[i], _ = strconv.Atoi(m[i+1]) // nine digits at most
	}
	if m[4] != "" {
		r.pre = strings.Split(m[4], ".")
	}
	return r, true
}

// compare orders releases as Semantic Versioning does: oldest first, and a pre-release before its release.
func (r release) compare(other release) int {
	if c := slices.Compare(r.core[:], other.core[:]); c != 0 {
		return c
	}
	if len(r.pre) == 0 || len(other.pre) == 0 {
		return cmp.Compare(len(other.pre), len(r.pre))
	}
	return slices.CompareFunc(r.pre, other.pre, func(a, b string) int {
		n, errN := strconv.Atoi(a)
		m, errM := strconv.Atoi(b)
		switch {
		case errN == nil && errM == nil:
			return cmp.Compare(n, m)
		case errN == nil:
			return -1
		case errM == nil:
			return 1
		}
		return strings.Compare(a, b)
	})
}

// entry is a version in the list that the menu of the pages reads, in the form of mike, a tool for versions of mkdocs sites.
type entry struct {
	Version string   `json:"version"`
	Title   string   `json:"title"`
	Aliases []string `json:"aliases"`
}

// versionsIn lists the versions below out, the newest first and the unreleased one last. The newest final release is the latest; while there is
// none, the first of the list is.
func versionsIn(out string) ([]entry, error) {
	folders, err := os.ReadDir(out)
	if err != nil {
		return nil, err
	}
	var all []entry
	for _, f := range folders {
		if _, ok := parse(f.Name()); f.IsDir() && (ok || f.Name() == unreleased) {
			all = append(all, entry{Version: f.Name(), Title: f.Name(), Aliases: []string{}})
		}
	}
	if len(all) == 0 {
		return nil, errors.New("the site has no version")
	}
	slices.SortFunc(all, func(a, b entry) int {
		x, okX := parse(a.Version)
		y, okY := parse(b.Version)
		if okX != okY { // one is the unreleased version
			return cmp.Compare(boolean(okY), boolean(okX))
		}
		return y.compare(x)
	})
	newest := slices.IndexFunc(all, func(e entry) bool {
		r, ok := parse(e.Version)
		return ok && len(r.pre) == 0
	})
	newest = max(newest, 0)
	all[newest].Aliases = []string{latest}
	return all, nil
}

func boolean(b bool) int {
	if b {
		return 1
	}
	return 0
}

// chooser renders the page at the root of the site, which lists the versions.
var chooser = template.Must(template.New("").Parse(`<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>routesrv: versions of the documents</title>
<style>body{font-family:system-ui,sans-serif;max-width:32rem;margin:3rem auto;padding:0 1rem;line-height:1.6}</style>
<h1>routesrv</h1>
<p><a href="latest/index.html">Documents of the latest version</a></p>
<h2>All versions</h2>
<ul>
{{- range . }}
<li><a href="{{ .Version }}/index.html">{{ .Version }}</a>{{ if .Aliases }} (latest){{ end }}</li>
{{- end }}
</ul>
</html>
`))

// writeVersions writes what belongs to no single version: the copy of the latest, the list for the menu, and the page to choose.
func writeVersions(out string) error {
	all, err := versionsIn(out)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(all, func(e entry) bool { return len(e.Aliases) > 0 })
	if err := replace(filepath.Join(out, latest), filepath.Join(out, all[i].Version)); err != nil {
		return err
	}
	list, err := json.MarshalIndent(all, "", "  ")
	if err != nil {
		return err
	}
	if err := write(filepath.Join(out, "versions.json"), append(list, '\n')); err != nil {
		return err
	}
	var page bytes.Buffer
	if err := chooser.Execute(&page, all); err != nil {
		return err
	}
	return write(filepath.Join(out, "index.html"), page.Bytes())
}
