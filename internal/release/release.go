// Package release builds all parts of a release: the binaries of each architecture, an archive of each with the
// licenses, a bill of materials for each, the container image, the manifests, the release notes, the provenance, and
// the checksums of all files.
//
// The same sources, version, time and Go release give the same bytes in any folder on any machine. Package publish
// adds the signatures to the finished files: they are the only part of a release that nobody else can reproduce.
package release

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/routesrv/routesrv/internal/image"
)

// Binaries are the programs of a release.
var Binaries = [...]string{"routesrv", "dataplane-client"}

// Sums is the name of the file with the checksums, in the format of sha256sum.
const Sums = "SHA256SUMS"

// ImageName and ManifestsName are the names of the image and of the artifact with the manifests in the provenance. In
// registries, the manifests' repository is the image's repository with ManifestsSuffix.
const (
	ImageName       = "routesrv"
	ManifestsName   = ImageName + ManifestsSuffix
	ManifestsSuffix = "-manifests"
)

// ImageFile is the name of the file with the image: an OCI layout in a tar file.
func ImageFile(version string) string { return fmt.Sprintf("routesrv_%s_image.tar", version) }

// ManifestsFile is the name of the file with the manifests' artifact, also an OCI layout in a tar file.
func ManifestsFile(version string) string { return fmt.Sprintf("routesrv_%s_manifests.tar", version) }

// Config says what to build.
type Config struct {
	// Source is the folder of the sources, with go.mod and Dockerfile.
	Source string
	// Version is the name of the release: v0.1.0, or the output of git describe. It must be valid as an image tag.
	Version string
	// Revision is the commit, for the labels of the image.
	Revision string
	// Time is the time of the sources. Everything in the release that has a time gets this one.
	Time time.Time
	// Archs are the architectures, as GOARCH values.
	Archs []string
	// Plugins are the platforms of the plugin, each as GOOS/GOARCH; empty means all systems on all Archs.
	Plugins []string
	// Builder is the URI of the builder, for the provenance; empty means an unspecified machine.
	Builder string
	// Download is the URL of the folder from which users download the files of this release; empty means the
	// project's.
	Download string
	// Env is added to the environment of the go command, for example GOCACHE.
	Env []string
}

