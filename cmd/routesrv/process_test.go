package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/routesrv/routesrv/app/program"
)

// asProgram turns the test binary into the program, for tests that need a separate process.
const asProgram = "ROUTESRV_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
	}
	goleak.VerifyTestMain(m)
}

// process is the running program.
type process struct {
	t             *testing.T
	cmd           *exec.Cmd
	main, support string // base URLs

	mu    sync.Mutex
	lines []string
	more  chan struct{} // closed when another line arrives, or when the output ends
	ended bool
}

// start runs the program with its listeners on free ports of the loopback interface, and waits until both are open. openFiles is
// the limit of open files as for ulimit -n; an empty text leaves the limit unchanged.
func start(t *testing.T, openFiles string, args ...string) *process {
	t.Helper()
	all := append([]string{os.Args[0], "-address=127.0.0.1:0", "-support-listener=127.0.0.1:0", "-wait-for-healthcheck-interval=0s"}, args...)
	if openFiles != "" {
		all = append([]string{"/bin/sh", "-c", "ulimit -n " + openFiles + ` && exec "$0" "$@"`}, all...)
	}
	p := &process{t: t, cmd: exec.Command(all[0], all[1:]...), more: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), asProgram+"=1")
	stderr, err := p.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var reading sync.WaitGroup
	reading.Go(func() {
		for lines := bufio.NewScanner(stderr); lines.Scan(); {
			p.line(lines.Text(), false)
		}
		p.line("", true)
	})
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		reading.Wait()
		_ = p.cmd.Wait()
		if t.Failed() {
			t.Logf("log:\n%s", p.log())
		}
	})
	p.main = "http://" + p.waitFor(`msg="main listener open".* address=(\S+)`)
	p.support = "http://" + p.waitFor(`msg="support listener open".* address=(\S+)`)
	return p
}

func (p *process) line(text string, last bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended = last; !last {
		p.lines = append(p.lines, text)
	}
	close(p.more)
	p.more = make(chan struct{})
}

func (p *process) log() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(p.lines, "\n")
}

// waitFor waits for a line of the log that matches, and returns its first group.
func (p *process) waitFor(expression string) string {
	p.t.Helper()
	rx := regexp.MustCompile(expression)
	for seen := 0; ; {
		p.mu.Lock()
		lines, more, ended := p.lines[seen:], p.more, p.ended
		p.mu.Unlock()
		for _, line := range lines {
			if found := rx.FindStringSubmatch(line); found != nil {
				return found[len(found)-1]
			}
		}
		if ended {
			p.t.Fatalf("the program ended without a line %s", expression)
		}
		seen += len(lines)
		select {
		case <-more:
		case <-p.t.Context().Done():
			p.t.Fatalf("no line %s", expression)
		}
	}
}

// get sends a request on a new connection.
func (p *process) get(url string) (status int, body string, err error) {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: time.Minute}
	res, err := client.Get(url)
	if err != nil {
		return 0, "", err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	return res.StatusCode, string(text), err
}

// eventually repeats a check until it holds.
func (p *process) eventually(what string, ok func() bool) {
	p.t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-p.t.Context().Done():
			p.t.Fatalf("waited for: %s", what)
		}
	}
}

func (p *process) ready() {
	p.t.Helper()
	p.eventually("a table", func() bool {
		status, _, err := p.get(p.main + "/health")
		return err == nil && status == http.StatusNoContent
	})
}

const ingressForm = `apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: web, namespace: shop}
spec:
  rules:
  - host: shop.example.org
    http: {paths: [{path: %s, pathType: Prefix, backend: {service: {name: web, port: {number: 80}}}}]}
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: shop}
spec: {clusterIP: 10.0.0.1, type: ClusterIP, ports: [{port: 80, targetPort: 80}]}
---
apiVersion: v1
kind: Endpoints
metadata: {name: web, namespace: shop}
subsets: [{addresses: [{ip: 10.2.0.1}], ports: [{port: 80}]}]
`

