// Package bench measures the whole system: a built routesrv as a separate process, which reads an API server in this process with
// a generated cluster of realistic size. It reports the CPU time and memory of the routesrv process only.
//
//	go test -run '^$' -bench . -benchtime 10x -timeout 30m ./test/bench
//
// ROUTESRV_BENCH_FACTOR is the size, default 1: 15,000 Ingresses, 5,000 RouteGroups, 20,000 Services and EndpointSlices.
package bench

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/routesrv/routesrv/test/programs"
	"github.com/routesrv/routesrv/test/scale"
)

const ingressList = "/apis/networking.k8s.io/v1/ingresses"

// api serves the generated cluster and counts its reads.
type api struct {
	*scale.Handler
	server *httptest.Server
	factor float64

	mu    sync.Mutex
	reads int
	next  chan struct{} // closed and replaced by every read
}

func newAPI(b *testing.B) *api {
	b.Helper()
	factor, err := strconv.ParseFloat(cmp.Or(os.Getenv("ROUTESRV_BENCH_FACTOR"), "1"), 64)
	if err != nil {
		b.Fatalf("ROUTESRV_BENCH_FACTOR: %v", err)
	}
	a := &api{Handler: scale.New(factor).Handler(), factor: factor, next: make(chan struct{})}
	a.Warm()
	a.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a.Handler.ServeHTTP(w, r)
		if r.URL.Path == ingressList && !r.URL.Query().Has("limit") { // not the request for the revision, which comes first
			a.mu.Lock()
			a.reads++
			close(a.next)
			a.next = make(chan struct{})
			a.mu.Unlock()
		}
	}))
	b.Cleanup(a.server.Close)
	return a
}

// awaitReads waits until n more reads have begun.
func (a *api) awaitReads(n int) {
	for range n {
		a.mu.Lock()
		next := a.next
		a.mu.Unlock()
		<-next
	}
}

// process is a running routesrv.
type process struct {
	cmd  *exec.Cmd
	main string
}

func buildBinary(b testing.TB) string {
	b.Helper()
	binary := filepath.Join(b.TempDir(), "routesrv")
	if out, err := exec.Command("go", "build", "-o", binary, "../../cmd/routesrv").CombinedOutput(); err != nil {
		b.Fatalf("%v: %s", err, out)
	}
	return binary
}

func start(b *testing.B, binary string, a *api, pollMillis int) *process {
	b.Helper()
	return startReading(b, binary, time.Duration(pollMillis)*time.Millisecond, "-kubernetes-url="+a.server.URL)
}

// startReading starts the binary with arguments for reading the API, and waits for the first table.
func startReading(b *testing.B, binary string, interval time.Duration, args ...string) *process {
	b.Helper()
	return startWith(b, binary, append([]string{
		"-kubernetes", "-enable-kubernetes-endpointslices", fmt.Sprintf("-source-poll-timeout=%d", interval.Milliseconds()),
	}, args...)...)
}

// startWith starts the binary with arguments that select what it serves, and waits for the first table.
func startWith(b testing.TB, binary string, args ...string) *process {
	b.Helper()
	p := &process{main: programs.FreeAddress(b)}
	p.cmd = exec.Command(binary, append([]string{
		"-address=" + p.main, "-support-listener=" + programs.FreeAddress(b), "-wait-for-healthcheck-interval=0s",
	}, args...)...) // of two flags, the last one counts
	p.cmd.Stderr = io.Discard
	if err := p.cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(p.stop)
	for p.etag() == "" {
		time.Sleep(5 * time.Millisecond)
	}
	return p
}

func (p *process) stop() {
	p.cmd.Process.Signal(os.Interrupt)
	p.cmd.Wait()
}

// etag returns the ETag of the current table, "" before the first one.
func (p *process) etag() string {
	resp, err := http.Head("http://" + p.main + "/routes")
	if err != nil {
		return ""
	}
	resp.Body.Close()
	return resp.Header.Get("Etag")
}

// cpu returns the processor time of the process, in user and kernel mode.
func (p *process) cpu(b *testing.B) time.Duration {
	b.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
	if err != nil {
		b.Fatal(err)
	}
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	user, _ := strconv.Atoi(string(fields[11]))
	system, _ := strconv.Atoi(string(fields[12]))
	return time.Duration(user+system) * (time.Second / 100) // USER_HZ
}

// peakMiB returns the highest resident memory of the process so far.
func (p *process) peakMiB(b *testing.B) float64 { return p.memoryMiB(b, "VmHWM:") }

