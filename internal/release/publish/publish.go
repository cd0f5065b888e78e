// Package publish signs the files of a finished release and pushes its image and manifests to a registry.
//
// Signatures have the formats of cosign, with a key and without a transparency log: a file NAME.sig beside each file
// and, for everything that is pushed, a manifest with the tag "sha256-….sig" in the same repository. The checksums of
// the release do not cover the signatures: with most keys, signing twice gives different bytes, and nobody without
// the key could reproduce them.
package publish

import (
	"archive/tar"
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/routesrv/routesrv/internal/release"
)

// Release is a folder with a finished release. Its files are those that its checksums name.
type Release struct {
	dir     string
	version string
	files   []string // sorted by name, without the checksums
}

// Open reads the checksums of a release and compares the files with them. A file that differs, or that the checksums
// do not name, is an error, so that only a complete build is signed or pushed. Files that Sign wrote are allowed.
func Open(dir string) (*Release, error) {
	r := &Release{dir: dir}
	sums, err := os.Open(filepath.Join(dir, release.Sums))
	if err != nil {
		return nil, err
	}
	defer sums.Close()
	known := map[string]bool{release.Sums: true}
	for lines := bufio.NewScanner(sums); lines.Scan(); {
		want, name, ok := strings.Cut(lines.Text(), "  ")
		if !ok || name != filepath.Base(name) || len(want) != hex.EncodedLen(sha256.Size) {
			return nil, fmt.Errorf("%s: line %q: want SHA-256, two spaces and a file", sums.Name(), lines.Text())
		}
		if err := compare(filepath.Join(dir, name), want); err != nil {
			return nil, err
		}
		known[name] = true
		r.files = append(r.files, name)
		if v, ok := strings.CutPrefix(name, "routesrv_"); ok {
			if v, ok = strings.CutSuffix(v, "_provenance.json"); ok {
				r.version = v
			}
		}
	}
	if r.version == "" || !known[release.ImageFile(r.version)] || !known[release.ManifestsFile(r.version)] {
		return nil, fmt.Errorf("%s names no image, manifests and provenance of one version", sums.Name())
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if name := e.Name(); !known[name] && !known[strings.TrimSuffix(name, sigSuffix)] && !r.signature(name) {
			return nil, fmt.Errorf("%s is not part of the release: %s does not name it", filepath.Join(dir, name), release.Sums)
		}
	}
	return r, nil
}

// Version is the version of the release.
func (r *Release) Version() string { return r.version }

// signature reports whether Sign writes a file of that name, not counting the .sig files beside other files.
func (r *Release) signature(name string) bool {
	return name == PublicKeyFile || name == r.envelopeFile() || name == r.signaturesFile(release.ImageFile(r.version)) ||
		name == r.signaturesFile(release.ManifestsFile(r.version))
}

func compare(file, want string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return err
	}
	if got := hex.EncodeToString(h.Sum(nil)); got != want {
		return fmt.Errorf("%s has SHA-256 %s, but %s says %s", file, got, release.Sums, want)
	}
	return nil
}

// unpackLayout unpacks a tar file with an OCI layout into an existing folder.
func unpackLayout(file, dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	for t := tar.NewReader(f); ; {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		if h.Typeflag == tar.TypeDir {
			continue
		}
		if h.Typeflag != tar.TypeReg {
			return fmt.Errorf("%s: %s: type %q: want files and folders only", file, h.Name, h.Typeflag)
		}
		if err := unpackFile(root, h.Name, t); err != nil {
			return fmt.Errorf("%s: %s: %w", file, h.Name, err)
		}
	}
}

func unpackFile(root *os.Root, name string, content io.Reader) error {
	if err := root.MkdirAll(path.Dir(name), 0o755); err != nil {
		return err
	}
	f, err := root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, content)
	return errors.Join(err, f.Close())
}
