//go:build linux

package release_test

import (
	"bytes"
	"context"
	"debug/elf"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/routesrv/routesrv/internal/image"
	"github.com/routesrv/routesrv/internal/release"
	"github.com/routesrv/routesrv/internal/sandbox"
)

// TestReleaseOfTheseSources makes a release of our own sources for this machine's architecture, and looks at it in every way that there is.
func TestReleaseOfTheseSources(t *testing.T) {
	c := testRelease(sources(t), runtime.GOARCH)
	c.Plugins = []string{"linux/" + runtime.GOARCH}
	dir := t.TempDir()
	if err := makeRelease(t, c, "", "-out", dir); err != nil {
		t.Fatal(err)
	}
	img, err := image.Open(unpacked(t, filepath.Join(dir, release.ImageFile(c.Version))), runtime.GOARCH)
	if err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	if err := image.Unpack(img, root); err != nil {
		t.Fatal(err)
	}
	t.Run("IsComplete", func(t *testing.T) { wantComplete(t, c, dir, sums(t, dir)) })
	t.Run("HasTheProgramsAndNothingElse", func(t *testing.T) { wantProgramsOnly(t, root) })
	t.Run("IsLabelled", func(t *testing.T) { wantLabels(t, c, img) })
	t.Run("RunsOnAReadOnlyTreeWithoutRights", func(t *testing.T) { wantItRuns(t, c, img, root) })
	t.Run("IsWhatTheDockerfileMakes", func(t *testing.T) { wantSameFromDockerfile(t, c, img) })
}

// unpacked gives a folder with the files of a tar file.
func unpacked(t *testing.T, name string) string {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	dir := t.TempDir()
	for name, content := range tarFiles(t, f) {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func wantProgramsOnly(t *testing.T, root string) {
	var got []string
	err := fs.WalkDir(os.DirFS(root), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		got = append(got, name+" "+info.Mode().String())
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"usr/bin/dataplane-client -r-xr-xr-x", "usr/bin/routesrv -r-xr-xr-x",
		"usr/share/doc/routesrv/LICENSE -r--r--r--", "usr/share/doc/routesrv/THIRD_PARTY_LICENSES -r--r--r--",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	for _, b := range release.Binaries {
		f, err := elf.Open(filepath.Join(root, "usr/bin", b))
		if err != nil {
			t.Fatal(err)
		}
		if slices.ContainsFunc(f.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP }) {
			t.Errorf("%s needs a dynamic linker", b)
		}
		f.Close()
	}
}

func wantLabels(t *testing.T, c release.Config, img v1.Image) {
	config, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	const prefix = "org.opencontainers.image."
	for key, want := range map[string]string{
		"title": "routesrv", "version": c.Version, "revision": c.Revision, "licenses": "Apache-2.0",
		"created": c.Time.UTC().Format(time.RFC3339),
	} {
		if got := config.Config.Labels[prefix+key]; got != want {
			t.Errorf("label %s is %q, want %q", key, got, want)
		}
	}
	if config.Config.Labels[prefix+"description"] == "" {
		t.Error("no description")
	}
	if user := config.Config.User; user != "65532:65532" {
		t.Errorf("user %q", user)
	}
	if e := config.Config.Entrypoint; !slices.Equal(e, []string{"/usr/bin/routesrv"}) {
		t.Errorf("entrypoint %q", e)
	}
}

// runner starts programs of an unpacked image as the image says.
type runner struct {
	root, user string
	net        *sandbox.Network
}

// run starts a program. What it prints is shown if the test fails.
func (r runner) run(t *testing.T, mounts []sandbox.Mount, args ...string) (*sandbox.Process, *output) {
	t.Helper()
	var uid, gid uint32
	if _, err := fmt.Sscanf(r.user, "%d:%d", &uid, &gid); err != nil || uid == 0 || gid == 0 {
		t.Fatalf("user %q of the image: want numbers that are not root's: %v", r.user, err)
	}
	out := &output{}
	p, err := sandbox.Start(sandbox.Config{
		Root: r.root, Mounts: mounts, UID: uid, GID: gid, Args: args, Network: r.net, Stdout: out, Stderr: out,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.Signal(syscall.SIGKILL)
		<-p.Done()
		if t.Failed() {
			t.Logf("output of %s:\n%s", args[0], out)
		}
	})
	return p, out
}

// output keeps what a process prints.
type output struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}

func wantItRuns(t *testing.T, c release.Config, img v1.Image, root string) {
	config, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	network, err := sandbox.NewNetwork()
	if err != nil {
		t.Fatal(err)
	}
	defer network.Close()
	r := runner{root, config.Config.User, network}
	for _, b := range release.Binaries {
		p, out := r.run(t, nil, "/usr/bin/"+b, "version")
		if err := p.Wait(); err != nil || !strings.HasPrefix(out.String(), b+" "+c.Version+" ") {
			t.Errorf("%s version: %v: %s", b, err, out)
		}
	}
	shop, err := filepath.Abs("../../examples/shop")
	if err != nil {
		t.Fatal(err)
	}
	server, _ := r.run(t, []sandbox.Mount{{Source: shop, Target: "/manifests", ReadOnly: true}},
		append(slices.Clone(config.Config.Entrypoint), "--manifests=/manifests", "-wait-for-healthcheck-interval=0s")...)
	table := awaitTable(t, server, network, "127.0.0.1:9090")
	if !strings.Contains(table, "kube_shop__web__") {
		t.Errorf("table without the shop: %s", table)
	}
	kept := t.TempDir()
	if err := os.Chmod(kept, 0o777); err != nil { // as an emptyDir is
		t.Fatal(err)
	}
	client, _ := r.run(t, []sandbox.Mount{{Source: kept, Target: "/kept"}},
		"/usr/bin/dataplane-client", "--mode=Exec", "--routesrv-url=http://127.0.0.1:9090", "--state-dir=/kept")
	if got := awaitTable(t, client, network, "127.0.0.1:9005"); got != table {
		t.Errorf("the table of the data plane (-server +data plane):\n%s", cmp.Diff(table, got))
	}
	awaitFile(t, filepath.Join(kept, "table.eskip"), table)
	for name, p := range map[string]*sandbox.Process{"dataplane-client": client, "routesrv": server} {
		if err := p.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		if err := p.Wait(); err != nil {
			t.Errorf("%s ended with %v on SIGTERM", name, err)
		}
	}
}

// awaitFile waits for a file with the text in it: a table is kept after it is served.
func awaitFile(t *testing.T, path, want string) {
	t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for {
		text, err := os.ReadFile(path)
		if err == nil && strings.Contains(string(text), want) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the kept table: %v: %s", err, text)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// awaitTable asks a listener in the network until it gives a table.
func awaitTable(t *testing.T, p *sandbox.Process, network *sandbox.Network, at string) string {
	t.Helper()
	client := http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, address string) (net.Conn, error) {
			to, err := netip.ParseAddrPort(address)
			if err != nil {
				return nil, err
			}
			return network.Dial(ctx, to)
		},
	}}
	deadline := time.After(30 * time.Second)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		text, err := table(t.Context(), &client, "http://"+at+"/routes")
		if err == nil {
			return text
		}
		select {
		case <-p.Done():
			t.Fatalf("%s: the program ended: %v", at, p.Wait())
		case <-deadline:
			t.Fatalf("%s: %v", at, err)
		case <-tick.C:
		}
	}
}

func table(ctx context.Context, client *http.Client, url string) (string, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	resp, err := client.Do(r)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("status %d: %s", resp.StatusCode, body)
	}
	return string(body), err
}