// memoryMiB returns a memory value from the status of the process.
func (p *process) memoryMiB(b *testing.B, name string) float64 {
	b.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		b.Fatal(err)
	}
	for line := range strings.SplitSeq(string(status), "\n") {
		if kib, ok := strings.CutPrefix(line, name); ok {
			n, err := strconv.Atoi(strings.Fields(kib)[0])
			if err != nil {
				b.Fatal(err)
			}
			return float64(n) / 1024
		}
	}
	b.Fatalf("no %s", name)
	return 0
}

// BenchmarkFirstTable measures the time from the start of the process to the first answer with a table.
func BenchmarkFirstTable(b *testing.B) {
	a, binary := newAPI(b), buildBinary(b)
	var cpu time.Duration
	var peak float64
	for b.Loop() {
		p := start(b, binary, a, 60_000)
		cpu += p.cpu(b)
		peak = max(peak, p.peakMiB(b))
		p.stop()
	}
	b.ReportMetric(float64(cpu.Milliseconds())/float64(b.N), "cpu-ms/op")
	b.ReportMetric(peak, "peak-MiB")
}

// BenchmarkFromLastKnownGood measures the time from the start of a process that cannot read its source to the first answer with
// the table of the last-known-good file.
func BenchmarkFromLastKnownGood(b *testing.B) {
	a, binary, folder := newAPI(b), buildBinary(b), b.TempDir()
	args := []string{"-kubernetes", "-enable-kubernetes-endpointslices", "-source-poll-timeout=60000", "--state-dir=" + folder}
	first := startWith(b, binary, append(args, "-kubernetes-url="+a.server.URL)...)
	first.stop() // writes the last-known-good file
	var cpu, wait time.Duration
	var peak float64
	for b.Loop() {
		begin := time.Now()
		p := startWith(b, binary, append(args, "-kubernetes-url=http://127.0.0.1:1")...)
		wait += time.Since(begin)
		cpu += p.cpu(b)
		peak = max(peak, p.peakMiB(b))
		p.stop()
	}
	b.ReportMetric(float64(wait.Milliseconds())/float64(b.N), "first-answer-ms/op")
	b.ReportMetric(float64(cpu.Milliseconds())/float64(b.N), "cpu-ms/op")
	b.ReportMetric(peak, "peak-MiB")
}

// BenchmarkPollUnchanged measures a poll without a relevant change: "quiet" if no object of the cluster was written at all,
// "busy" if unrelated writes raise the revision of every list.
func BenchmarkPollUnchanged(b *testing.B) {
	for _, busy := range []bool{false, true} {
		name := map[bool]string{false: "quiet", true: "busy"}[busy]
		b.Run(name, func(b *testing.B) {
			a := newAPI(b)
			p := start(b, buildBinary(b), a, 1000)
			a.awaitReads(2)
			before := p.cpu(b)
			for b.Loop() {
				if busy {
					a.Touch()
					a.Warm()
				}
				a.awaitReads(1)
			}
			b.ReportMetric(float64((p.cpu(b)-before).Milliseconds())/float64(b.N), "cpu-ms/op")
			b.ReportMetric(p.peakMiB(b), "peak-MiB")
		})
	}
}

// BenchmarkChangeToFleet measures one changed object with 300 clients that poll with new connections, gzip and If-None-Match: as
// proxies do, and as data planes that accept deltas do. It reports the bytes sent for the change and the duration of answers with
// a body.
func BenchmarkChangeToFleet(b *testing.B) {
	for _, deltas := range []bool{false, true} {
		b.Run(map[bool]string{false: "tables", true: "deltas"}[deltas], func(b *testing.B) {
			a := newAPI(b)
			p := start(b, buildBinary(b), a, 1000)
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			fleet := newFleet(ctx, "http://"+p.main+"/routes", 300, deltas)
			fleet.arrived()
			for b.Loop() {
				fleet.reset()
				a.Mutate(b.N % 100)
				a.Warm()
				fleet.arrived()
			}
			sent, p50, p99 := fleet.figures()
			b.ReportMetric(float64(sent)/1e6, "MB-sent/op")
			b.ReportMetric(float64(p50.Milliseconds()), "p50-ms")
			b.ReportMetric(float64(p99.Milliseconds()), "p99-ms")
			b.ReportMetric(p.peakMiB(b), "peak-MiB")
			cancel()
			fleet.wait()
		})
	}
}
