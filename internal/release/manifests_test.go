//go:build linux

package release_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/routesrv/routesrv/internal/release"
)

// wantManifests reads the artifact as Flux does, as JSON and files.
func wantManifests(t *testing.T, c release.Config, dir string) {
	layout := unpacked(t, filepath.Join(dir, release.ManifestsFile(c.Version)))
	type descriptor struct {
		MediaType, Digest string
		Annotations       map[string]string
	}
	var index struct{ Manifests []descriptor }
	blob := func(digest string) []byte {
		return readSource(t, layout, "blobs", "sha256", strings.TrimPrefix(digest, "sha256:"))
	}
	decode(t, readSource(t, layout, "index.json"), &index)
	if len(index.Manifests) != 1 || index.Manifests[0].Annotations["org.opencontainers.image.ref.name"] != c.Version {
		t.Fatalf("index %+v", index)
	}
	var manifest struct {
		MediaType   string
		Config      descriptor
		Layers      []descriptor
		Annotations map[string]string
	}
	decode(t, blob(index.Manifests[0].Digest), &manifest)
	if manifest.MediaType != "application/vnd.oci.image.manifest.v1+json" || len(manifest.Layers) != 1 ||
		manifest.Config.MediaType != "application/vnd.cncf.flux.config.v1+json" ||
		manifest.Layers[0].MediaType != "application/vnd.cncf.flux.content.v1.tar+gzip" {
		t.Fatalf("manifest %+v", manifest)
	}
	const prefix = "org.opencontainers.image."
	for key, want := range map[string]string{
		"created": c.Time.UTC().Format("2006-01-02T15:04:05Z"), "source": "https://github.com/routesrv/routesrv", "revision": c.Version + "@sha1:" + c.Revision,
	} {
		if got := manifest.Annotations[prefix+key]; got != want {
			t.Errorf("annotation %s is %q, want %q", key, got, want)
		}
	}
	z, err := gzip.NewReader(bytes.NewReader(blob(manifest.Layers[0].Digest)))
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for name, content := range tarFiles(t, z) {
		got[name] = string(content)
	}
	want := map[string]string{}
	tree := os.DirFS(filepath.Join(c.Source, "deploy", "kustomize"))
	err = fs.WalkDir(tree, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := fs.ReadFile(tree, name)
		want[name] = string(content)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	const images = "images/kustomization.yaml"
	if tag := tagOf(t, got[images], "routesrv"); tag != c.Version {
		t.Errorf("the tag of the image is %q, want %q", tag, c.Version)
	}
	if got, want := tagOf(t, got[images], "skipper"), tagOf(t, want[images], "skipper"); got != want {
		t.Errorf("the tag of skipper is %q, was %q", got, want)
	}
	delete(got, images)
	delete(want, images)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("files (-sources +artifact):\n%s", diff)
	}
}

// tagOf returns what a kustomization sets the tag of an image to.
func tagOf(t *testing.T, text, name string) string {
	t.Helper()
	var k struct {
		Images []struct{ Name, NewTag string }
	}
	if err := yaml.Unmarshal([]byte(text), &k); err != nil {
		t.Fatal(err)
	}
	for _, i := range k.Images {
		if i.Name == name {
			return i.NewTag
		}
	}
	t.Fatalf("no image %s in %s", name, text)
	return ""
}

func decode(t *testing.T, text []byte, into any) {
	t.Helper()
	if err := json.Unmarshal(text, into); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
}

// TestManifestsNeedOneTagToSet: a tree in which the tag cannot be found would be released with one that does not exist.
func TestManifestsNeedOneTagToSet(t *testing.T) {
	source := smallSources(t)
	file := "deploy/kustomize/images/kustomization.yaml"
	text := string(readSource(t, source, file))
	for _, changed := range []string{strings.ReplaceAll(text, "name: routesrv", "name: other"), text + "  - name: routesrv\n    newTag: again\n"} {
		writeSource(t, source, file, changed)
		c := testRelease(source, "amd64")
		c.Plugins = []string{"linux/amd64"}
		if err := makeRelease(t, c, "", "-out", t.TempDir()); err == nil || !strings.Contains(err.Error(), "sets the tag of the image routesrv") {
			t.Errorf("error %v", err)
		}
	}
}
