package bench

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/routesrv/routesrv/test/programs"
)

// BenchmarkWriteToProxy follows one changed Ingress through all stages: from the end of the write to a real kube-apiserver, to
// the table of routesrv, to the table that dataplane-client serves to its proxy. The changes do not overlap and start at
// different times within a poll interval. Run it with -benchtime 200x.
func BenchmarkWriteToProxy(b *testing.B) {
	a, server, client := newRealAPI(b), buildBinary(b), buildSidecar(b)
	for _, how := range []struct{ name, read, transport string }{
		{"poll", "poll", "poll"}, {"watch-and-stream", "watch", "stream"},
	} {
		b.Run(how.name, func(b *testing.B) {
			p := startReading(b, server, interval, "--kubeconfig="+a.kubeconfig, "--kubernetes-read="+how.read)
			sidecar := startSidecar(b, client, "http://"+p.main, how.transport)
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			table := follow(b, ctx, "http://"+p.main)
			proxy := follow(b, ctx, sidecar)
			time.Sleep(2 * interval) // let the start settle
			var toTable, toProxy []time.Duration
			n := int(time.Now().UnixNano() % 1_000_000_000)
			for b.Loop() {
				n++
				mark := fmt.Sprintf(`"X-N", "%d"`, n)
				a.change(b, n)
				begin := time.Now()
				toTable = append(toTable, table.await(mark).Sub(begin))
				toProxy = append(toProxy, proxy.await(mark).Sub(begin))
				time.Sleep(time.Duration(n*7919%1000) * time.Millisecond) // at any time between two polls
			}
			for name, times := range map[string][]time.Duration{"table": toTable, "proxy": toProxy} {
				slices.Sort(times)
				b.ReportMetric(float64(times[len(times)/2].Microseconds())/1000, name+"-p50-ms")
				b.ReportMetric(float64(times[len(times)*99/100].Microseconds())/1000, name+"-p99-ms")
			}
			b.ReportMetric(p.peakMiB(b), "peak-MiB")
		})
	}
}

// follower records when a route server or a sidecar first serves a text. It requests little more than the changes, so that
// watching does not affect the measurement.
type follower struct{ seen chan sighting }

type sighting struct {
	text string
	at   time.Time
}

// follow polls for changes of the table, with deltas, every few milliseconds.
func follow(b *testing.B, ctx context.Context, url string) *follower {
	f := &follower{seen: make(chan sighting, 1000)}
	client := &http.Client{Transport: &http.Transport{DisableCompression: true}}
	etag := ""
	ask := func() (string, error) {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/routes", nil)
		if err != nil {
			return "", err
		}
		if r.Header.Set("A-IM", "eskip-delta"); etag != "" {
			r.Header.Set("If-None-Match", etag)
		}
		resp, err := client.Do(r)
		if err != nil {
			return "", err
		}
		defer resp.Body.Close()
		if tag := resp.Header.Get("Etag"); tag != "" {
			etag = tag
		}
		body, err := io.ReadAll(resp.Body) // usually a delta
		return strings.ReplaceAll(string(body), `\"`, `"`), err
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			if text, err := ask(); err == nil && text != "" {
				f.seen <- sighting{text, time.Now()}
			}
			time.Sleep(5 * time.Millisecond)
		}
	}()
	b.Cleanup(func() { <-done })
	return f
}

// await returns the time at which the text was first served.
func (f *follower) await(text string) time.Time {
	for {
		if s := <-f.seen; strings.Contains(s.text, text) {
			return s.at
		}
	}
}

func buildSidecar(b *testing.B) string {
	b.Helper()
	binary := filepath.Join(b.TempDir(), "dataplane-client")
	if out, err := exec.Command("go", "build", "-o", binary, "../../cmd/dataplane-client").CombinedOutput(); err != nil {
		b.Fatalf("%v: %s", err, out)
	}
	return binary
}

// startSidecar starts a dataplane-client in mode Exec and returns its address for the proxy.
func startSidecar(b *testing.B, binary, server, transport string) string {
	b.Helper()
	main, support := programs.FreeAddress(b), programs.FreeAddress(b)
	cmd := exec.Command(binary, "--mode=Exec", "--upstream="+server, "--update-mode="+transport, "-address="+main,
		"--support-listener="+support, "--state-dir="+b.TempDir())
	stderr, err := cmd.StderrPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for lines := bufio.NewScanner(stderr); lines.Scan(); {
			if strings.Contains(lines.Text(), "level=ERROR") {
				b.Log(lines.Text())
			}
		}
	}()
	b.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	for {
		resp, err := http.Get("http://" + support + "/health")
		if err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusNoContent {
				return "http://" + main
			}
		}
		select {
		case <-ended:
			b.Fatal("dataplane-client ended by itself")
		case <-time.After(20 * time.Millisecond):
		}
	}
}
