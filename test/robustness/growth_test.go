package robustness

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/routesrv/routesrv/test/robustness/history"
)

// resources are the resources that a process must not use more and more of, and the growth to ignore: only growth above this
// amount and above a share of the median counts.
var resources = []struct {
	name   string
	of     func(history.Sample) float64
	amount float64
}{
	{"bytes of memory", func(s history.Sample) float64 { return float64(s.RSS) }, 48 << 20},
	{"goroutines", func(s history.Sample) float64 { return float64(s.Goroutines) }, 30},
	{"descriptors", func(s history.Sample) float64 { return float64(s.Descriptors) }, 30},
	{"bytes on disk", func(s history.Sample) float64 { return float64(s.Disk) }, 4 << 20},
}

const flatShare = 0.15

// Growth compares the first and the last third of the longest time that each process ran, without the first part, in which caches
// fill. The medians of the thirds hide garbage collections and peaks. It returns a line for each process and resource, and those
// that grow. Processes that ran for less than least say nothing.
func Growth(h *history.History, warm, least time.Duration) (all, growing []string) {
	for _, m := range h.Run.Members {
		run := longest(h, m.Name, warm)
		if len(run) < 20 || run[len(run)-1].At-run[0].At < least {
			continue
		}
		third := len(run) / 3
		for _, r := range resources {
			first, last := median(run[:third], r.of), median(run[len(run)-third:], r.of)
			line := fmt.Sprintf("%s: %.0f %s, later %.0f", m.Name, first, r.name, last)
			all = append(all, line)
			if growth := last - first; growth > r.amount && growth > flatShare*first {
				growing = append(growing, line)
			}
		}
	}
	return all, growing
}

// longest are the samples of the longest time between two starts of a process during the storm, without those of its warm-up. Samples without
// goroutines are of a moment in which it did not answer.
func longest(h *history.History, member string, warm time.Duration) []history.Sample {
	var starts []time.Duration
	for _, e := range h.Events {
		if e.Member == member && e.Name == "started" {
			starts = append(starts, e.At)
		}
	}
	var best []history.Sample
	for i, from := range starts {
		to := h.Run.Calm
		if i+1 < len(starts) {
			to = min(to, starts[i+1])
		}
		var run []history.Sample
		for _, s := range h.Samples {
			if s.Member == member && s.At >= from+warm && s.At < to && s.Goroutines > 0 {
				run = append(run, s)
			}
		}
		if len(run) > len(best) {
			best = run
		}
	}
	return best
}

func median(samples []history.Sample, of func(history.Sample) float64) float64 {
	var values []float64
	for _, s := range samples {
		values = append(values, of(s))
	}
	slices.SortFunc(values, cmp.Compare[float64])
	return values[len(values)/2]
}
