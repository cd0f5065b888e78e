package image_test

import (
	"archive/tar"
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/routesrv/routesrv/internal/image"
)

const dockerfile = `
ARG GO
FROM ${GO} AS build
RUN anything at all
FROM scratch
ARG VERSION=devel
# A comment.
LABEL org.example.version="${VERSION}" \
      org.example.text="with spaces, and \"quotes\""
LABEL one="$VERSION-1" two=""
COPY --from=build --chmod=0555 /out/a /out/b /usr/bin/
COPY --chmod=444 --from=build /out/TEXT /doc/
USER 65532:65532
ENTRYPOINT ["/usr/bin/a"]
`

func read(t *testing.T, text string) *image.Recipe {
	t.Helper()
	r, err := image.ReadDockerfile(strings.NewReader(text), map[string]string{"VERSION": "v1.2.3"})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestRecipeIsTheLastStage(t *testing.T) {
	want := &image.Recipe{
		Stage: "build",
		Files: []image.File{
			{From: "/out/a", Path: "/usr/bin/a", Mode: 0o555}, {From: "/out/b", Path: "/usr/bin/b", Mode: 0o555},
			{From: "/out/TEXT", Path: "/doc/TEXT", Mode: 0o444},
		},
		Labels: map[string]string{
			"org.example.version": "v1.2.3", "org.example.text": `with spaces, and "quotes"`, "one": "v1.2.3-1", "two": "",
		},
		User: "65532:65532", Entrypoint: []string{"/usr/bin/a"},
	}
	if diff := cmp.Diff(want, read(t, dockerfile)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestDockerfileThatSaysMoreIsRefused(t *testing.T) {
	for line, want := range map[string]string{
		"RUN [\"true\"]":                         "line 3: RUN: this instruction is not known",
		"ENV A=b":                                "line 3: ENV: this instruction is not known",
		"ENTRYPOINT /usr/bin/a":                  "there is no shell",
		"COPY a /usr/bin/":                       "want --from",
		"COPY --from=x /a /usr/bin/":             "want --from",
		"COPY --from=x --chmod=4755 /a /bin/":    "permissions",
		"COPY --from=x --chmod=0 /a /bin/":       "permissions",
		"COPY --from=x --link --chmod=1 /a /b/":  "--link is not known",
		"COPY --from=x --chmod=555 /a /bin/name": "slash at its end",
		"LABEL a=b":                              "want KEY",
		"ARG A B":                                "want NAME",
		"USER 1\nFROM alpine":                    "FROM scratch",
	} {
		_, err := image.ReadDockerfile(strings.NewReader("FROM scratch\n\n"+line+"\n"), nil)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q in it", line, err, want)
		}
	}
	if _, err := image.ReadDockerfile(strings.NewReader("# nothing\n"), nil); err == nil {
		t.Error("no error without a stage")
	}
}

// files returns a folder with the files of the recipe of this test.
func files(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"a", "b", "TEXT"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("content of "+name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func layoutOf(t *testing.T, created time.Time, archs ...string) string {
	t.Helper()
	var images []v1.Image
	for _, arch := range archs {
		img, err := image.Build(read(t, dockerfile), arch, files(t), created)
		if err != nil {
			t.Fatal(err)
		}
		images = append(images, img)
	}
	dir := filepath.Join(t.TempDir(), "layout")
	if err := image.WriteLayout(dir, "v1.2.3", images); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestLayoutGivesBackWhatTheRecipeSays(t *testing.T) {
	created := time.Date(2026, 11, 21, 10, 0, 0, 0, time.FixedZone("", 3600))
	dir := layoutOf(t, created, "amd64", "arm64")
	for _, arch := range []string{"amd64", "arm64"} {
		img, err := image.Open(dir, arch)
		if err != nil {
			t.Fatal(err)
		}
		config, err := img.ConfigFile()
		if err != nil {
			t.Fatal(err)
		}
		if config.Architecture != arch || config.OS != "linux" || !config.Created.Equal(created) {
			t.Errorf("image for %s says %s/%s, created %v", arch, config.OS, config.Architecture, config.Created)
		}
		recipe := read(t, dockerfile)
		if config.Config.User != recipe.User || !cmp.Equal(config.Config.Entrypoint, recipe.Entrypoint) || !cmp.Equal(config.Config.Labels, recipe.Labels) {
			t.Errorf("configuration %+v", config.Config)
		}
		if media, err := img.MediaType(); err != nil || media != types.OCIManifestSchema1 {
			t.Errorf("type %s, %v", media, err)
		}
	}
	if _, err := image.Open(dir, "riscv64"); err == nil {
		t.Error("an image for an architecture that is not there")
	}
	img, err := image.Open(dir, "amd64")
	if err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	if err := image.Unpack(img, root); err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	err = fs.WalkDir(os.DirFS(root), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		content, err := os.ReadFile(filepath.Join(root, name))
		got[name] = info.Mode().String() + " " + string(content)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"usr/bin/a": "-r-xr-xr-x content of a", "usr/bin/b": "-r-xr-xr-x content of b", "doc/TEXT": "-r--r--r-- content of TEXT",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("unpacked (-want +got):\n%s", diff)
	}
}

func TestSameFilesGiveTheSameImage(t *testing.T) {
	digest := func(created time.Time) string {
		img, err := image.Build(read(t, dockerfile), "amd64", files(t), created)
		if err != nil {
			t.Fatal(err)
		}
		d, err := img.Digest()
		if err != nil {
			t.Fatal(err)
		}
		return d.String()
	}
	at := time.Unix(1_700_000_000, 0)
	if a, b := digest(at), digest(at.UTC()); a != b {
		t.Errorf("digests %s and %s", a, b)
	}
	if digest(at) == digest(at.Add(time.Second)) {
		t.Error("the time does not count")
	}
}

// layer returns an image with one layer of the given entries.
func layer(t *testing.T, entries ...tar.Header) v1.Image {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, h := range entries {
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	img, err := mutate.AppendLayers(empty.Image, static.NewLayer(out.Bytes(), types.OCIUncompressedLayer))
	if err != nil {
		t.Fatal(err)
	}
	return img
}

func TestUnpackTakesFilesAndFoldersOnly(t *testing.T) {
	for name, h := range map[string]tar.Header{
		"link":   {Name: "l", Typeflag: tar.TypeSymlink, Linkname: "/etc/passwd"},
		"device": {Name: "d", Typeflag: tar.TypeChar},
		"setuid": {Name: "s", Typeflag: tar.TypeReg, Mode: 0o4755},
	} {
		if err := image.Unpack(layer(t, h), t.TempDir()); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	dir := t.TempDir()
	inner := filepath.Join(dir, "inner")
	if err := os.Mkdir(inner, 0o755); err != nil {
		t.Fatal(err)
	}
	// It may be an error or be unpacked below the root, but must not leave the root.
	image.Unpack(layer(t, tar.Header{Name: "../outside", Typeflag: tar.TypeReg, Mode: 0o644}), inner)
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("beside the folder: %v, %v", entries, err)
	}
}

func TestLayoutDoesNotReplaceAFolder(t *testing.T) {
	if err := image.WriteLayout(t.TempDir(), "v1", nil); err == nil {
		t.Error("no error")
	}
}
