package compute_test

import (
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/routesrv/routesrv/app/webhook"
	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/test/scale"
)

// BenchmarkReview judges changed Ingresses against a generated cluster of 20,000 objects, while a new snapshot with one change
// comes ten times a second. The 99th percentile is what an API server waits for.
func BenchmarkReview(b *testing.B) {
	cluster := scale.New(1)
	snapshot := cluster.Snapshot()
	j, err := webhook.NewJudge(scaleOptions, kube.Selection{}, false)
	if err != nil {
		b.Fatal(err)
	}
	j.Take(snapshot)
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for n := 1; ; n++ {
			select {
			case <-stop:
				return
			case <-tick.C:
				j.Take(cluster.Mutated(snapshot, n%1000, n))
			}
		}
	}()
	r := rand.New(rand.NewPCG(1, 1))
	var took []time.Duration
	for b.Loop() {
		i := r.IntN(15_000)
		old, object := cluster.JSON(kube.KindIngress, i, 0), cluster.JSON(kube.KindIngress, i, 1)
		began := time.Now()
		if v, err := j.Review(kube.KindIngress, object, old); err != nil || v.Skipped {
			b.Fatal(v, err)
		}
		took = append(took, time.Since(began))
	}
	close(stop)
	<-stopped
	snapshot = nil
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	b.ReportMetric(float64(m.HeapAlloc)/(1<<20), "heap-MiB")
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
	runtime.KeepAlive(j)
}