// versionForm is the grammar of image tags.
var versionForm = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$`)

func (c Config) check() error {
	if !versionForm.MatchString(c.Version) {
		return fmt.Errorf("version %q: want up to 128 letters, digits, dots, dashes and underscores, such as v0.1.0", c.Version)
	}
	if len(c.Archs) == 0 {
		return errors.New("no architecture")
	}
	return nil
}

// All writes a whole release into a folder that is empty or does not exist:
//
//	routesrv_VERSION_linux_ARCH.tar.gz    both binaries, LICENSE, THIRD_PARTY_LICENSES
//	routesrv_VERSION_linux_ARCH.cdx.json  what is in the binaries: CycloneDX
//	routesrv_VERSION_image.tar            the image for all architectures: an OCI layout in a tar file
//	kubectl-routesrv_VERSION_OS_ARCH.tar.gz    the plugin of kubectl for Linux, macOS and Windows, with both licenses
//	kubectl-routesrv_VERSION_OS_ARCH.cdx.json  what is in it
//	routesrv_VERSION_krew.yaml            the manifest that krew installs the plugin by
//	routesrv_VERSION_manifests.tar        deploy/kustomize with the image of this version: an OCI layout of an artifact for Flux
//	routesrv_VERSION_notes.md             what the changelog says about the version
//	routesrv_VERSION_provenance.json      what all of these were made from: an in-toto statement, SLSA provenance
//	SHA256SUMS                            of all of these
func All(ctx context.Context, c Config, out string) error {
	if err := emptyFolder(out); err != nil {
		return err
	}
	notes, err := Notes(c) // first: a release without notes fails before minutes of building
	if err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "release-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	var made ingredients
	for _, arch := range c.Archs {
		dir := filepath.Join(work, arch)
		if err := Compile(ctx, c, arch, dir); err != nil {
			return err
		}
		if err := made.add(dir, platform{"linux", arch}, Binaries[:]); err != nil {
			return err
		}
		name := fmt.Sprintf("routesrv_%s_linux_%s", c.Version, arch)
		if err := writeArchive(filepath.Join(out, name+".tar.gz"), name, dir, c.Time); err != nil {
			return err
		}
		if err := writeSBOM(filepath.Join(out, name+".cdx.json"), c, platform{"linux", arch}, Binaries[:], dir); err != nil {
			return err
		}
	}
	if err := writePlugin(ctx, c, work, out, &made); err != nil {
		return err
	}
	pushed, err := writeLayouts(c, work, out)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(out, fmt.Sprintf("routesrv_%s_notes.md", c.Version)), notes, 0o644); err != nil {
		return err
	}
	if err := writeProvenance(c, made, pushed, out); err != nil {
		return err
	}
	return writeSums(out)
}

// writeLayouts writes everything that is pushed to registries, each part as an OCI layout in a tar file. It returns
// the digests by name.
func writeLayouts(c Config, work, out string) (map[string]v1.Hash, error) {
	digests := map[string]v1.Hash{}
	for _, part := range []struct {
		name, file string
		write      func(c Config, work, out string) error
	}{
		{ImageName, ImageFile(c.Version), writeImage},
		{ManifestsName, ManifestsFile(c.Version), writeManifests},
	} {
		layout := filepath.Join(work, part.name+"-layout")
		if err := part.write(c, work, layout); err != nil {
			return nil, err
		}
		digest, err := image.Digest(layout)
		if err != nil {
			return nil, err
		}
		digests[part.name] = digest
		if err := writeTar(filepath.Join(out, part.file), layout, c.Time); err != nil {
			return nil, err
		}
	}
	return digests, nil
}

// Image writes only the image: an OCI layout in a folder that does not exist yet.
func Image(ctx context.Context, c Config, out string) error {
	work, err := os.MkdirTemp("", "release-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	for _, arch := range c.Archs {
		if err := Compile(ctx, c, arch, filepath.Join(work, arch)); err != nil {
			return err
		}
	}
	return writeImage(c, work, out)
}

// Recipe returns what the Dockerfile of the sources defines about the image.
func (c Config) Recipe() (*image.Recipe, error) {
	name := filepath.Join(c.Source, "Dockerfile")
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	r, err := image.ReadDockerfile(f, map[string]string{
		"VERSION": c.Version, "REVISION": c.Revision, "CREATED": c.Time.UTC().Format(time.RFC3339),
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return r, nil
}

// writeImage builds the image from the binaries that Compile wrote into the architectures' folders in work.
func writeImage(c Config, work, out string) error {
	r, err := c.Recipe()
	if err != nil {
		return err
	}
	var images []v1.Image
	for _, arch := range c.Archs {
		img, err := image.Build(r, arch, filepath.Join(work, arch), c.Time)
		if err != nil {
			return fmt.Errorf("image for %s: %w", arch, err)
		}
		images = append(images, img)
	}
	return image.WriteLayout(out, c.Version, images)
}

func emptyFolder(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	entries, err := os.ReadDir(dir)
	if err == nil && len(entries) > 0 {
		err = fmt.Errorf("%s is not empty: it has %s", dir, entries[0].Name())
	}
	return err
}

// writeSums writes the checksums of all files of a folder, sorted by name.
func writeSums(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	var lines []string
	for _, e := range entries {
		sum, err := fileSum(filepath.Join(dir, e.Name()))
		if err != nil {
			return err
		}
		lines = append(lines, sum+"  "+e.Name()+"\n")
	}
	slices.SortFunc(lines, func(a, b string) int { return strings.Compare(a[sha256.Size*2:], b[sha256.Size*2:]) })
	return os.WriteFile(filepath.Join(dir, Sums), []byte(strings.Join(lines, "")), 0o644)
}

// fileSum returns the SHA-256 of a file, in hex.
func fileSum(name string) (string, error) {
	f, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return fmt.Sprintf("%x", h.Sum(nil)), nil
}
