package bench

import (
	"io"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/routesrv/routesrv/test/programs"
)

// startDataPlane runs a dataplane-client for a route server, in a mode. It ends with the benchmark.
func startDataPlane(b *testing.B, a *api, server *process, mode string) *process {
	b.Helper()
	dir := b.TempDir()
	binary := filepath.Join(dir, "dataplane-client")
	if out, err := exec.Command("go", "build", "-o", binary, "../../cmd/dataplane-client").CombinedOutput(); err != nil {
		b.Fatalf("%v: %s", err, out)
	}
	p := &process{main: programs.FreeAddress(b)}
	p.cmd = exec.Command(binary, "--mode="+mode, "--upstream=http://"+server.main,
		"--state-dir="+dir, "--address="+p.main, "--support-listener=",
		"-kubernetes", "-kubernetes-url="+a.server.URL, "-enable-kubernetes-endpointslices", "-source-poll-timeout=1000")
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

// BenchmarkDataPlane measures the cost of a dataplane-client while one object changes after another, by mode: from the write to
// the table that its proxy can fetch. CPU and memory are only those of the dataplane-client.
func BenchmarkDataPlane(b *testing.B) {
	for _, mode := range []string{"False", "Pre", "Exec"} {
		b.Run(mode, func(b *testing.B) {
			a := newAPI(b)
			server := start(b, buildBinary(b), a, 1000)
			p := startDataPlane(b, a, server, mode)
			a.awaitReads(4) // by both, if both read
			first, before := p.peakMiB(b), p.cpu(b)
			var wait time.Duration
			changed := 0
			for b.Loop() {
				etag := p.etag()
				a.Mutate(changed % 100)
				changed++
				a.Warm()
				begin := time.Now()
				for p.etag() == etag {
					time.Sleep(10 * time.Millisecond)
				}
				wait += time.Since(begin)
			}
			b.ReportMetric(float64((p.cpu(b)-before).Milliseconds())/float64(b.N), "cpu-ms/op")
			b.ReportMetric(float64(wait.Milliseconds())/float64(b.N), "write-to-table-ms/op")
			b.ReportMetric(first, "first-MiB")
			b.ReportMetric(p.peakMiB(b), "peak-MiB")
		})
	}
}

// BenchmarkDataPlaneIdle measures a poll of a dataplane-client in mode Exec that is answered with 304.
func BenchmarkDataPlaneIdle(b *testing.B) {
	a := newAPI(b)
	p := startDataPlane(b, a, start(b, buildBinary(b), a, 1000), "Exec")
	before := p.cpu(b)
	for b.Loop() {
		time.Sleep(time.Second) // its interval
	}
	b.ReportMetric(float64((p.cpu(b)-before).Milliseconds())/float64(b.N), "cpu-ms/op")
	b.ReportMetric(p.peakMiB(b), "peak-MiB")
}