func TestHangupReadsTheSourceAtOnceAndEndsNothing(t *testing.T) {
	file := filepath.Join(t.TempDir(), "web.yaml")
	write := func(path string) {
		if err := os.WriteFile(file, fmt.Appendf(nil, ingressForm, path), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("/one")
	p := start(t, "", "--manifests="+filepath.Dir(file), "-source-poll-timeout=3600000")
	p.ready()
	write("/two")
	if err := p.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	p.eventually("the changed table", func() bool {
		_, body, err := p.get(p.main + "/routes")
		return err == nil && strings.Contains(body, `PathSubtree("/two")`)
	})
	p.waitFor("SIGHUP: reading the source now")
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Wait(); err != nil {
		t.Errorf("the end after SIGHUP and SIGTERM: %v", err)
	}
}

func TestGOGCHasTheLastWord(t *testing.T) {
	for set, want := range map[string]string{"": "30", "80": "80"} {
		t.Setenv("GOGC", set)
		p := start(t, "", "--manifests=../../examples/shop")
		if _, body, err := p.get(p.support + "/metrics"); err != nil || !strings.Contains(body, "\ngo_gc_gogc_percent "+want+"\n") {
			t.Errorf("with GOGC=%s: %v, want %s %% of garbage in:\n%s", set, err, want, body)
		}
	}
}

// When connections exceed the limit of open files, probes are still answered, and so are clients, one after another.
func TestProbesAreAnsweredWithoutFreeDescriptors(t *testing.T) {
	p := start(t, "256", "--manifests="+shop)
	p.ready()
	address := strings.TrimPrefix(p.main, "http://")
	var open []net.Conn
	defer func() {
		for _, conn := range open {
			conn.Close()
		}
	}()
	for i := range 700 {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		open = append(open, conn)
		if i%3 == 0 { // a partial request, as from a slow client
			fmt.Fprint(conn, "GET /routes HTTP/1.1\r\nHost: x\r\n")
		}
		if i%50 != 0 {
			continue
		}
		if status, _, err := p.get(p.support + "/health"); err != nil || status != http.StatusNoContent {
			t.Fatalf("probe beside %d connections: %d, %v", len(open), status, err)
		}
	}
	if status, _, err := p.get(p.main + "/routes"); err != nil || status != http.StatusOK {
		t.Errorf("a client beside %d connections: %d, %v", len(open), status, err)
	}
	_, metrics, err := p.get(p.support + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`routesrv_connections_limit{listener="main"} 128`, `routesrv_connections{listener="support"} 1`} {
		if !strings.Contains(metrics, want+"\n") {
			t.Errorf("metrics lack %s", want)
		}
	}
	if regexp.MustCompile(`routesrv_connections_evicted_total{listener="main"} 0\n`).MatchString(metrics) {
		t.Error("no idle connection made room")
	}
	if strings.Contains(p.log(), "too many open files") {
		t.Error("the process ran out of descriptors")
	}
}

// A FIFO in place of a file is a clear error.
func TestAFIFOInPlaceOfSettingsIsNoHang(t *testing.T) {
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	child := func(args ...string) *exec.Cmd {
		cmd := exec.CommandContext(t.Context(), os.Args[0], args...)
		cmd.Env = append(os.Environ(), asProgram+"=1")
		return cmd
	}
	for _, flag := range []string{"-kubernetes-token-file", "-kubeconfig", "-config-file"} {
		cmd := child("-kubernetes", flag, fifo)
		out, _ := cmd.CombinedOutput()
		if cmd.ProcessState.ExitCode() != program.ExitUnusable || !strings.Contains(string(out), "FIFO") || !strings.Contains(string(out), fifo) {
			t.Errorf("%s: exit status %d, want %d, the path and that it is a FIFO:\n%s", flag, cmd.ProcessState.ExitCode(), program.ExitUnusable, out)
		}
	}
}
