package bench

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"testing"
	"time"
)

// stalledReaders is how many clients request the table and do not read it.
const stalledReaders = 500

// BenchmarkStalledReaders measures one changed object while 500 clients at one address have requested the uncompressed table and
// do not read it; each change adds 50 of them. It reports the memory of routesrv without and with them, and how long answers to a
// healthy client at the same address take: 304s over new connections, as for proxies.
func BenchmarkStalledReaders(b *testing.B) {
	a := newAPI(b)
	p := start(b, buildBinary(b), a, 1000)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	healthy := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DisableCompression: true}}
	f := &fleet{url: "http://" + p.main + "/routes"}
	_, etag, err := f.get(ctx, healthy, "")
	if err != nil {
		b.Fatal(err)
	}
	ask := func(n int) (p50, p99 time.Duration) {
		times := make([]time.Duration, n)
		for i := range times {
			began := time.Now()
			if _, etag, err = f.get(ctx, healthy, etag); err != nil {
				b.Fatal(err)
			}
			times[i] = time.Since(began)
		}
		slices.Sort(times)
		return times[n/2], times[n*99/100]
	}
	quiet50, quiet99 := ask(500)
	before := p.memoryMiB(b, "VmRSS:")

	var conns []net.Conn
	defer func() {
		for _, c := range conns {
			c.Close()
		}
	}()
	stall := func(n int) {
		for range n {
			conn, err := net.Dial("tcp", p.main)
			if err != nil {
				b.Fatal(err)
			}
			conns = append(conns, conn)
			if _, err := fmt.Fprintf(conn, "GET /routes HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
				b.Fatal(err)
			}
			if _, err := io.ReadFull(conn, make([]byte, 1)); err != nil { // the answer has begun
				b.Fatal(err)
			}
		}
	}
	stall(stalledReaders)
	var loud50, loud99 time.Duration
	for b.Loop() {
		a.Mutate(b.N % 100)
		a.Warm()
		a.awaitReads(2)
		stall(50)
		loud50, loud99 = ask(500)
	}
	b.ReportMetric(before, "quiet-RSS-MiB")
	b.ReportMetric(p.peakMiB(b), "peak-MiB")
	b.ReportMetric(float64(quiet50.Microseconds()), "quiet-p50-µs")
	b.ReportMetric(float64(quiet99.Microseconds()), "quiet-p99-µs")
	b.ReportMetric(float64(loud50.Microseconds()), "p50-µs")
	b.ReportMetric(float64(loud99.Microseconds()), "p99-µs")
}
