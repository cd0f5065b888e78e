package bench

import (
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/routesrv/routesrv/etagcache"
	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/publish"
)

// canaryOf creates the cache of a canary.
func (h *held) canaryOf(soak time.Duration) publish.CanaryConfig {
	if soak == 0 {
		return publish.CanaryConfig{}
	}
	var err error
	if h.canary, err = etagcache.New(etagcache.Config{}); err != nil {
		h.b.Fatal(err)
	}
	return publish.CanaryConfig{Sink: h.canary, Soak: soak}
}

// BenchmarkCanary measures the cost of a read in which one EndpointSlice has changed, or one Ingress as well: without a canary, with one on which
// nothing soaks, and with one on which the Ingress soaks.
func BenchmarkCanary(b *testing.B) {
	const never = 24 * time.Hour
	for _, tt := range []struct {
		name   string
		soak   time.Duration
		soaks  bool // an Ingress, from before
		change bool // of the Ingress
	}{
		{"off/endpoints", 0, false, false}, {"on/endpoints", never, false, false}, {"on/endpoints-while-one-soaks", never, true, false},
		{"off/change", 0, false, true}, {"on/change-that-soaks", never, true, true},
	} {
		b.Run(tt.name, func(b *testing.B) {
			h := newHeld(b, 0, tt.soak)
			if tt.soaks || tt.change {
				h.changeIngress(1)
			}
			before := processorTime(b)
			for n := 2; b.Loop(); n++ {
				if tt.change {
					h.changeIngress(n)
				} else {
					h.replacePod(n)
				}
			}
			b.ReportMetric(float64((processorTime(b)-before).Microseconds())/1000/float64(b.N), "cpu-ms/op")
			runtime.GC()
			runtime.GC()
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			b.ReportMetric(float64(m.HeapAlloc)/(1<<20), "MiB")
			if got := len(h.publisher.Soaking()) > 0; got != tt.soaks {
				b.Fatalf("something soaks: %v", got)
			}
		})
	}
}

// changeIngress gives one Ingress another filter, and replaces a pod.
func (h *held) changeIngress(n int) {
	next := *h.snapshot
	next.Ingresses = slices.Clone(next.Ingresses)
	one := *next.Ingresses[8]
	one.Annotations = kube.Pairs{{Key: "zalando.org/skipper-filter", Value: fmt.Sprintf("setPath(%q)", fmt.Sprint("/", n))}}
	next.Ingresses[8] = &one
	h.snapshot = &next
	h.replacePod(n)
}
