//go:build linux

package release_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/routesrv/routesrv/internal/release"
)

// smallSources writes sources of the same form as ours, which compile in seconds: the programs only print their version, and have one
// other module linked into them. What is not compiled is ours: the Dockerfile, the license and the manifests.
func smallSources(t *testing.T) string {
	t.Helper()
	const ours = "../.."
	dir := t.TempDir()
	for _, name := range []string{"Dockerfile", "LICENSE"} {
		writeSource(t, dir, name, string(readSource(t, ours, name)))
	}
	if err := os.CopyFS(filepath.Join(dir, "deploy", "kustomize"), os.DirFS(filepath.Join(ours, "deploy", "kustomize"))); err != nil {
		t.Fatal(err)
	}
	// A module that ours needs as well, so that the machine has it.
	const other = "github.com/beorn7/perks"
	sums := regexp.MustCompile(`(?m)^`+regexp.QuoteMeta(other)+` (v[0-9.]+)(/go.mod)? .*\n`).FindAllStringSubmatch(string(readSource(t, ours, "go.sum")), -1)
	if len(sums) != 2 {
		t.Fatalf("go.sum has %q of %s", sums, other)
	}
	writeSource(t, dir, "go.mod", "module github.com/routesrv/routesrv\n\ngo 1.26.0\n\nrequire "+other+" "+sums[0][1]+"\n")
	writeSource(t, dir, "go.sum", sums[0][0]+sums[1][0])
	for _, name := range append(release.Binaries[:], release.Plugin) {
		writeSource(t, dir, "cmd/"+name+"/main.go", strings.ReplaceAll(smallProgram, "NAME", name))
	}
	writeSource(t, dir, "CHANGELOG.md", "# Changelog\n\n## Unreleased\n\n- Something new ([docs](docs/new.md#here)).\n\n## v0.0.0 (2026-01-01)\n\n- Old.\n")
	return dir
}

const smallProgram = `package main

import (
	"os"

	"github.com/beorn7/perks/quantile"
)

var version = "devel"

func main() {
	q := quantile.NewTargeted(map[float64]float64{0.5: 0.05})
	q.Insert(1)
	if q.Count() == 1 {
		os.Stdout.WriteString("NAME " + version + " of a test\n")
	}
}
`

func readSource(t *testing.T, path ...string) []byte {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(path...))
	if err != nil {
		t.Fatal(err)
	}
	return content
}

func writeSource(t *testing.T, dir, name, text string) {
	t.Helper()
	path := filepath.Join(dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
