//go:build linux

package sandbox_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/routesrv/routesrv/test/sandbox"
)

func TestMain(m *testing.M) {
	if status, done := sandbox.Enter(); done {
		os.Exit(status)
	}
	goleak.VerifyTestMain(m)
}

// report is what testdata/probe prints.
type report struct {
	UID, GID          int
	Groups            []int
	Env, Args         []string
	Hostname          string
	Capabilities      string
	NoNewPrivileges   string
	Root              []string
	WriteRoot         string
	WriteData         string
	WriteFixed        string
	Escape            string
	Remount           string
	NetworkInterfaces []string
}

// folder returns a folder that has the probe as /probe and is open to all users.
func folder(t *testing.T) string {
	t.Helper()
	// Not below t.TempDir, whose folders only their owner may enter.
	dir, err := os.MkdirTemp("", "sandbox-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	build := exec.CommandContext(t.Context(), "go", "build", "-o", filepath.Join(dir, "probe"), "./testdata/probe")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v: %s", build, err, out)
	}
	return dir
}

func shared(t *testing.T, mode os.FileMode) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.Chmod(dir, mode); err != nil {
		t.Fatal(err)
	}
	return dir
}

func probe(t *testing.T, c sandbox.Config) report {
	t.Helper()
	var out, stderr bytes.Buffer
	c.Stdout, c.Stderr = &out, &stderr
	p, err := sandbox.Start(c)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Wait(); err != nil {
		t.Fatalf("%v: %s", err, &stderr)
	}
	var r report
	if err := json.Unmarshal(out.Bytes(), &r); err != nil {
		t.Fatalf("%v: %s", err, &out)
	}
	return r
}

func TestProgramCanDoNothingButWhatItIsGiven(t *testing.T) {
	data, fixed := shared(t, 0o777), shared(t, 0o777)
	c := sandbox.Config{
		Root: folder(t), UID: 65532, GID: 65532, Args: []string{"/probe"}, Env: []string{"A=b"}, Hostname: "pod-1",
		Mounts: []sandbox.Mount{{Source: data, Target: "/data"}, {Source: fixed, Target: "/fixed", ReadOnly: true}},
	}
	got := probe(t, c)
	for _, denied := range []*string{&got.WriteRoot, &got.WriteFixed, &got.Escape, &got.Remount} {
		if *denied == "" {
			t.Errorf("something was possible that must not be: %+v", got)
		}
		*denied = ""
	}
	got.NetworkInterfaces = nil
	want := report{
		UID: 65532, GID: 65532, Env: []string{"A=b"}, Hostname: "pod-1", Capabilities: "0000000000000000", NoNewPrivileges: "1",
		Root: []string{"data", "dev", "fixed", "probe", "proc"},
	}
	if diff := cmp.Diff(want, got, cmp.Transformer("empty", func(s []string) []string {
		if len(s) == 0 {
			return nil
		}
		return s
	}), cmp.FilterPath(func(p cmp.Path) bool { return p.Last().String() == ".Groups" }, cmp.Ignore())); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if _, err := os.Stat(filepath.Join(data, "new")); err != nil {
		t.Error("the mounted folder has not what the program wrote:", err)
	}
	if mounts, err := os.ReadFile("/proc/self/mountinfo"); err != nil || strings.Contains(string(mounts), c.Root) {
		t.Error("the mounts are visible outside", err)
	}
}

func TestWritableRootIsWritableForItsOwner(t *testing.T) {
	root := folder(t)
	if err := os.Chmod(root, 0o777); err != nil {
		t.Fatal(err)
	}
	if r := probe(t, sandbox.Config{Root: root, Writable: true, UID: 65532, GID: 65532, Args: []string{"/probe"}}); r.WriteRoot != "" {
		t.Error(r.WriteRoot)
	}
}

func TestProgramServesInItsNetwork(t *testing.T) {
	pod := netip.MustParseAddr("192.0.2.3")
	n, err := sandbox.NewNetwork(pod)
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	at := netip.AddrPortFrom(pod, 8080)
	var out, stderr bytes.Buffer
	p, err := sandbox.Start(sandbox.Config{
		Root: folder(t), UID: 65532, GID: 65532, Args: []string{"/probe", at.String()}, Network: n, Stdout: &out, Stderr: &stderr,
	})
	if err != nil {
		t.Fatal(err)
	}
	client := http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext:       func(ctx context.Context, _, _ string) (net.Conn, error) { return n.Dial(ctx, at) },
	}}
	deadline := time.Now().Add(20 * time.Second)
	for {
		resp, err := client.Get("http://" + at.String())
		if err == nil {
			body, _ := io.ReadAll(resp.Body)
			resp.Body.Close()
			if string(body) != "hello" {
				t.Errorf("body %q", body)
			}
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%v: %s", err, &stderr)
		}
		time.Sleep(10 * time.Millisecond) // a separate process: only its port shows when it is ready
	}
	if _, err := n.Dial(t.Context(), netip.MustParseAddrPort("192.0.2.4:8080")); err == nil {
		t.Error("an address that nobody has can be reached")
	}
	if err := p.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := p.Wait(); err != nil {
		t.Error(err)
	}
	var r report
	if err := json.Unmarshal(out.Bytes(), &r); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(r.NetworkInterfaces, []string{"lo"}) {
		t.Errorf("interfaces %v", r.NetworkInterfaces)
	}
}

func TestNetworkIsReachedFromInsideOnly(t *testing.T) {
	n, err := sandbox.NewNetwork()
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	at := netip.MustParseAddrPort("127.0.0.1:443")
	l, err := n.Listen(at)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := n.Dial(t.Context(), at)
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
	if c, err := net.DialTimeout("tcp", at.String(), time.Second); err == nil {
		c.Close()
		t.Error("the port can be reached from outside")
	}
}

func TestNetworkIsClosedWhileOthersDial(t *testing.T) {
	n, err := sandbox.NewNetwork()
	if err != nil {
		t.Fatal(err)
	}
	var dialing sync.WaitGroup
	for range 4 {
		dialing.Go(func() {
			for errors.Is(dialOnce(t.Context(), n), syscall.ECONNREFUSED) {
			}
		})
	}
	if err := n.Close(); err != nil {
		t.Error(err)
	}
	dialing.Wait()
}

// dialOnce connects to an address on which nothing listens.
func dialOnce(ctx context.Context, n *sandbox.Network) error {
	c, err := n.Dial(ctx, netip.MustParseAddrPort("127.0.0.1:9"))
	if err == nil {
		c.Close()
	}
	return err
}

func TestErrorsSayWhatCannotBeStarted(t *testing.T) {
	root := shared(t, 0o755)
	for want, c := range map[string]sandbox.Config{
		"absolute path":   {Root: root, Args: []string{"probe"}},
		"no such file":    {Root: root, Args: []string{"/nothing"}},
		"/no/such/folder": {Root: root, Args: []string{"/probe"}, Mounts: []sandbox.Mount{{Source: "/no/such/folder", Target: "/x"}}},
	} {
		c.UID, c.GID = 65532, 65532
		if _, err := sandbox.Start(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q in it", err, want)
		}
	}
}
