package e2e

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

const (
	// patience is how long anything may take before a test gives up. It affects nothing else.
	patience = 2 * time.Minute
	// pollMillis is the poll interval of the server in these tests.
	pollMillis = 300
)

// process is a running routesrv or dataplane-client.
type process struct {
	cmd           *exec.Cmd
	main, support string // base URLs
	done          chan error
	ended         bool // done was received

	mu    sync.Mutex
	lines []string
}

// freeAddress returns an address of the loopback interface with no listener.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// kubeconfig writes a kubeconfig for the API behind the proxy, with the token.
func kubeconfig(t *testing.T, api *faultProxy, token string) string {
	t.Helper()
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: api.Certificate().Raw})
	return writeKubeconfig(t, api.URL, authority, token)
}

// writeKubeconfig writes a kubeconfig for an API server with a certificate of the authority (PEM).
func writeKubeconfig(t *testing.T, url string, authority []byte, token string) string {
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

// startRoutesrv starts the built binary with the product's ServiceAccount; it reads the API behind the proxy.
func startRoutesrv(t *testing.T, api *faultProxy, args ...string) *process {
	t.Helper()
	token, err := api.cluster.token(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return startWithToken(t, api, token, args...)
}

func startWithToken(t *testing.T, api *faultProxy, token string, args ...string) *process {
	t.Helper()
	main, support := freeAddress(t), freeAddress(t)
	all := append([]string{"-address=" + main, "-support-listener=" + support, "-wait-for-healthcheck-interval=0s"},
		sourceArgs(t, api, token)...)
	return startProcess(t, binary, main, support, append(all, args...))
}

// sourceArgs returns arguments that make either binary read the API with the token.
func sourceArgs(t *testing.T, api *faultProxy, token string) []string {
	t.Helper()
	return []string{
		"-kubernetes", "--kubeconfig=" + kubeconfig(t, api, token), "-enable-kubernetes-endpointslices",
		fmt.Sprintf("-source-poll-timeout=%d", pollMillis),
	}
}

// startProcess starts a binary that serves on the addresses. It detects its end, and shows its log if the test fails.
func startProcess(t *testing.T, path, main, support string, args []string) *process {
	t.Helper()
	p := &process{
		cmd:  exec.Command(path, args...),
		main: "http://" + main, support: "http://" + support, done: make(chan error, 1),
	}
	stderr, err := p.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		for lines := bufio.NewScanner(stderr); lines.Scan(); {
			p.mu.Lock()
			p.lines = append(p.lines, lines.Text())
			p.mu.Unlock()
		}
		p.done <- p.cmd.Wait()
	}()
	t.Cleanup(func() {
		p.stop(t)
		if t.Failed() {
			t.Logf("log of %s:\n%s", filepath.Base(path), p.log())
		}
	})
	return p
}

func (p *process) log() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(p.lines, "\n")
}

// stop ends the process as Kubernetes does, and requires a clean end. It may be called repeatedly.
func (p *process) stop(t *testing.T) {
	t.Helper()
	if p.ended {
		return
	}
	p.ended = true
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return
	}
	select {
	case err := <-p.done:
		if err != nil {
			t.Errorf("%s ended with %v", filepath.Base(p.cmd.Path), err)
		}
	case <-time.After(patience):
		p.cmd.Process.Kill()
		t.Errorf("%s did not end on SIGTERM", filepath.Base(p.cmd.Path))
	}
}

// kill ends the process as the kernel does when memory runs out.
func (p *process) kill(t *testing.T) {
	t.Helper()
	p.ended = true
	if err := p.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-p.done
}

// answer is the answer to a request.
type answer struct {
	status int
	header http.Header
	body   string
}

// get asks the main listener; a non-empty etag makes the request conditional.
func (p *process) get(t *testing.T, path, etag string) answer {
	t.Helper()
	a, err := fetch(t.Context(), p.main+path, etag)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func fetch(ctx context.Context, url, etag string) (answer, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return answer{}, err
	}
	return do(r, etag)
}

// do sends a request; a non-empty etag makes it conditional.
func do(r *http.Request, etag string) (answer, error) {
	if etag != "" {
		r.Header.Set("If-None-Match", etag)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return answer{resp.StatusCode, resp.Header, string(body)}, err
}

// eventually polls until the condition holds.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("waited %v for: %s", patience, what)
		}
		<-tick.C
	}
}

// ready waits for the first table.
func (p *process) ready(t *testing.T) {
	t.Helper()
	eventually(t, "a first table", func() bool {
		a, err := fetch(t.Context(), p.main+"/health", "")
		return err == nil && a.status == http.StatusNoContent
	})
}

// supportJSON decodes an answer of the support listener.
func (p *process) supportJSON(t *testing.T, path string, v any) {
	t.Helper()
	a, err := fetch(t.Context(), p.support+path, "")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(a.body), v); err != nil {
		t.Fatalf("%s: %v: %s", path, err, a.body)
	}
}

// statusBody is the part of /status that the tests read.
type statusBody struct {
	Table *struct {
		Digest   string `json:"digest"`
		Routes   int    `json:"routes"`
		Revision uint64 `json:"revision"`
		Stale    bool   `json:"stale"`
	} `json:"table"`
	Source struct {
		LastSuccess time.Time `json:"last_success"`
		Failures    int       `json:"failures"`
		LastError   string    `json:"last_error"`
		Revision    uint64    `json:"revision"`
	} `json:"source"`
}

func (p *process) status(t *testing.T) statusBody {
	t.Helper()
	var s statusBody
	p.supportJSON(t, "/status", &s)
	return s
}

// compileManifests returns the output of routesrv compile for a folder.
func compileManifests(t *testing.T, wantExit int, args ...string) (table, problems string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), binary, append([]string{"compile", "-enable-kubernetes-endpointslices"}, args...)...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if code := cmd.ProcessState.ExitCode(); code != wantExit {
		t.Fatalf("routesrv compile: exit %d, want %d: %v: %s", code, wantExit, err, stderr.String())
	}
	return strings.TrimSuffix(string(out), "\n"), stderr.String()
}
