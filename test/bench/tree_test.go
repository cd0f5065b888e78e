package bench

import (
	"context"
	"fmt"
	"testing"
	"time"
)

// BenchmarkLargest measures one changed object with as many streams as one machine can hold together with their clients: all on
// one routesrv ("one-tier"), or on its relays ("tree"). It reports the time between the first and the last client that hears of
// the change, and the cost for root and relays.
func BenchmarkLargest(b *testing.B) {
	const clients, relays = 16_000, 4
	streams := fmt.Sprintf("--max-streams=%d", clients)
	b.Run("one-tier", func(b *testing.B) {
		a := newAPI(b)
		root := startReading(b, buildBinary(b), time.Second, "-kubernetes-url="+a.server.URL, streams)
		measureFleet(b, a, root, []*process{root}, clients)
	})
	b.Run("tree", func(b *testing.B) {
		a, binary := newAPI(b), buildBinary(b)
		root := startReading(b, binary, time.Second, "-kubernetes-url="+a.server.URL)
		var leaves []*process
		for range relays {
			leaves = append(leaves, startWith(b, binary, "--upstream=http://"+root.main, "--update-mode=stream", streams))
		}
		measureFleet(b, a, root, leaves, clients/relays)
		b.ReportMetric(leaves[0].peakMiB(b), "relay-peak-MiB")
	})
}

// measureFleet opens as many streams on each server as clients says, and changes objects. Servers other than the root are
// reported as relays.
func measureFleet(b *testing.B, a *api, root *process, servers []*process, clients int) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	a.awaitReads(5)
	var fleet []*streamers
	for _, s := range servers {
		fleet = append(fleet, newStreamers(b, ctx, "http://"+s.main+"/routes/watch", s.etag(), clients))
	}
	a.awaitReads(2)
	var spread, rootCPU, leafCPU time.Duration
	for b.Loop() {
		a.Mutate(b.N % 100)
		a.Warm()
		rootBefore, leafBefore := root.cpu(b), servers[0].cpu(b)
		spread = max(spread, heard(fleet...))
		rootCPU += root.cpu(b) - rootBefore
		leafCPU += servers[0].cpu(b) - leafBefore
	}
	b.ReportMetric(float64(spread.Milliseconds()), "first-to-last-ms")
	b.ReportMetric(float64(rootCPU.Milliseconds())/float64(b.N), "cpu-ms/op")
	if servers[0] != root {
		b.ReportMetric(float64(leafCPU.Milliseconds())/float64(b.N), "relay-cpu-ms/op")
	}
	b.ReportMetric(root.peakMiB(b), "peak-MiB")
	cancel()
	for _, f := range fleet {
		f.done.Wait()
	}
}
