package deploy

import (
	"bufio"
	"context"
	"crypto/tls"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/routesrv/routesrv/test/kubetest"
)

// patience is the longest that anything may take before a test gives up. Nothing else depends on it.
const patience = 60 * time.Second

// running is a process of one of the binaries.
type running struct {
	name string
	done chan error

	mu   sync.Mutex
	log  strings.Builder
	more chan struct{} // closed and replaced with every line, closed at the end
	over bool
}

// run starts a process, which ends with the test, with a state folder that no other process uses. The last value of a repeated flag counts.
func (p process) run(t *testing.T, more ...string) *running {
	t.Helper()
	if slices.ContainsFunc(p.args, func(arg string) bool { return strings.HasPrefix(arg, "--state-dir=") }) {
		more = append(more, "--state-dir="+t.TempDir())
	}
	cmd := exec.Command(p.binary, append(append([]string{}, p.args...), more...)...)
	cmd.Env = p.env
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	r := &running{name: p.binary, done: make(chan error, 1), more: make(chan struct{})}
	go func() {
		r.read(stderr)
		r.done <- cmd.Wait()
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // other tests check how it exits by itself; it may have exited
		<-r.done
		if t.Failed() {
			t.Logf("log of %s:\n%s", p.binary, r.log.String())
		}
	})
	return r
}

// read reads the lines of the log.
func (r *running) read(stderr io.Reader) {
	lines := bufio.NewScanner(stderr)
	for lines.Scan() {
		r.mu.Lock()
		r.log.WriteString(lines.Text() + "\n")
		close(r.more)
		r.more = make(chan struct{})
		r.mu.Unlock()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.over = true
	close(r.more)
}

// logged waits for the first line that matches, and returns the first group of the expression that is not empty.
func (r *running) logged(t *testing.T, expr string) string {
	t.Helper()
	re := regexp.MustCompile(expr)
	deadline := time.After(patience)
	for {
		r.mu.Lock()
		log, more, over := r.log.String(), r.more, r.over
		r.mu.Unlock()
		if m := re.FindStringSubmatch(log); m != nil {
			for _, group := range m[1:] {
				if group != "" {
					return group
				}
			}
		}
		if over {
			t.Fatalf("%s has ended without a line that matches %s:\n%s", r.name, expr, log)
		}
		select {
		case <-more:
		case <-deadline:
			t.Fatalf("%s has no line that matches %s:\n%s", r.name, expr, log)
		}
	}
}

// The listeners of both programs.
const (
	mainListener    = "main"
	supportListener = "support"
)

// opened matches what a program logs about a listener, whether it could be opened or not: another program of this machine may use
// the port, which is not tested here.
var opened = map[string]string{
	mainListener:    `msg="main listener open".* address=(\S+)|open (?:main )?listener \([^)]*\): listen tcp ([^ ]+): `,
	supportListener: `msg="support listener open".* address=(\S+)|msg="failed support listener.*listen tcp ([^ ]+): `,
}

const (
	anyMain    = "-address=127.0.0.1:0"
	anySupport = "-support-listener=127.0.0.1:0"
)

// listens returns the addresses that a process opens with its own arguments. It checks one listener after another, with the other
// one moved away.
func (p process) listens(t *testing.T) map[string]string {
	t.Helper()
	return map[string]string{
		mainListener:    p.run(t, anySupport).logged(t, opened[mainListener]),
		supportListener: p.run(t, anyMain).logged(t, opened[supportListener]),
	}
}

// server is a process whose listeners are on ports of the loopback interface.
type server struct {
	*running
	addresses map[string]string // by listener
	client    *http.Client
	scheme    string // of the main listener
}

// serve starts a process on other ports.
func (p process) serve(t *testing.T, more ...string) *server {
	t.Helper()
	r := p.run(t, append([]string{anyMain, anySupport}, more...)...)
	return &server{running: r, scheme: "http", addresses: map[string]string{
		mainListener: r.logged(t, opened[mainListener]), supportListener: r.logged(t, opened[supportListener]),
	}, client: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 10 * time.Second}}
}

// withTLS makes requests to the main listener use TLS.
func (s *server) withTLS(cfg *tls.Config) *server {
	return &server{running: s.running, scheme: "https", addresses: s.addresses,
		client: &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: cfg}, Timeout: 10 * time.Second}}
}

// ask returns the status and body of a response, or why there is none.
func (s *server) ask(ctx context.Context, listener, path string) (status int, body string, err error) {
	scheme := "http"
	if listener == mainListener {
		scheme = s.scheme
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, scheme+"://"+s.addresses[listener]+path, nil)
	if err != nil {
		return 0, "", err
	}
	resp, err := s.client.Do(r)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(text), err
}

// get expects a response.
func (s *server) get(t *testing.T, listener, path string) (status int, body string) {
	t.Helper()
	status, body, err := s.ask(t.Context(), listener, path)
	if err != nil {
		t.Fatalf("%s of the %s listener: %v", path, listener, err)
	}
	return status, body
}

// ready waits until there is a table, which the support listener of either program reports.
func (s *server) ready(t *testing.T) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); <-tick.C {
		if status, _, err := s.ask(t.Context(), supportListener, "/health"); err == nil && status == http.StatusNoContent {
			return
		}
	}
	t.Fatalf("%s has no table", s.name)
}

// shop serves the example shop as an API server does.
func shop(t *testing.T) string {
	t.Helper()
	var objects strings.Builder
	for _, name := range []string{"ingress", "cart", "services"} {
		text, err := os.ReadFile("../examples/shop/" + name + ".yaml")
		if err != nil {
			t.Fatal(err)
		}
		objects.WriteString(string(text) + "\n---\n")
	}
	s, err := kubetest.New([]byte(strings.TrimSuffix(objects.String(), "---\n")), kubetest.API{})
	if err != nil {
		t.Fatal(err)
	}
	s.SetRevision(1) // as a real one has; a watch continues from there
	return s.Start(t)
}

// nowhere is the address of an API server that is down.
const nowhere = "http://127.0.0.1:1"

// reading makes a process read an API server other than that of its cluster. Only this flag is replaced.
func (p process) reading(t *testing.T, api string) process {
	t.Helper()
	const inCluster = "-kubernetes-in-cluster"
	args := make([]string, 0, len(p.args))
	for _, a := range p.args {
		if a == inCluster {
			a = "-kubernetes-url=" + api
		}
		args = append(args, a)
	}
	if strings.Join(args, " ") == strings.Join(p.args, " ") {
		t.Fatalf("%s does not have %s: %q", p.binary, inCluster, p.args)
	}
	return process{p.binary, args, p.env}
}
