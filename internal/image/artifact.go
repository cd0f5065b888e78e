package image

import (
	"errors"
	"fmt"
	"os"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
)

// Named is a manifest of a layout and the name that tools copy it by.
type Named struct {
	Ref   string // a tag: v0.1.0, or sha256-0123….sig
	Image v1.Image
}

// WriteArtifacts writes an OCI image layout into a folder that does not exist yet. Each manifest has its own name, and none is
// for a platform: these are artifacts, such as signatures.
func WriteArtifacts(dir string, all []Named) error {
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("%s is there already", dir)
	}
	l, err := layout.Write(dir, empty.Index)
	if err != nil {
		return err
	}
	for _, a := range all {
		if err := l.AppendImage(a.Image, layout.WithAnnotations(map[string]string{refName: a.Ref})); err != nil {
			return fmt.Errorf("%s: %w", a.Ref, err)
		}
	}
	return nil
}

// Digest returns the digest of the only image or artifact of a layout: the one that people pull and sign. For an image of several
// architectures it is the digest of the index.
func Digest(dir string) (v1.Hash, error) {
	index, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		return v1.Hash{}, fmt.Errorf("layout %s: %w", dir, err)
	}
	top, err := index.IndexManifest()
	if err != nil {
		return v1.Hash{}, fmt.Errorf("layout %s: %w", dir, err)
	}
	if len(top.Manifests) != 1 {
		return v1.Hash{}, fmt.Errorf("layout %s has %d images, want 1", dir, len(top.Manifests))
	}
	return top.Manifests[0].Digest, nil
}

// Ref is the name of a manifest of a layout, or empty.
func Ref(d v1.Descriptor) string { return d.Annotations[refName] }
