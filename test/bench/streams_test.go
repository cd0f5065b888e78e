package bench

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"
)

// streamers are clients that follow the table on streams, and record when they hear of a new one.
type streamers struct {
	done sync.WaitGroup
	news chan time.Time // one entry for each client and table
}

// newStreamers opens n streams of clients that hold the table with the ETag, and waits until all are open.
func newStreamers(b testing.TB, ctx context.Context, url, etag string, n int) *streamers {
	s := &streamers{news: make(chan time.Time, n)}
	client := &http.Client{Transport: &http.Transport{DisableCompression: true}}
	for range n {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			b.Fatal(err)
		}
		r.Header.Set("Last-Event-ID", etag)
		resp, err := client.Do(r)
		if err != nil || resp.StatusCode != http.StatusOK {
			b.Fatalf("stream: %v, %v", resp, err)
		}
		s.done.Go(func() {
			defer resp.Body.Close()
			lines := bufio.NewReaderSize(resp.Body, 4<<10)
			for {
				line, err := lines.ReadSlice('\n')
				switch {
				case err == bufio.ErrBufferFull:
				case err != nil:
					return
				case bytes.HasPrefix(line, []byte("event: delta")), bytes.HasPrefix(line, []byte("event: fetch")):
					s.news <- time.Now()
				}
			}
		})
	}
	return s
}

// heard waits until every client has heard of a new table, and returns the time between the first and the last client.
func heard(all ...*streamers) time.Duration {
	var times []time.Time
	for _, s := range all {
		for range cap(s.news) {
			times = append(times, <-s.news)
		}
	}
	return slices.MaxFunc(times, time.Time.Compare).Sub(slices.MinFunc(times, time.Time.Compare))
}

// BenchmarkStreams measures one changed object with 1,000 and 4,000 clients on streams of one routesrv, all on one machine: the
// server's memory for a stream, the bytes sent for the change, and the time between the first and the last client.
func BenchmarkStreams(b *testing.B) {
	for _, clients := range []int{1000, 4000} {
		b.Run(fmt.Sprint(clients), func(b *testing.B) {
			a := newAPI(b)
			p := start(b, buildBinary(b), a, 1000)
			a.awaitReads(5)
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			before := p.memoryMiB(b, "VmRSS:")
			fleet := newStreamers(b, ctx, "http://"+p.main+"/routes/watch", p.etag(), clients)
			a.awaitReads(2)
			perStream := (p.memoryMiB(b, "VmRSS:") - before) * 1024 / float64(clients)
			var spread, cpu time.Duration
			for b.Loop() {
				a.Mutate(b.N % 100)
				a.Warm()
				before := p.cpu(b)
				spread = max(spread, heard(fleet))
				cpu += p.cpu(b) - before
			}
			b.ReportMetric(perStream, "KiB/stream")
			b.ReportMetric(float64(spread.Milliseconds()), "first-to-last-ms")
			b.ReportMetric(float64(cpu.Milliseconds())/float64(b.N), "cpu-ms/op")
			b.ReportMetric(p.peakMiB(b), "peak-MiB")
			cancel()
			fleet.done.Wait()
		})
	}
}
