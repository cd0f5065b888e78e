//go:build linux

package release_test

import (
	"archive/tar"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"

	"github.com/routesrv/routesrv/internal/programs"
	"github.com/routesrv/routesrv/internal/release"
)

// wantSameFromDockerfile really runs the Dockerfile, with buildah, and compares the result with the image that was written
// without it: the same configuration, and the same files, to the byte. The compiler has the cache of this machine, where the same packages
// were just compiled, unless -full asks for an empty one.
//
// No registry is needed: the builder has the Go that runs the test. It has no shell, which is why the Dockerfile may not need
// one.
func wantSameFromDockerfile(t *testing.T, c release.Config, img v1.Image) {
	programs.Tool(t, "buildah", "buildah")
	if os.Getuid() != 0 || inUserNamespace(t) {
		reason := fmt.Sprintf("buildah needs root, and this is user %d", os.Getuid())
		if os.Getenv("CI") == "true" {
			t.Fatal(reason)
		}
		t.Skip(reason)
	}
	b := newBuildah(t)
	b.builder(t, "builder")
	if out, err := exec.CommandContext(t.Context(), "go", "mod", "download").CombinedOutput(); err != nil {
		t.Fatalf("go mod download: %v: %s", err, out)
	}
	args := []string{"bud", "--isolation=chroot", "--pull-never", "--format=oci", "--platform=linux/" + runtime.GOARCH,
		"--volume=" + goEnv(t, "GOROOT") + ":/usr/local/go:ro", "--volume=" + goEnv(t, "GOMODCACHE") + ":/go/pkg/mod:ro",
		"--build-arg=GO_IMAGE=localhost/builder", "--build-arg=VERSION=" + c.Version, "--build-arg=REVISION=" + c.Revision,
		"--build-arg=CREATED=" + c.Time.UTC().Format(time.RFC3339), "--tag=made"}
	if !*full {
		args = append(args, "--volume="+goEnv(t, "GOCACHE")+":/cache")
	}
	b.run(t, append(args, c.Source)...)
	dir := filepath.Join(t.TempDir(), "made")
	b.run(t, "push", "made", "oci:"+dir+":made")
	made := onlyImage(t, dir)
	if diff := cmp.Diff(configuration(t, img), configuration(t, made)); diff != "" {
		t.Errorf("configuration (-make image +Dockerfile):\n%s", diff)
	}
	if diff := cmp.Diff(content(t, img), content(t, made)); diff != "" {
		t.Errorf("content (-make image +Dockerfile):\n%s", diff)
	}
}

func inUserNamespace(t *testing.T) bool {
	t.Helper()
	text, err := os.ReadFile("/proc/self/uid_map")
	if err != nil {
		t.Fatal(err)
	}
	return !strings.HasPrefix(strings.Join(strings.Fields(string(text)), " "), "0 0 ")
}

func goEnv(t *testing.T, name string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "env", name).Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// buildah runs the program of that name with a storage of its own.
type buildah struct{ args []string }

func newBuildah(t *testing.T) buildah {
	dir := t.TempDir()
	// The plain driver, which works wherever there is a disk.
	return buildah{[]string{"--root=" + filepath.Join(dir, "root"), "--runroot=" + filepath.Join(dir, "run"), "--storage-driver=vfs"}}
}

func (b buildah) run(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "buildah", append(b.args, args...)...)
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("buildah %s: %v\n%s%s", strings.Join(args, " "), err, &stdout, &stderr)
	}
	return strings.TrimSpace(stdout.String())
}

// builder makes an image that Go is mounted into, with a cache at /cache. The programs are copied nevertheless, since they are looked for
// before anything is mounted.
func (b buildah) builder(t *testing.T, name string) {
	t.Helper()
	container := b.run(t, "from", "scratch")
	b.run(t, "config", "--env=PATH=/usr/local/go/bin", "--env=HOME=/tmp", "--env=GOPATH=/go", "--env=GOCACHE=/cache", "--env=GOTOOLCHAIN=local", container)
	b.run(t, "copy", container, filepath.Join(goEnv(t, "GOROOT"), "bin"), "/usr/local/go/bin")
	empty := t.TempDir()
	b.run(t, "copy", container, empty, "/tmp")
	b.run(t, "commit", container, name)
	b.run(t, "rm", container)
}

func onlyImage(t *testing.T, dir string) v1.Image {
	t.Helper()
	index, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := index.IndexManifest()
	if err != nil || len(manifest.Manifests) != 1 {
		t.Fatalf("%+v, %v", manifest, err)
	}
	img, err := index.Image(manifest.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	return img
}

// configuration is what a runtime reads of an image.
func configuration(t *testing.T, img v1.Image) v1.Config {
	t.Helper()
	file, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if file.OS != "linux" || file.Architecture != runtime.GOARCH {
		t.Errorf("image for %s/%s", file.OS, file.Architecture)
	}
	c := file.Config
	delete(c.Labels, "io.buildah.version")
	if c.WorkingDir == "" {
		c.WorkingDir = "/"
	}
	return c
}

// content describes all entries of the file system.
func content(t *testing.T, img v1.Image) map[string]string {
	t.Helper()
	all := mutate.Extract(img)
	defer all.Close()
	entries := map[string]string{}
	for r := tar.NewReader(all); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return entries
		}
		if err != nil {
			t.Fatal(err)
		}
		sum := sha256.New()
		if _, err := io.Copy(sum, r); err != nil {
			t.Fatal(err)
		}
		entries[filepath.Clean("/"+h.Name)] = fmt.Sprintf("%c %o %d:%d %d %x", h.Typeflag, h.Mode&0o7777, h.Uid, h.Gid, h.Size, sum.Sum(nil))
	}
}
