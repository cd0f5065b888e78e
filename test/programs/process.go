package programs

import (
	"bufio"
	"encoding/base64"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// Process is a running routesrv or dataplane-client. Only the goroutine of the test may start or end it; any
// may call Log.
type Process struct {
	Cmd           *exec.Cmd
	Main, Support string // base URLs of the listeners
	State         string // the state folder, which has the control socket; empty if there is none

	done  chan error
	ended bool // done was received

	mu    sync.Mutex
	lines []string
}

// Start starts a binary that serves on the addresses, which are HOST:PORT. It ends with the test, which shows its log if it fails.
func Start(t testing.TB, path, main, support string, args []string) *Process {
	t.Helper()
	p := &Process{
		Cmd:  exec.Command(path, args...),
		Main: "http://" + main, Support: "http://" + support, done: make(chan error, 1),
	}
	for _, a := range args {
		if path, ok := strings.CutPrefix(a, "--state-dir="); ok {
			p.State = path
		}
	}
	stderr, err := p.Cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		for lines := bufio.NewScanner(stderr); lines.Scan(); {
			p.mu.Lock()
			p.lines = append(p.lines, lines.Text())
			p.mu.Unlock()
		}
		p.done <- p.Cmd.Wait()
	}()
	t.Cleanup(func() {
		p.Stop(t)
		if t.Failed() {
			t.Logf("log of %s:\n%s", filepath.Base(path), p.Log())
		}
	})
	return p
}

// Log returns what the process has written to its standard error.
func (p *Process) Log() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(p.lines, "\n")
}

// Stop ends the process as Kubernetes does, and requires a clean end. It may be called repeatedly.
func (p *Process) Stop(t testing.TB) {
	t.Helper()
	if p.ended {
		return
	}
	p.ended = true
	if err := p.Cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return
	}
	select {
	case err := <-p.done:
		if err != nil {
			t.Errorf("%s ended with %v", filepath.Base(p.Cmd.Path), err)
		}
	case <-time.After(Patience):
		p.Cmd.Process.Kill()
		t.Errorf("%s did not end on SIGTERM", filepath.Base(p.Cmd.Path))
	}
}

// Kill ends the process as the kernel does when memory runs out.
func (p *Process) Kill(t testing.TB) {
	t.Helper()
	p.ended = true
	if err := p.Cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-p.done
}

// Wait waits until the process has ended by itself, or by a signal that the test sent, and returns the result of exec.Cmd.Wait.
func (p *Process) Wait() error {
	err := <-p.done
	p.ended = true
	return err
}

// Ready waits for the first table.
func (p *Process) Ready(t testing.TB) {
	t.Helper()
	Eventually(t, "a first table", func() bool {
		a, err := Fetch(t.Context(), p.Main+"/health", "")
		return err == nil && a.Status == http.StatusNoContent
	})
}

// picked counts the ports that FreeAddress has picked in this process.
var picked atomic.Uint32

// FreeAddress returns an address of the loopback interface with no listener. Its port is none that the kernel gives to those who
// ask for any, and this process picks it once: so it stays free until the program listens there, and while a test has ended that
// program. Processes begin at different ports.
func FreeAddress(t testing.TB) string {
	t.Helper()
	return mustAddresses(t, 1)[0]
}

// FreeAddresses returns two such addresses with ports in a row.
func FreeAddresses(t testing.TB) (first, second string) {
	t.Helper()
	both := mustAddresses(t, 2)
	return both[0], both[1]
}

func mustAddresses(t testing.TB, n uint32) []string {
	t.Helper()
	all, err := Addresses(n)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// Addresses returns such addresses, with ports in a row.
func Addresses(n uint32) ([]string, error) {
	const first, ports = 20000, 10000
	var err error
	for range 100 {
		port := (uint32(os.Getpid())*977 + picked.Add(n) - n) % ports
		var free []string
		for i := range n {
			var l net.Listener
			if l, err = net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", first+port+i)); err != nil {
				break
			}
			l.Close()
			free = append(free, l.Addr().String())
		}
		if err == nil {
			return free, nil
		}
	}
	return nil, err
}

// Kubeconfig writes a kubeconfig for an API server with a certificate of the authority (PEM), and returns its path.
func Kubeconfig(t testing.TB, url string, authority []byte, token string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	text := fmt.Sprintf(`apiVersion: v1
kind: Config
current-context: e2e
clusters: [{name: e2e, cluster: {server: %q, certificate-authority-data: %s}}]
users: [{name: e2e, user: {token: %q}}]
contexts: [{name: e2e, context: {cluster: e2e, user: e2e}}]
`, url, base64.StdEncoding.EncodeToString(authority), token)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
