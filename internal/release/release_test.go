//go:build linux

package release_test

import (
	"archive/tar"
	"compress/gzip"
	"debug/elf"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/routesrv/routesrv/internal/image"
	"github.com/routesrv/routesrv/internal/release"
	"github.com/routesrv/routesrv/internal/sandbox"
)

// command is the path of the built command release. It is what people run, and it has no race detector in it, which would make
// compression ten times slower.
var command string // made by TestMain, only read by tests

// full makes the tests compile our own sources everywhere: for all architectures, again in another folder, and again in the Dockerfile, both
// from an empty cache. That takes a quarter of an hour of a processor, so it is for releases (make release-check). Without it the sources for
// all that are small ones, and our own are compiled once.
var full = flag.Bool("full", false, "compile our own sources for every comparison, from empty caches")

func TestMain(m *testing.M) {
	if status, done := sandbox.Enter(); done {
		os.Exit(status)
	}
	os.Exit(run(m))
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "release")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	command = filepath.Join(dir, "release")
	build := exec.Command("go", "build", "-trimpath", "-o", command, "../../hack/release")
	build.Env = append(os.Environ(), "CGO_ENABLED=0") // as in the Dockerfile, so that both compile it once
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build release: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}

// makeRelease runs the command for the configuration, and gives what it printed if it failed. The shell prefix is for the umask.
func makeRelease(t *testing.T, c release.Config, shell string, args ...string) error {
	t.Helper()
	args = append([]string{"-c", shell + `exec "$0" "$@"`, command, "-arch", strings.Join(c.Archs, ","), "-plugins", strings.Join(c.Plugins, ",")}, args...)
	cmd := exec.CommandContext(t.Context(), "sh", args...)
	cmd.Dir = c.Source
	cmd.Env = append(os.Environ(), "VERSION="+c.Version, "REVISION="+c.Revision, fmt.Sprint("SOURCE_DATE_EPOCH=", c.Time.Unix()),
		"DOWNLOAD_URL="+c.Download, "BUILDER_ID="+c.Builder)
	cmd.Env = append(cmd.Env, c.Env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

// testRelease is what the tests build.
func testRelease(source string, archs ...string) release.Config {
	return release.Config{
		Source: source, Version: "v0.0.1-test", Revision: "0123456789abcdef0123456789abcdef01234567",
		Time: time.Unix(1_795_000_000, 0), Archs: archs,
		Plugins: []string{"linux/amd64", "darwin/arm64", "windows/amd64"}, // one of each system
	}
}

// sources copies the files of the checkout that git knows or would add, so that they cannot change in the middle.
func sources(t *testing.T) string {
	t.Helper()
	list := exec.CommandContext(t.Context(), "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	list.Dir = "../.."
	names, err := list.Output()
	if err != nil {
		t.Fatalf("%v: %v", list, err)
	}
	dir := t.TempDir()
	for name := range strings.SplitSeq(strings.TrimSuffix(string(names), "\x00"), "\x00") {
		err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755)
		if err == nil {
			err = copySource(filepath.Join(list.Dir, name), filepath.Join(dir, name))
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // removed, and not committed yet
			t.Fatal(err)
		}
	}
	return dir
}

// copySource copies a file, or a symbolic link as it is.
func copySource(from, to string) error {
	info, err := os.Lstat(from)
	if err != nil {
		return err
	}
	if info.Mode().Type() == fs.ModeSymlink {
		target, err := os.Readlink(from)
		if err != nil {
			return err
		}
		return os.Symlink(target, to)
	}
	content, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, content, 0o644)
}

// TestSameBytesFromAnotherFolder builds a release twice: the second time from a repository in another folder, for another user's
// umask. Then it compiles everything for one platform again, from an empty cache; with -full this is for all of them.
func TestSameBytesFromAnotherFolder(t *testing.T) {
	source := smallSources(t)
	if *full {
		source = sources(t)
	}
	c := testRelease(source, "amd64", "arm64")
	first, second := t.TempDir(), filepath.Join(t.TempDir(), "made", "by", "All")
	if err := makeRelease(t, c, "", "-out", first); err != nil {
		t.Fatal(err)
	}
	moved := c
	moved.Source = filepath.Join(t.TempDir(), "another folder", "sources")
	if err := os.CopyFS(moved.Source, os.DirFS(c.Source)); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"init", "-q"}, {"add", "go.mod"}, {"-c", "user.name=n", "-c", "user.email=e", "commit", "-qm", "text"}} {
		git := exec.CommandContext(t.Context(), "git", args...)
		git.Dir = moved.Source
		if out, err := git.CombinedOutput(); err != nil {
			t.Fatalf("%v: %v: %s", git, err, out)
		}
	}
	if *full {
		moved.Env = []string{"GOCACHE=" + t.TempDir()}
	}
	if err := makeRelease(t, moved, "umask 077; ", "-out", second); err != nil {
		t.Fatal(err)
	}
	want, got := sums(t, first), sums(t, second)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("checksums (-first +second):\n%s", diff)
	}
	if !*full {
		t.Run("from an empty cache", func(t *testing.T) { wantSameFromEmptyCache(t, moved, want) })
	}
	t.Run("complete", func(t *testing.T) { wantComplete(t, c, first, want) })
	t.Run("manifests", func(t *testing.T) { wantManifests(t, c, first) })
	t.Run("provenance", func(t *testing.T) { wantProvenance(t, c, first, want) })
	t.Run("image alone", func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "layout")
		if err := makeRelease(t, c, "", "-image", "-out", dir); err != nil {
			t.Fatal(err)
		}
		alone, err := image.Digest(dir)
		if err != nil {
			t.Fatal(err)
		}
		whole, err := image.Digest(unpacked(t, filepath.Join(first, release.ImageFile(c.Version))))
		if err != nil || alone != whole {
			t.Errorf("make image gives %v, make release %v, %v", alone, whole, err)
		}
	})
}

