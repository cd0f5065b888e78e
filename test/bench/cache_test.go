package bench

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
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/routesrv/routesrv/test/programs"
)

// startCache runs nginx with examples/caches/nginx.conf in front of a route server. It ends with the benchmark.
func startCache(b *testing.B, server *process) *process {
	b.Helper()
	text, err := os.ReadFile("../../examples/caches/nginx.conf")
	if err != nil {
		b.Fatal(err)
	}
	dir, p := b.TempDir(), &process{main: programs.FreeAddress(b)}
	conf := strings.NewReplacer("listen 9090;", "listen "+p.main+";", "server routesrv.ingress:80;", "server "+server.main+";",
		"/var/cache/nginx", filepath.Join(dir, "cache")).Replace(string(text))
	if os.Getuid() == 0 { // nginx would drop root privileges
		conf = "user root;\n" + conf
	}
	file := filepath.Join(dir, "nginx.conf")
	conf = "daemon off;\nmaster_process off;\npid " + filepath.Join(dir, "pid") + ";\nerror_log stderr;\n" + conf
	if err := os.WriteFile(file, []byte(conf), 0o600); err != nil {
		b.Fatal(err)
	}
	p.cmd = exec.Command("nginx", "-p", dir, "-c", file, "-e", "stderr")
	if err := p.cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(p.stop)
	for deadline := time.Now().Add(time.Minute); p.etag() == ""; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			b.Fatal("nginx serves no table")
		}
	}
	return p
}

// pollingProxy is a proxy that has the current table, and polls on its own connection.
type pollingProxy struct {
	conn    net.Conn
	in      *bufio.Reader
	request []byte
}

func newPollingProxy(address, etag string) (*pollingProxy, error) {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return nil, err
	}
	return &pollingProxy{conn, bufio.NewReaderSize(conn, 1024), []byte("GET /routes HTTP/1.1\r\nHost: routes\r\nIf-None-Match: " + etag + "\r\n\r\n")}, nil
}

// poll returns how long it takes to get a 304.
func (p *pollingProxy) poll() (time.Duration, error) {
	begin := time.Now()
	if _, err := p.conn.Write(p.request); err != nil {
		return 0, err
	}
	resp, err := http.ReadResponse(p.in, nil)
	if err != nil {
		return 0, err
	}
	if resp.Body.Close(); resp.StatusCode != http.StatusNotModified {
		return 0, fmt.Errorf("status %d, want 304", resp.StatusCode)
	}
	return time.Since(begin), nil
}

// BenchmarkPollersThroughCache measures the cost for a route server of 10,000 proxies that poll every 3 s, behind one nginx and
// without it. Route server, nginx and the proxies share the machine.
func BenchmarkPollersThroughCache(b *testing.B) {
	const pollers, interval, length = 10_000, 3 * time.Second, 15 * time.Second
	for _, cached := range []bool{false, true} {
		b.Run(fmt.Sprintf("nginx=%v", cached), func(b *testing.B) {
			a := newAPI(b)
			server := startWith(b, buildBinary(b), "-kubernetes", "-enable-kubernetes-endpointslices", "-source-poll-timeout=3000",
				"-kubernetes-url="+a.server.URL, "--cache-max-age=3s", "--max-connections=20000")
			front := server
			if cached {
				front = startCache(b, server)
			}
			etag := front.etag()
			all := make([]*pollingProxy, pollers)
			for i := range all {
				var err error
				if all[i], err = newPollingProxy(front.main, etag); err != nil {
					b.Fatal(err)
				}
				defer all[i].conn.Close()
			}
			var mu sync.Mutex
			var took []time.Duration
			cpu, cacheCPU := server.cpu(b), front.cpu(b)
			begin := time.Now()
			for b.Loop() {
				ctx, cancel := context.WithTimeout(b.Context(), length)
				var group sync.WaitGroup
				for i, p := range all {
					group.Go(func() {
						next := time.NewTimer(interval * time.Duration(i) / pollers)
						defer next.Stop()
						for {
							select {
							case <-ctx.Done():
								return
							case <-next.C:
							}
							next.Reset(interval)
							d, err := p.poll()
							if err != nil {
								b.Error(err)
								return
							}
							mu.Lock()
							took = append(took, d)
							mu.Unlock()
						}
					})
				}
				group.Wait()
				cancel()
			}
			seconds := time.Since(begin).Seconds()
			slices.Sort(took)
			b.ReportMetric(float64(len(took))/seconds, "polls/s")
			b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
			b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms")
			b.ReportMetric(100*(server.cpu(b)-cpu).Seconds()/seconds, "server-cpu-%")
			if cached {
				b.ReportMetric(100*(front.cpu(b)-cacheCPU).Seconds()/seconds, "nginx-cpu-%")
			}
		})
	}
}
