package abuse

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/routesrv/routesrv/test/programs"
	"github.com/routesrv/routesrv/test/scale"
)

// patience is how long anything may take before the test gives up. It affects nothing else.
const patience = 10 * time.Minute

// full reports that times are measured, with the numbers of clients in Attacks: make abuse. Otherwise the attacks are smaller,
// and the test only requires that all clients are answered and that memory stays within its limit.
func full() bool { return os.Getenv("ROUTESRV_ABUSE") == "full" }

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// victim is a real route server with a table of a tenth of a large cluster.
type victim struct {
	cmd     *exec.Cmd
	address string
	routes  int
	tag     string
	done    chan struct{}

	mu  sync.Mutex
	log strings.Builder
}

func start(t *testing.T) *victim {
	t.Helper()
	built, remove, err := programs.Build("../../..", programs.Plain, "routesrv")
	t.Cleanup(remove)
	if err != nil {
		t.Fatal(err)
	}
	binary, manifests := filepath.Join(built, "routesrv"), t.TempDir()
	if err := scale.New(0.1).WriteManifests(manifests); err != nil {
		t.Fatal(err)
	}
	address := programs.FreeAddress(t)
	v := &victim{address: address, done: make(chan struct{})}
	v.cmd = exec.Command(binary, "--manifests="+manifests, "-address="+address, "-support-listener=", "-enable-kubernetes-endpointslices",
		"-source-poll-timeout=1000", "-wait-for-healthcheck-interval=0s", "--timing=shutdown=1s")
	stderr, err := v.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := v.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(v.done)
		for lines := bufio.NewScanner(stderr); lines.Scan(); {
			v.mu.Lock()
			fmt.Fprintln(&v.log, lines.Text())
			v.mu.Unlock()
		}
		v.cmd.Wait()
	}()
	t.Cleanup(func() {
		v.cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-v.done:
		case <-time.After(patience):
			v.cmd.Process.Kill()
			t.Error("the route server did not end")
		}
		if t.Failed() {
			v.mu.Lock()
			defer v.mu.Unlock()
			text := v.log.String()
			t.Logf("end of the log:\n%s", text[max(0, len(text)-4000):])
		}
	})
	client, end := newClient(1, &net.Dialer{})
	defer end()
	for deadline := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		resp, _, err := get(t.Context(), client, "http://"+address+"/routes", nil)
		if err == nil && resp.StatusCode == http.StatusOK {
			v.tag = resp.Header.Get("Etag")
			if v.routes, err = strconv.Atoi(resp.Header.Get("X-Count")); err != nil {
				t.Fatal(err)
			}
			return v
		}
		if time.Now().After(deadline) {
			t.Fatalf("no table: %v", err)
		}
	}
}

// rss returns the resident memory of the process in bytes.
func (v *victim) rss(t *testing.T) int {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", v.cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(text), "VmRSS:")
	fields := strings.Fields(after)
	n, err := strconv.Atoi(fields[0])
	if err != nil {
		t.Fatal(err)
	}
	return n << 10
}

// bound returns the memory limit from docs/operate/sizing.md, with its reserve, plus the memory that the attackers may cost.
func (v *victim) bound(a Attack, n int) int {
	return 2*(35<<20+v.routes*2300) + n*a.Memory
}

// healthy is a well-behaved client: it polls, and sometimes fetches the whole table. It returns how long polls took.
func (v *victim) healthy(t *testing.T, polls int) (took []time.Duration) {
	t.Helper()
	client, end := newClient(2, &net.Dialer{})
	defer end()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for i := range polls {
		began := time.Now()
		resp, _, err := get(ctx, client, "http://"+v.address+"/routes", http.Header{"If-None-Match": {v.tag}})
		took = append(took, time.Since(began))
		if err != nil || resp.StatusCode != http.StatusNotModified {
			t.Fatalf("poll %d: %v, %v", i, resp, err)
		}
		if i%(polls/4) != 0 {
			continue
		}
		resp, n, err := get(ctx, client, "http://"+v.address+"/routes", http.Header{"Accept-Encoding": {"gzip"}})
		if err != nil || resp.StatusCode != http.StatusOK || strconv.FormatInt(n, 10) != resp.Header.Get("Content-Length") {
			t.Fatalf("full table: %v, %d bytes, %v", resp, n, err)
		}
	}
	slices.Sort(took)
	return took
}

// TestAbuse: under each attack a well-behaved client is answered, and the memory of the server stays within its limit. When
// measured (make abuse), the slowest of a hundred polls takes at most twice its time without an attack, or 2 ms.
func TestAbuse(t *testing.T) {
	polls, share := 200, 10
	if full() {
		polls, share = 5000, 1
	}
	v := start(t)
	quiet := v.healthy(t, polls)
	p99 := func(took []time.Duration) time.Duration { return took[len(took)*99/100] }
	t.Logf("in peace: median %v, slowest of a hundred %v, %d MiB", quiet[len(quiet)/2], p99(quiet), v.rss(t)>>20)
	for _, a := range Attacks() {
		t.Run(a.Name, func(t *testing.T) {
			n := max(a.Count/share, 1)
			ctx, cancel := context.WithCancel(t.Context())
			wait := a.Start(ctx, v.address, n)
			defer wait()
			defer cancel()
			took := v.healthy(t, polls)
			rss, bound := v.rss(t), v.bound(a, n)
			t.Logf("%d clients: median %v, slowest of a hundred %v, %d MiB (bound %d)", n, took[len(took)/2], p99(took), rss>>20, bound>>20)
			if rss > bound {
				t.Errorf("%d MiB of memory, the bound is %d", rss>>20, bound>>20)
			}
			if limit := max(2*p99(quiet), 2*time.Millisecond); full() && p99(took) > limit {
				t.Errorf("the slowest of a hundred polls took %v, in peace %v", p99(took), p99(quiet))
			}
		})
	}
}
