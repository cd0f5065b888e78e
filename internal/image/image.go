// Package image writes container images without a daemon, and unpacks them. The last stage of a Dockerfile defines the content of
// an image; the files that this stage copies come from a folder instead of an earlier stage.
//
// The same recipe, files and time produce the same bytes: all times are the given one, all owners are root, the order of folders
// and files is fixed, and nothing depends on the machine. Only the Go release matters, because it compresses the layers.
package image

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// refName is the annotation that names an image in the index of a layout. Tools that copy images look it up: oci:FOLDER:NAME.
const refName = "org.opencontainers.image.ref.name"

// Build creates a Linux image. dir holds the files of the recipe under the last elements of their paths. created is the time of
// everything in the image.
func Build(r *Recipe, arch, dir string, created time.Time) (v1.Image, error) {
	content, err := layerTar(r, dir, created)
	if err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(content)), nil
	}, tarball.WithMediaType(types.OCILayer), tarball.WithCompressedCaching)
	if err != nil {
		return nil, fmt.Errorf("layer: %w", err)
	}
	img := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	history := v1.History{Created: v1.Time{Time: created.UTC()}, CreatedBy: "the last stage of the Dockerfile"}
	if img, err = mutate.Append(img, mutate.Addendum{Layer: layer, MediaType: types.OCILayer, History: history}); err != nil {
		return nil, fmt.Errorf("layer: %w", err)
	}
	config, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture = "linux", arch
	config.Created = v1.Time{Time: created.UTC()}
	config.Config = v1.Config{
		User: r.User, Entrypoint: r.Entrypoint, Labels: r.Labels, WorkingDir: "/",
		Env: []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}, // the default of image builders
	}
	return mutate.ConfigFile(img, config)
}

// layerTar returns the file system of the image as a tar.
func layerTar(r *Recipe, dir string, created time.Time) ([]byte, error) {
	files := slices.Clone(r.Files)
	slices.SortFunc(files, func(a, b File) int { return strings.Compare(a.Path, b.Path) })
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	header := func(name string, kind byte, mode, size int64) error {
		return w.WriteHeader(&tar.Header{
			Typeflag: kind, Name: name, Mode: mode, Size: size, ModTime: created.Truncate(time.Second), Format: tar.FormatPAX,
		})
	}
	made := map[string]bool{}
	for i, f := range files {
		if i > 0 && files[i-1].Path == f.Path {
			return nil, fmt.Errorf("%s appears twice", f.Path)
		}
		for _, d := range parents(f.Path) {
			if made[d] {
				continue
			}
			made[d] = true
			if err := header(d+"/", tar.TypeDir, 0o755, 0); err != nil {
				return nil, err
			}
		}
		content, err := os.ReadFile(filepath.Join(dir, path.Base(f.From)))
		if err != nil {
			return nil, err
		}
		if err := header(strings.TrimPrefix(f.Path, "/"), tar.TypeReg, int64(f.Mode), int64(len(content))); err != nil {
			return nil, err
		}
		if _, err := w.Write(content); err != nil {
			return nil, err
		}
	}
	return out.Bytes(), w.Close()
}

// parents returns the folders above a file, outermost first, without a leading slash.
func parents(file string) []string {
	var all []string
	for d := path.Dir(strings.TrimPrefix(file, "/")); d != "."; d = path.Dir(d) {
		all = append(all, d)
	}
	slices.Reverse(all)
	return all
}

// WriteLayout writes an OCI image layout to a folder that must not exist yet: one image with a variant for each architecture,
// under the name ref.
func WriteLayout(dir, ref string, images []v1.Image) error {
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("%s already exists", dir)
	}
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, img := range images {
		config, err := img.ConfigFile()
		if err != nil {
			return err
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: img, Descriptor: v1.Descriptor{
			Platform: &v1.Platform{OS: config.OS, Architecture: config.Architecture},
		}})
	}
	l, err := layout.Write(dir, empty.Index)
	if err != nil {
		return err
	}
	return l.AppendIndex(index, layout.WithAnnotations(map[string]string{refName: ref}))
}

// Open returns the image for one architecture of a layout with one image.
func Open(dir, arch string) (v1.Image, error) {
	index, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		return nil, fmt.Errorf("layout %s: %w", dir, err)
	}
	top, err := index.IndexManifest()
	if err != nil {
		return nil, fmt.Errorf("layout %s: %w", dir, err)
	}
	if len(top.Manifests) != 1 {
		return nil, fmt.Errorf("layout %s has %d images, want 1", dir, len(top.Manifests))
	}
	if index, err = index.ImageIndex(top.Manifests[0].Digest); err != nil {
		return nil, fmt.Errorf("layout %s: %w", dir, err)
	}
	variants, err := index.IndexManifest()
	if err != nil {
		return nil, fmt.Errorf("layout %s: %w", dir, err)
	}
	for _, m := range variants.Manifests {
		if m.Platform != nil && m.Platform.Architecture == arch {
			return index.Image(m.Digest)
		}
	}
	return nil, fmt.Errorf("layout %s has no image for %s", dir, arch)
}
