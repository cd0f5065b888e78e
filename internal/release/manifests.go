package release

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/routesrv/routesrv/internal/image"
)

// Media types of an artifact that Flux accepts as an OCIRepository.
const (
	fluxConfig  types.MediaType = "application/vnd.cncf.flux.config.v1+json"
	fluxContent types.MediaType = "application/vnd.cncf.flux.content.v1.tar+gzip"
)

// kustomizeTree is the folder of the manifests in the sources. imagesFile is the only file in it that names an image.
const (
	kustomizeTree = "deploy/kustomize"
	imagesFile    = "images/kustomization.yaml"
)

// ourTag matches the tag of the project's image in imagesFile. The sources have a tag that exists in no registry.
var ourTag = regexp.MustCompile(`(?m)(- name: routesrv\n(?: +[a-zA-Z]+:.*\n)*? +newTag: ).*$`)

// writeManifests writes the kustomize tree as an OCI layout with one artifact, in the form that Flux pushes and
// pulls. The tree equals the one in the sources, except that the tag of the image is the version.
func writeManifests(c Config, work, out string) error {
	tree := filepath.Join(work, "kustomize")
	if err := os.CopyFS(tree, os.DirFS(filepath.Join(c.Source, kustomizeTree))); err != nil {
		return fmt.Errorf("manifests: %w", err)
	}
	file := filepath.Join(tree, imagesFile)
	text, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("manifests: %w", err)
	}
	if n := len(ourTag.FindAll(text, -1)); n != 1 {
		return fmt.Errorf("manifests: %s sets the tag of the image routesrv %d times, want 1", imagesFile, n)
	}
	if err := os.WriteFile(file, ourTag.ReplaceAll(text, []byte("${1}"+c.Version)), 0o644); err != nil {
		return fmt.Errorf("manifests: %w", err)
	}
	var packed bytes.Buffer
	z, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	if err != nil {
		return err
	}
	if err := errors.Join(pack(z, "", tree, c.Time), z.Close()); err != nil {
		return fmt.Errorf("manifests: %w", err)
	}
	artifact, err := fluxArtifact(c, packed.Bytes())
	if err != nil {
		return fmt.Errorf("manifests: %w", err)
	}
	return image.WriteArtifacts(out, []image.Named{{Ref: c.Version, Image: artifact}})
}

// fluxArtifact returns the artifact for a compressed tar file.
func fluxArtifact(c Config, packed []byte) (v1.Image, error) {
	diffID, err := uncompressedHash(packed)
	if err != nil {
		return nil, err
	}
	img := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), fluxConfig)
	img, err = mutate.Append(img, mutate.Addendum{Layer: compressed{static.NewLayer(packed, fluxContent), diffID}, MediaType: fluxContent})
	if err != nil {
		return nil, err
	}
	if img, err = mutate.CreatedAt(img, v1.Time{Time: c.Time.UTC()}); err != nil {
		return nil, err
	}
	const prefix = "org.opencontainers.image."
	annotations := map[string]string{
		prefix + "created": c.Time.UTC().Format(time.RFC3339), prefix + "source": "https://" + ourModule, prefix + "version": c.Version,
	}
	if c.Revision != "" {
		annotations[prefix+"revision"] = c.Version + "@sha1:" + c.Revision // the form of Flux
	}
	return mutate.Annotations(img, annotations).(v1.Image), nil
}

// compressed is a layer whose content is already compressed. static.NewLayer would use the hash of the compressed
// content as the hash of the content.
type compressed struct {
	v1.Layer
	diffID v1.Hash
}

// DiffID returns the hash of the uncompressed content.
func (c compressed) DiffID() (v1.Hash, error) { return c.diffID, nil }

func uncompressedHash(packed []byte) (v1.Hash, error) {
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return v1.Hash{}, err
	}
	h, _, err := v1.SHA256(io.Reader(z))
	return h, err
}
