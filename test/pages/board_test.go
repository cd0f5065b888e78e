//go:build !race

package pages_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/routesrv/routesrv/api"
	"github.com/routesrv/routesrv/app/cli"
	"github.com/routesrv/routesrv/app/program"
	"github.com/routesrv/routesrv/app/query"
	"github.com/routesrv/routesrv/compile/rules"
	"github.com/routesrv/routesrv/fleet"
	"github.com/routesrv/routesrv/table"
	"github.com/routesrv/routesrv/test/browser"
	"github.com/routesrv/routesrv/test/programs"
)

// The clusters behind the board.
const (
	boardClusters = 200
	slowClusters  = 20 // of these answer after slowAnswer
	deadClusters  = 5  // of these refuse connections
	slowAnswer    = 5 * time.Second
	maxMemory     = 100 << 20
	maxGoroutines = 1100 // for each cluster a stream, and the two goroutines of each of two connections; besides these the workers and the page
)

// boardProcess is the variable that makes this program the board: memory and goroutines are then its own.
const boardProcess = "ROUTESRV_TEST_BOARD"

// TestBoardProcess is the board of TestBoardOf200Clusters.
func TestBoardProcess(t *testing.T) {
	urls := os.Getenv(boardProcess)
	if urls == "" {
		return // not started by the other test
	}
	ctx, stop := signal.NotifyContext(t.Context(), os.Interrupt)
	defer stop()
	most, done := 0, make(chan struct{})
	go func() {
		defer close(done)
		for tick := time.NewTicker(50 * time.Millisecond); ctx.Err() == nil; <-tick.C {
			most = max(most, runtime.NumGoroutine())
		}
	}()
	p := cli.Program{Name: "routesrv", Places: query.NewURLs}
	status := p.Run(ctx, []string{"board", "--urls", urls}, program.Stdio{In: os.Stdin, Out: os.Stdout, Err: os.Stderr})
	<-done
	var ended int
	for range 100 { // connections that were cancelled end on their own
		if ended = runtime.NumGoroutine(); ended < 30 {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	fmt.Printf("status %d goroutines %d left %d\n", status, most, ended)
}

// summaries are the answers of a cluster of 1x in size: 500 data planes and 2,000 problems.
type summaries struct{ clients, problems, history []byte }

func newSummaries(t *testing.T) summaries {
	t.Helper()
	now := time.Now()
	v := fleet.View{Time: now, Counts: fleet.Counts{Current: 499, Behind: 1}, Total: 500}
	for i := range 500 {
		c := fleet.Client{
			ID: fmt.Sprintf("ingress/skipper-ingress-7d4f8b9c6d-%05d", i), Kind: fleet.Sidecar, Pod: fmt.Sprintf("ingress/skipper-ingress-7d4f8b9c6d-%05d", i),
			Node: fmt.Sprintf("ip-10-2-%d-%d.eu-central-1.compute.internal", i/250, i%250), Zone: "eu-central-1a", Version: "v1.2.3", Mode: "Pre", Address: "10.2.0.1",
			Replica: "routesrv-5d8f7b6c4-abcde", State: fleet.Current, Holds: &fleet.Table{Revision: 12345678}, Pre: &fleet.Pre{Seconds: 300000, CleanSeconds: 280000, Ready: true},
			FirstHeard: now, LastHeard: now, Reported: now, IntervalSeconds: 10,
		}
		if i == 0 {
			c.State, c.BehindSeconds, c.BehindVersions = fleet.Behind, 30, 2
		}
		v.Clients = append(v.Clients, c)
	}
	var p api.Problems
	for i := range 2000 {
		p.Problems = append(p.Problems, problem("shop", fmt.Sprintf("cart-%d", i), rules.Error, "there is no Service \"cart\" in the namespace \"shop\"").Report())
	}
	var h []api.HistoryEntry
	for i := range 20 {
		h = append(h, api.HistoryEntry{N: uint64(20 - i), At: now, Count: 1, Changed: 3})
	}
	encode := func(v any) []byte {
		text, err := json.Marshal(v)
		must(t, err)
		return text
	}
	return summaries{encode(&v), encode(&p), encode(h)}
}

// fakeCluster is a route server that answers summaries.
type fakeCluster struct {
	summaries
	slow   bool
	routes atomic.Int64
	change chan struct{} // a table is published
}

func (f *fakeCluster) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if f.slow {
		select {
		case <-time.After(slowAnswer):
		case <-r.Context().Done():
			return
		}
	}
	switch r.URL.Path {
	case api.PathStatus:
		_ = json.NewEncoder(w).Encode(&api.Status{
			Version: "v1.2.3", Started: time.Now(), Ready: true, Problems: map[string]int{"error": 2000},
			Table: &api.Table{Digest: table.Digest{byte(f.routes.Load())}, Revision: 12345678, Routes: int(f.routes.Load()), LastRead: time.Now()},
		})
	case api.PathClients:
		_, _ = w.Write(f.clients)
	case api.PathProblems:
		_, _ = w.Write(f.problems)
	case api.PathHistory:
		_, _ = w.Write(f.history)
	case "/routes/watch":
		w.Header().Set("Content-Type", api.StreamType)
		for {
			fmt.Fprintf(w, "event: fetch\nid: \"%d\"\ndata: \n\n", f.routes.Load())
			if http.NewResponseController(w).Flush() != nil {
				return
			}
			select {
			case <-f.change:
			case <-r.Context().Done():
				return
			}
		}
	default:
		http.NotFound(w, r)
	}
}

// TestBoardOf200Clusters: slow clusters delay no other, dead ones show since when, a change shows without a reload, within bounds of memory and
// goroutines, and all of it ends.
func TestBoardOf200Clusters(t *testing.T) {
	b, ctx := start(t)
	all := newSummaries(t)
	var fakes []*fakeCluster
	var lines bytes.Buffer
	for i := range boardClusters {
		f := &fakeCluster{summaries: all, slow: i >= deadClusters && i < deadClusters+slowClusters, change: make(chan struct{}, 1)}
		f.routes.Store(100_000)
		fakes = append(fakes, f)
		url := ""
		if i < deadClusters {
			url = "http://" + programs.FreeAddress(t) // where nobody listens, also not the clusters that start later
		} else {
			url = serve(t, f)
		}
		fmt.Fprintf(&lines, "cluster-%03d %s\n", i, url)
	}
	urls := filepath.Join(t.TempDir(), "urls")
	must(t, os.WriteFile(urls, lines.Bytes(), 0o600))
	began := time.Now()
	board, at, rest := startBoard(t, ctx, urls)

	p := open(t, b, ctx, browser.Options{Width: 1400, Height: 900}, at)
	const answered = "[...document.querySelectorAll('.tile')].filter(t => t.querySelector('dl')?.textContent.includes('100000 routes'))"
	until := func(what, expression string, limit time.Duration) {
		t.Helper()
		ctx, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		if err := p.Until(ctx, expression); err != nil {
			var now string
			_ = p.Eval(context.WithoutCancel(ctx), "document.getElementById('tally').textContent", &now)
			t.Fatalf("%s: %v; %s", what, err, now)
		}
		t.Logf("%s after %v", what, time.Since(began).Round(10*time.Millisecond))
	}
	const patience = 10 * time.Minute // only for giving up
	// Each slow cluster takes five seconds for each of its four questions: were others behind them, these would be shown as late as the slow ones.
	until("the fast clusters", fmt.Sprintf("%s.length >= %d", answered, boardClusters-slowClusters-deadClusters), patience)
	var shown int
	must(t, p.Eval(ctx, answered+".length", &shown))
	if shown == boardClusters-deadClusters {
		t.Error("the fast clusters are shown as late as the slow ones")
	}
	until("the dead ones", "document.querySelectorAll('.tile.away .why').length === "+strconv.Itoa(deadClusters), patience)
	var why string
	must(t, p.Eval(ctx, "document.querySelector('.tile.away .why').textContent", &why))
	if !strings.HasPrefix(why, "away since ") || !strings.Contains(why, "refused") {
		t.Errorf("a dead cluster shows %q", why)
	}
	until("all 195", fmt.Sprintf("%s.length === %d && document.querySelectorAll('.tile').length === %d", answered, boardClusters-deadClusters, boardClusters), patience)
	until("details", "document.getElementById('c-cluster-199').textContent.includes('ingress/skipper-ingress-7d4f8b9c6d-00000 behind')"+
		" && document.getElementById('c-cluster-199').textContent.includes('2000 ') && document.getElementById('c-cluster-199').textContent.includes('Pre 500')", patience)

	must(t, p.Eval(ctx, "window.notReloaded = true", nil))
	changed, f := time.Now(), fakes[boardClusters-1]
	f.routes.Store(4711)
	f.change <- struct{}{}
	until("the change", "window.notReloaded && document.getElementById('c-cluster-199').textContent.includes('4711 routes')", patience)
	t.Logf("a change shows after %v", time.Since(changed).Round(10*time.Millisecond))
	if png, err := p.Screenshot(ctx, 1200); err == nil {
		_ = os.MkdirAll(artifacts, 0o755)
		_ = os.WriteFile(filepath.Join(artifacts, "board.png"), png, 0o644)
	}
	for _, problem := range p.Problems() {
		t.Error(problem)
	}

	if got := peak(t, board.Process.Pid); got > maxMemory {
		t.Errorf("the board took %d MiB, limit %d MiB", got>>20, maxMemory>>20)
	} else {
		t.Logf("the board took %d MiB", got>>20)
	}
	stopped := time.Now()
	must(t, board.Process.Signal(syscall.SIGINT))
	var status, goroutines, left int
	for rest.Scan() {
		if n, _ := fmt.Sscanf(rest.Text(), "status %d goroutines %d left %d", &status, &goroutines, &left); n == 3 {
			t.Logf("%s, ended in %v", rest.Text(), time.Since(stopped).Round(10*time.Millisecond))
		}
	}
	must(t, board.Wait())
	if status != 0 || goroutines == 0 || goroutines > maxGoroutines || left >= 30 || time.Since(stopped) > 10*time.Second {
		t.Errorf("status %d, %d goroutines, limit %d, %d left, ended in %v", status, goroutines, maxGoroutines, left, time.Since(stopped))
	}
}

// startBoard starts the board as its own process, and returns the URL of its page and the rest of its output.
func startBoard(t *testing.T, ctx context.Context, urls string) (*exec.Cmd, string, *bufio.Scanner) {
	t.Helper()
	cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestBoardProcess$")
	cmd.Env = append(os.Environ(), boardProcess+"="+urls)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if url, _, ok := strings.Cut(lines.Text(), " shows "); ok {
			return cmd, url, lines
		}
	}
	t.Fatal("the board did not start")
	return nil, "", nil
}

// peak returns the most memory that a process has had, in bytes.
func peak(t *testing.T, pid int) int {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	must(t, err)
	_, rest, _ := strings.Cut(string(text), "VmHWM:")
	kib, err := strconv.Atoi(strings.Fields(rest)[0])
	must(t, err)
	return kib << 10
}