// wantSameFromEmptyCache builds for one platform, with nothing compiled before, and compares what does not depend on the other platforms.
func wantSameFromEmptyCache(t *testing.T, c release.Config, want string) {
	c.Archs, c.Plugins = c.Archs[:1], []string{"linux/" + c.Archs[0]}
	c.Env = []string{"GOCACHE=" + t.TempDir()}
	dir := t.TempDir()
	if err := makeRelease(t, c, "", "-out", dir); err != nil {
		t.Fatal(err)
	}
	compared := 0
	for line := range strings.Lines(sums(t, dir)) {
		if strings.HasSuffix(line, ".tar.gz\n") || strings.HasSuffix(line, ".cdx.json\n") {
			compared++
			if !strings.Contains(want, line) {
				t.Errorf("%swhere the whole release has\n%s", line, want)
			}
		}
	}
	if compared != 4 {
		t.Errorf("%d files compared, want two archives and their bills of materials", compared)
	}
}

// sums reads the checksums of a release, after comparing them with its files.
func sums(t *testing.T, dir string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, release.Sums))
	if err != nil {
		t.Fatal(err)
	}
	check := exec.CommandContext(t.Context(), "sha256sum", "--check", "--strict", "--quiet", release.Sums)
	check.Dir = dir
	if out, err := check.CombinedOutput(); err != nil {
		t.Errorf("%v: %v: %s", check, err, out)
	}
	return string(text)
}

func wantComplete(t *testing.T, c release.Config, dir, sums string) {
	var names, want []string
	for line := range strings.Lines(sums) {
		names = append(names, strings.Fields(line)[1])
	}
	want = append(want, wantPlugin(t, c, dir)...)
	for _, name := range []string{"image.tar", "krew.yaml", "manifests.tar", "notes.md", "provenance.json"} {
		want = append(want, "routesrv_v0.0.1-test_"+name)
	}
	for _, arch := range c.Archs {
		name := "routesrv_v0.0.1-test_linux_" + arch
		want = append(want, name+".cdx.json", name+".tar.gz")
		files := archive(t, filepath.Join(dir, name+".tar.gz"))
		wantFiles := []string{name + "/LICENSE", name + "/THIRD_PARTY_LICENSES", name + "/dataplane-client", name + "/routesrv"}
		if got := slices.Sorted(maps.Keys(files)); !slices.Equal(got, wantFiles) {
			t.Errorf("%s has %q, want %q", name, got, wantFiles)
		}
		for _, b := range release.Binaries {
			wantBinary(t, arch, c.Version, files[name+"/"+b])
		}
		wantSBOM(t, c, "linux", arch, release.Binaries[:], filepath.Join(dir, name+".cdx.json"), string(files[name+"/THIRD_PARTY_LICENSES"]), files[name+"/routesrv"])
	}
	slices.Sort(want)
	if !slices.Equal(names, want) {
		t.Errorf("files %q, want %q", names, want)
	}
}

// archive gives the files of a compressed tar file.
func archive(t *testing.T, name string) map[string][]byte {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	return tarFiles(t, z)
}

// tarFiles gives the files of a tar file.
func tarFiles(t *testing.T, content io.Reader) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	for r := tar.NewReader(content); ; {
		var err error
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.Typeflag == tar.TypeDir {
			continue
		}
		if files[h.Name], err = io.ReadAll(r); err != nil {
			t.Fatal(err)
		}
	}
}

// wantBinary wants a static program for the architecture, which says its version and nothing of the machine it is from.
func wantBinary(t *testing.T, arch, version string, content []byte) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(path, content, 0o755); err != nil {
		t.Fatal(err)
	}
	f, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	machine := map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}[arch]
	if f.Machine != machine {
		t.Errorf("program for %s is for %v", arch, f.Machine)
	}
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP || p.Type == elf.PT_DYNAMIC {
			t.Errorf("program for %s is not static: it has %v", arch, p.Type)
		}
	}
	home, err := os.UserHomeDir()
	if err != nil {
		t.Fatal(err)
	}
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []string{here, filepath.Join(home, "go", "pkg"), goEnv(t, "GOROOT") + "/src"} {
		if strings.Contains(string(content), s) {
			t.Errorf("program for %s, built on %s, has the path %q in it", arch, host, s)
		}
	}
	if arch == runtime.GOARCH {
		out, err := exec.CommandContext(t.Context(), path, "version").Output()
		if err != nil || !strings.Contains(string(out), " "+version+" ") {
			t.Errorf("version: %q, %v", out, err)
		}
	}
}

func TestVersionHasToBeGoodAsATag(t *testing.T) {
	c := testRelease(smallSources(t), runtime.GOARCH)
	for _, v := range []string{"", "v1+x", "a b", "-X", strings.Repeat("v", 129)} {
		c.Version = v
		if err := release.Compile(t.Context(), c, runtime.GOARCH, t.TempDir()); err == nil || !strings.Contains(err.Error(), "version") {
			t.Errorf("version %q: %v", v, err)
		}
	}
}

func TestReleaseDoesNotMixWithOldFiles(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "old"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := makeRelease(t, testRelease(smallSources(t), runtime.GOARCH), "", "-out", dir); err == nil || !strings.Contains(err.Error(), "old") {
		t.Errorf("error %v", err)
	}
}
