//go:build linux

package kubelet_test

import (
	"debug/elf"
	"encoding/json"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/routesrv/routesrv/test/kubelet"
	"github.com/routesrv/routesrv/test/programs"
	"github.com/routesrv/routesrv/test/sandbox"
)

// TestTheDockerfileMakesTheImageOfTheTests builds the Dockerfile with buildah, compares the image with the one whose pods other tests run,
// and runs its programs with nothing else around them.
//
// No registry is needed: the builder has the Go that runs the test, and its cache. It has no shell, so neither may the Dockerfile need one.
func TestTheDockerfileMakesTheImageOfTheTests(t *testing.T) {
	programs.Tool(t, "buildah", "buildah")
	if os.Getuid() != 0 || inUserNamespace(t) {
		if os.Getenv("CI") == "true" {
			t.Fatal("buildah needs root")
		}
		t.Skip("not tested without root, which buildah needs")
	}
	b := newBuildah(t)
	b.builder(t, "builder")
	download := exec.CommandContext(t.Context(), "go", "mod", "download") // as the Dockerfile does: without the other modules of this repository
	download.Dir, download.Env = "../..", append(os.Environ(), "GOWORK=off")
	if out, err := download.CombinedOutput(); err != nil {
		t.Fatalf("go mod download: %v: %s", err, out)
	}
	b.run(t, "build", "--isolation=chroot", "--pull-never", "--format=oci", "--platform=linux/"+runtime.GOARCH,
		"--volume="+goEnv(t, "GOROOT")+":/usr/local/go:ro", "--volume="+goEnv(t, "GOMODCACHE")+":/go/pkg/mod:ro",
		"--volume="+goEnv(t, "GOCACHE")+":/cache", "--build-arg=GO_IMAGE=localhost/builder", "--build-arg=VERSION=v1.2.3",
		"--build-arg=REVISION=abc", "--build-arg=CREATED=2026-12-01T10:00:00Z", "--tag=made", "../..")
	container := b.run(t, "from", "--pull-never", "made")
	root := b.run(t, "mount", container)
	want := kubelet.Routesrv("")

	var image struct {
		OCIv1 struct {
			Config struct {
				User       string
				Entrypoint []string
				Labels     map[string]string
			} `json:"config"`
		}
	}
	if err := json.Unmarshal([]byte(b.run(t, "inspect", "--type=image", "made")), &image); err != nil {
		t.Fatal(err)
	}
	if c := image.OCIv1.Config; c.User != want.User || !slices.Equal(c.Entrypoint, want.Entrypoint) {
		t.Errorf("user %q, entrypoint %q, want %q and %q", c.User, c.Entrypoint, want.User, want.Entrypoint)
	}
	for key, want := range map[string]string{
		"title": "routesrv", "version": "v1.2.3", "revision": "abc", "licenses": "Apache-2.0", "created": "2026-12-01T10:00:00Z",
	} {
		if got := image.OCIv1.Config.Labels["org.opencontainers.image."+key]; got != want {
			t.Errorf("label %s is %q, want %q", key, got, want)
		}
	}
	wantFiles(t, root, slices.Collect(maps.Keys(want.Files)))

	shop, err := filepath.Abs("../../examples/shop")
	if err != nil {
		t.Fatal(err)
	}
	for _, try := range []struct {
		says string
		args []string
	}{
		{"routesrv v1.2.3 ", []string{"/usr/bin/routesrv", "version"}},
		{"dataplane-client v1.2.3 ", []string{"/usr/bin/dataplane-client", "version"}},
		{"kube_shop__web__", []string{"/usr/bin/routesrv", "compile", "/manifests"}},
	} {
		network, err := sandbox.NewNetwork()
		if err != nil {
			t.Fatal(err)
		}
		defer network.Close()
		var out strings.Builder
		p, err := sandbox.Start(sandbox.Config{
			Root: root, UID: 65532, GID: 65532, Args: try.args, Network: network, Stdout: &out, Stderr: &out,
			Mounts: []sandbox.Mount{{Source: shop, Target: "/manifests", ReadOnly: true}},
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Wait(); err != nil || !strings.Contains(out.String(), try.says) {
			t.Errorf("%s: %v, want %q:\n%s", strings.Join(try.args, " "), err, try.says, &out)
		}
	}
}

// wantFiles checks that a file system has static programs, with the licenses, and nothing else.
func wantFiles(t *testing.T, root string, programs []string) {
	t.Helper()
	want := []string{"usr/share/doc/routesrv/LICENSE -r--r--r--", "usr/share/doc/routesrv/THIRD_PARTY_LICENSES -r--r--r--"}
	for _, name := range programs {
		want = append(want, strings.TrimPrefix(name, "/")+" -r-xr-xr-x")
		f, err := elf.Open(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		if slices.ContainsFunc(f.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP }) {
			t.Errorf("%s needs a dynamic linker", name)
		}
		f.Close()
	}
	slices.Sort(want)
	var got []string
	err := fs.WalkDir(os.DirFS(root), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			got = append(got, name+" "+info.Mode().String())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
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

// buildah runs the command buildah with its own storage.
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

// builder makes an image that Go is mounted into, with a cache at /cache. The programs are copied nevertheless, since buildah looks for
// them before it mounts anything.
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
