package publish

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/sigstore/sigstore/pkg/cryptoutils"
	"github.com/sigstore/sigstore/pkg/signature"
	"github.com/sigstore/sigstore/pkg/signature/dsse"
	"github.com/sigstore/sigstore/pkg/signature/options"
	"github.com/sigstore/sigstore/pkg/signature/payload"

	"github.com/routesrv/routesrv/internal/image"
	"github.com/routesrv/routesrv/internal/release"
)

// PublicKeyFile is the name of the file with the public key, in PEM.
const PublicKeyFile = "cosign.pub"

// sigSuffix is appended to the name of a file for its signature: base64, without a newline.
const sigSuffix = ".sig"

// Formats of cosign.
const (
	simpleSigning       types.MediaType = "application/vnd.dev.cosign.simplesigning.v1+json"
	dsseEnvelope        types.MediaType = "application/vnd.dsse.envelope.v1+json"
	inTotoPayload                       = "application/vnd.in-toto+json"
	signatureAnnotation                 = "dev.cosignproject.cosign/signature"
	predicateAnnotation                 = "predicateType"
)

// envelopeFile is the name of the signed provenance: one DSSE envelope in one line.
func (r *Release) envelopeFile() string {
	return fmt.Sprintf("routesrv_%s_provenance.intoto.jsonl", r.version)
}

// signaturesFile is the name of the layout with the signatures of a layout.
func (r *Release) signaturesFile(of string) string {
	return strings.TrimSuffix(of, ".tar") + "_signatures.tar"
}

// Sign signs a release. repository is where the image will be pushed, without a tag; the signatures cover it. Beside
// the files of the release it writes
//
//	NAME.sig                                  of each file
//	routesrv_VERSION_provenance.intoto.jsonl  the provenance, signed
//	routesrv_VERSION_image_signatures.tar     signatures and attestation of the image: an OCI layout with the tags that cosign reads
//	routesrv_VERSION_manifests_signatures.tar the same for the manifests
//	cosign.pub                                the public key
//
// and replaces those of an earlier call.
func (r *Release) Sign(ctx context.Context, s signature.Signer, repository string) error {
	if _, err := name.NewRepository(repository, name.StrictValidation); err != nil {
		return fmt.Errorf("repository: %w", err)
	}
	public, err := s.PublicKey(options.WithContext(ctx))
	if err != nil {
		return fmt.Errorf("public key: %w", err)
	}
	pem, err := cryptoutils.MarshalPublicKeyToPEM(public)
	if err != nil {
		return fmt.Errorf("public key: %w", err)
	}
	if err := r.write(PublicKeyFile, pem); err != nil {
		return err
	}
	for _, file := range append([]string{release.Sums}, r.files...) {
		if err := r.signFile(ctx, s, file); err != nil {
			return fmt.Errorf("sign %s: %w", file, err)
		}
	}
	envelope, err := r.envelope(ctx, s)
	if err != nil {
		return fmt.Errorf("sign the provenance: %w", err)
	}
	if err := r.write(r.envelopeFile(), append(bytes.TrimSpace(envelope), '\n')); err != nil {
		return err
	}
	for file, repository := range map[string]string{
		release.ImageFile(r.version): repository, release.ManifestsFile(r.version): repository + release.ManifestsSuffix,
	} {
		if err := r.signLayout(ctx, s, file, repository, envelope); err != nil {
			return fmt.Errorf("sign %s: %w", file, err)
		}
	}
	return nil
}

func (r *Release) write(file string, content []byte) error {
	return os.WriteFile(filepath.Join(r.dir, file), content, 0o644)
}

func (r *Release) signFile(ctx context.Context, s signature.Signer, file string) error {
	f, err := os.Open(filepath.Join(r.dir, file))
	if err != nil {
		return err
	}
	defer f.Close()
	sig, err := s.SignMessage(f, options.WithContext(ctx))
	if err != nil {
		return err
	}
	return r.write(file+sigSuffix, []byte(base64.StdEncoding.EncodeToString(sig)))
}

// envelope returns the signed provenance.
func (r *Release) envelope(ctx context.Context, s signature.Signer) ([]byte, error) {
	statement, err := os.ReadFile(filepath.Join(r.dir, release.ProvenanceFile(r.version)))
	if err != nil {
		return nil, err
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, statement); err != nil {
		return nil, err
	}
	return dsse.WrapSigner(s, inTotoPayload).SignMessage(&compact, options.WithContext(ctx))
}

// signLayout signs the contents of a layout for the repository: its index and the manifest of each platform, or its
// only manifest. The provenance envelope is attached to the outermost.
func (r *Release) signLayout(ctx context.Context, s signature.Signer, file, repository string, envelope []byte) error {
	work, err := os.MkdirTemp("", "sign-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	if err := unpackLayout(filepath.Join(r.dir, file), work); err != nil {
		return err
	}
	top, err := image.Digest(work)
	if err != nil {
		return err
	}
	digests, err := manifests(work, top)
	if err != nil {
		return err
	}
	attestation, err := artifact(envelope, dsseEnvelope, map[string]string{signatureAnnotation: "", predicateAnnotation: release.PredicateType})
	if err != nil {
		return err
	}
	all := []image.Named{{Ref: tag(top, "att"), Image: attestation}}
	for _, digest := range digests {
		signed, err := signDigest(ctx, s, repository, digest)
		if err != nil {
			return err
		}
		all = append(all, image.Named{Ref: tag(digest, "sig"), Image: signed})
	}
	signatures := filepath.Join(work, "signatures")
	if err := image.WriteArtifacts(signatures, all); err != nil {
		return err
	}
	out := filepath.Join(r.dir, r.signaturesFile(file))
	if err := os.Remove(out); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return release.WriteTar(out, signatures)
}

// manifests returns the digest top and, if it is an index in the layout, the digests that the index lists.
func manifests(dir string, top v1.Hash) ([]v1.Hash, error) {
	index, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		return nil, err
	}
	outer, err := index.IndexManifest()
	if err != nil {
		return nil, err
	}
	all := []v1.Hash{top}
	if !outer.Manifests[0].MediaType.IsIndex() {
		return all, nil
	}
	if index, err = index.ImageIndex(top); err != nil {
		return nil, err
	}
	inner, err := index.IndexManifest()
	if err != nil {
		return nil, err
	}
	for _, m := range inner.Manifests {
		all = append(all, m.Digest)
	}
	return all, nil
}

// signDigest returns a manifest with the signature of another manifest.
func signDigest(ctx context.Context, s signature.Signer, repository string, digest v1.Hash) (v1.Image, error) {
	of, err := name.NewDigest(repository + "@" + digest.String())
	if err != nil {
		return nil, err
	}
	text, err := payload.Cosign{Image: of, ClaimedIdentity: repository}.MarshalJSON()
	if err != nil {
		return nil, err
	}
	sig, err := s.SignMessage(bytes.NewReader(text), options.WithContext(ctx))
	if err != nil {
		return nil, err
	}
	return artifact(text, simpleSigning, map[string]string{signatureAnnotation: base64.StdEncoding.EncodeToString(sig)})
}

// artifact returns a manifest with one layer.
func artifact(content []byte, media types.MediaType, annotations map[string]string) (v1.Image, error) {
	img := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	return mutate.Append(img, mutate.Addendum{Layer: static.NewLayer(content, media), MediaType: media, Annotations: annotations})
}

// tag returns the tag under which cosign looks for signatures or attestations of a manifest.
func tag(of v1.Hash, kind string) string { return of.Algorithm + "-" + of.Hex + "." + kind }
