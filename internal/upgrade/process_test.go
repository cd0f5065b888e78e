package upgrade_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// patience is how long a test waits before it gives up. It has no other effect.
const patience = time.Minute

// process is a running program. If the test fails, its log is printed.
type process struct {
	t             *testing.T
	cmd           *exec.Cmd
	log           *output
	ended         chan struct{}
	main, support string // base URLs
}

// output collects what a process prints.
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

// start starts a program with both listeners on free ports. It does not read the ports from the log, because versions
// may log differently.
func start(t *testing.T, path string, args ...string) *process {
	t.Helper()
	main, support := freeAddress(t), freeAddress(t)
	p := &process{t: t, log: &output{}, ended: make(chan struct{}), main: "http://" + main, support: "http://" + support}
	p.cmd = exec.Command(path, append([]string{"--address=" + main, "--support-listener=" + support}, args...)...)
	p.cmd.Stderr = p.log
	p.cmd.Env = append(os.Environ(), "GOMAXPROCS=1")
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { defer close(p.ended); _ = p.cmd.Wait() }()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-p.ended
		if t.Failed() {
			t.Logf("log of %s %s:\n%s", path, strings.Join(args, " "), tail(p.log.String()))
		}
	})
	return p
}

// used counts the addresses given out.
var used atomic.Uint32

// freeAddress returns a loopback address that nobody listens on. On Linux each has its own IP address, so no other
// process takes its port before the program does.
func freeAddress(t *testing.T) string {
	t.Helper()
	ip := "127.0.0.1"
	if runtime.GOOS == "linux" {
		pid := os.Getpid()
		ip = fmt.Sprintf("127.%d.%d.%d", 1+pid/250%250, 1+pid%250, 1+used.Add(1)%250)
	}
	l, err := net.Listen("tcp", ip+":0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// server starts a route server or a relay that writes its state into a folder.
func (v *programs) server(t *testing.T, state string, args ...string) *process {
	t.Helper()
	return start(t, v.routesrv, append([]string{"-wait-for-healthcheck-interval=0s", "-source-poll-timeout=200", "--state-dir=" + state}, args...)...)
}

// sidecar starts a sidecar that fetches from a URL and saves its table in the folder state.
func (v *programs) sidecar(t *testing.T, state, name, url string, args ...string) *process {
	t.Helper()
	return start(t, v.client, append([]string{
		"--mode=Exec", "--fallback=never", "--fetch-interval=200ms", "--routesrv-url=" + url, "--pod-name=" + name, "--lkg-file=" + filepath.Join(state, "lkg.eskip"),
	}, args...)...)
}

// stop ends a process the way Kubernetes does.
func (p *process) stop() {
	p.t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		p.t.Fatal(err)
	}
	select {
	case <-p.ended:
	case <-time.After(patience):
		p.t.Fatal("no end after SIGTERM")
	}
	if code := p.cmd.ProcessState.ExitCode(); code != 0 {
		p.t.Errorf("exit status %d", code)
	}
}

// get returns the body and the header of an answer with status 200.
func get(url string) (string, http.Header, error) {
	client := http.Client{Timeout: 10 * time.Second}
	resp, err := client.Get(url)
	if err != nil {
		return "", nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: status %d: %s", url, resp.StatusCode, body)
	}
	return string(body), resp.Header, err
}

// status decodes /status of the support listener.
func (p *process) status(into any) error {
	text, _, err := get(p.support + "/status")
	if err != nil {
		return err
	}
	return json.Unmarshal([]byte(text), into)
}

// until waits until check returns nil.
func until(t *testing.T, what string, check func() error) {
	t.Helper()
	var err error
	for deadline := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		if err = check(); err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: %v", what, err)
		}
	}
}

// awaitTable waits until a process serves exactly the table.
func (p *process) awaitTable(what, want string) {
	p.t.Helper()
	until(p.t, what, func() error {
		got, _, err := get(p.main + "/routes")
		if err == nil && got != want {
			err = fmt.Errorf("%d bytes, want %d", len(got), len(want))
		}
		return err
	})
}

// awaitRoute waits for a table with the text in it, and returns the table.
func (p *process) awaitRoute(text string) (table string) {
	p.t.Helper()
	until(p.t, "a table with "+text, func() (err error) {
		table, _, err = get(p.main + "/routes")
		if err == nil && !strings.Contains(table, text) {
			err = errors.New("not in it: " + table)
		}
		return err
	})
	return table
}

// ask runs a command of routesrv and returns its output and exit status.
func (v *programs) ask(t *testing.T, args ...string) (string, int) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), v.routesrv, args...).CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	if exit != nil {
		return string(out), exit.ExitCode()
	}
	return string(out), 0
}

// shop writes the manifests of the examples into a new folder.
func shop(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("../../examples/shop")); err != nil {
		t.Fatal(err)
	}
	return dir
}

// addIngress adds an Ingress for a host and removes nothing.
func addIngress(t *testing.T, manifests, name string) {
	t.Helper()
	text := fmt.Sprintf(`apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: %[1]s, namespace: shop}
spec:
  rules:
    - host: %[1]s.example.org
      http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: web, port: {number: 80}}}}]}
`, name)
	// Rename the file into place: a server must not read half of it.
	temporary := filepath.Join(t.TempDir(), "new")
	if err := os.WriteFile(temporary, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(temporary, filepath.Join(manifests, name+".yaml")); err != nil {
		t.Fatal(err)
	}
}

// tail drops the lines that a log repeats.
func tail(log string) string {
	var kept []string
	for line := range strings.Lines(log) {
		if !strings.Contains(line, `msg="routes did not change"`) {
			kept = append(kept, line)
		}
	}
	return strings.Join(kept, "")
}
