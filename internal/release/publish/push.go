package publish

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"

	"github.com/routesrv/routesrv/internal/image"
	"github.com/routesrv/routesrv/internal/release"
)

// Push pushes the image into the repository and the manifests into the one beside it, both under the version, with
// signatures and provenance if the release is signed. It pushes signatures first, so that nobody finds the version
// without them. If the registry already has the version with different content, Push fails: a release never changes.
// It uses the credentials of "docker login".
//
// Push calls pushed with each reference and its digest.
func (r *Release) Push(ctx context.Context, repository string, pushed func(ref, digest string)) error {
	for _, part := range []struct{ file, repository string }{
		{release.ImageFile(r.version), repository},
		{release.ManifestsFile(r.version), repository + release.ManifestsSuffix},
	} {
		to, err := name.NewRepository(part.repository, name.StrictValidation)
		if err != nil {
			return fmt.Errorf("repository: %w", err)
		}
		if err := r.pushPart(ctx, part.file, to, pushed); err != nil {
			return fmt.Errorf("push %s: %w", part.file, err)
		}
	}
	return nil
}

func (r *Release) pushPart(ctx context.Context, file string, to name.Repository, pushed func(ref, digest string)) error {
	work, err := os.MkdirTemp("", "push-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	content := filepath.Join(work, "content")
	if err := os.Mkdir(content, 0o700); err != nil {
		return err
	}
	if err := unpackLayout(filepath.Join(r.dir, file), content); err != nil {
		return err
	}
	digest, err := image.Digest(content)
	if err != nil {
		return err
	}
	if err := unchanged(ctx, to.Tag(r.version), digest); err != nil {
		return err
	}
	if err := r.pushSignatures(ctx, file, work, to, digest, pushed); err != nil {
		return err
	}
	return pushLayout(ctx, content, to, pushed)
}

// pushSignatures pushes what Sign wrote for a file, if the release is signed. Signatures of another digest are an
// error, because the version would be published without any valid one.
func (r *Release) pushSignatures(ctx context.Context, file, work string, to name.Repository, of v1.Hash, pushed func(ref, digest string)) error {
	from := r.signaturesFile(file)
	if _, err := os.Stat(filepath.Join(r.dir, from)); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	signatures := filepath.Join(work, "signatures")
	if err := os.Mkdir(signatures, 0o700); err != nil {
		return err
	}
	if err := unpackLayout(filepath.Join(r.dir, from), signatures); err != nil {
		return err
	}
	index, err := layout.ImageIndexFromPath(signatures)
	if err != nil {
		return err
	}
	all, err := index.IndexManifest()
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(all.Manifests, func(m v1.Descriptor) bool { return image.Ref(m) == tag(of, "sig") }) {
		return fmt.Errorf("%s has no signature of %v: sign the release again", from, of)
	}
	return pushLayout(ctx, signatures, to, pushed)
}

// unchanged returns an error if the registry has the tag with another digest.
func unchanged(ctx context.Context, ref name.Tag, want v1.Hash) error {
	there, err := remote.Head(ref, settings(ctx)...)
	var refused *transport.Error
	switch {
	case errors.As(err, &refused) && refused.StatusCode == http.StatusNotFound:
		return nil
	case err != nil:
		return err
	case there.Digest != want:
		return fmt.Errorf("%v exists with digest %v, and the release has %v: a release never changes, so choose another version", ref, there.Digest, want)
	}
	return nil
}

// pushLayout pushes all manifests of a layout under their names.
func pushLayout(ctx context.Context, dir string, to name.Repository, pushed func(ref, digest string)) error {
	index, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		return err
	}
	all, err := index.IndexManifest()
	if err != nil {
		return err
	}
	for _, m := range all.Manifests {
		ref := to.Tag(image.Ref(m))
		if m.MediaType.IsIndex() {
			inner, err := index.ImageIndex(m.Digest)
			if err != nil {
				return err
			}
			if err := remote.WriteIndex(ref, inner, settings(ctx)...); err != nil {
				return err
			}
		} else {
			img, err := index.Image(m.Digest)
			if err != nil {
				return err
			}
			if err := remote.Write(ref, img, settings(ctx)...); err != nil {
				return err
			}
		}
		pushed(ref.String(), m.Digest.String())
	}
	return nil
}

func settings(ctx context.Context) []remote.Option {
	return []remote.Option{remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain)}
}
