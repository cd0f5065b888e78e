package publish_test

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/routesrv/routesrv/internal/image"
	"github.com/routesrv/routesrv/internal/release"
	"github.com/routesrv/routesrv/internal/release/publish"
)

const version = "v0.0.1-test"

// statement stands for the provenance, whose content package release tests.
const statement = `{
  "_type": "https://in-toto.io/Statement/v1",
  "subject": [{"name": "a <file>", "digest": {"sha256": "00"}}],
  "predicateType": "https://slsa.dev/provenance/v1",
  "predicate": {}
}
`

// smallRelease makes a release of an image for two architectures with one small file each.
func smallRelease(t *testing.T) string {
	t.Helper()
	dir, work := t.TempDir(), t.TempDir()
	write(t, filepath.Join(work, "program"), "a program")
	recipe := &image.Recipe{Files: []image.File{{From: "program", Path: "/program", Mode: 0o555}}, Entrypoint: []string{"/program"}}
	var images []v1.Image
	for _, arch := range []string{"amd64", "arm64"} {
		img, err := image.Build(recipe, arch, work, time.Unix(1_795_000_000, 0))
		if err != nil {
			t.Fatal(err)
		}
		images = append(images, img)
	}
	layout := filepath.Join(work, "image")
	if err := image.WriteLayout(layout, version, images); err != nil {
		t.Fatal(err)
	}
	manifests, err := mutate.AppendLayers(empty.Image, static.NewLayer([]byte("manifests"), types.OCIUncompressedLayer))
	if err != nil {
		t.Fatal(err)
	}
	artifacts := filepath.Join(work, "manifests")
	if err := image.WriteArtifacts(artifacts, []image.Named{{Ref: version, Image: manifests}}); err != nil {
		t.Fatal(err)
	}
	for file, from := range map[string]string{release.ImageFile(version): layout, release.ManifestsFile(version): artifacts} {
		if err := release.WriteTar(filepath.Join(dir, file), from); err != nil {
			t.Fatal(err)
		}
	}
	write(t, filepath.Join(dir, release.ProvenanceFile(version)), statement)
	writeSums(t, dir)
	return dir
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, path ...string) []byte {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(path...))
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// writeSums writes the checksums of all files of a folder.
func writeSums(t *testing.T, dir string) {
	t.Helper()
	var sums strings.Builder
	for _, name := range names(t, dir) {
		fmt.Fprintf(&sums, "%x  %s\n", sha256.Sum256(read(t, dir, name)), name)
	}
	write(t, filepath.Join(dir, release.Sums), sums.String())
}

func names(t *testing.T, dir string) (all []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		all = append(all, e.Name())
	}
	slices.Sort(all)
	return all
}

func TestOnlyAWholeReleaseIsTaken(t *testing.T) {
	for name, damage := range map[string]func(t *testing.T, dir string){
		"has SHA-256":                   func(t *testing.T, dir string) { write(t, filepath.Join(dir, release.ProvenanceFile(version)), "{}") },
		"is not part of the release":    func(t *testing.T, dir string) { write(t, filepath.Join(dir, "other.tar.gz"), "") },
		"other.sig is not part of":      func(t *testing.T, dir string) { write(t, filepath.Join(dir, "other.sig"), "") },
		"no such file":                  func(t *testing.T, dir string) { os.Remove(filepath.Join(dir, release.ImageFile(version))) },
		"SHA256SUMS: no such file":      func(t *testing.T, dir string) { os.Remove(filepath.Join(dir, release.Sums)) },
		"want SHA-256":                  func(t *testing.T, dir string) { write(t, filepath.Join(dir, release.Sums), "0  a/b\n") },
		"names no image, manifests and": func(t *testing.T, dir string) { write(t, filepath.Join(dir, release.Sums), "") },
	} {
		dir := smallRelease(t)
		damage(t, dir)
		if _, err := publish.Open(dir); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("error %v, want %q in it", err, name)
		}
	}
	r, err := publish.Open(smallRelease(t))
	if err != nil || r.Version() != version {
		t.Errorf("version %+v, %v", r, err)
	}
}

func TestFilesOutsideOfTheFolderAreNotTaken(t *testing.T) {
	dir := smallRelease(t)
	outside := filepath.Join(filepath.Dir(dir), "outside")
	write(t, outside, "text")
	write(t, filepath.Join(dir, release.Sums), fmt.Sprintf("%x  ../outside\n", sha256.Sum256([]byte("text"))))
	if _, err := publish.Open(dir); err == nil || !strings.Contains(err.Error(), "../outside") {
		t.Errorf("error %v", err)
	}
}
