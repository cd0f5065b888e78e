package robustness

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/routesrv/routesrv/test/robustness/history"
)

// Trend describes the usage of one resource by a process over the longest time that it ran.
type Trend struct {
	Member, What string
	For          time.Duration
	Median, Max  float64
	// Growth is the slope multiplied by For. The slope is the median of the slopes between all pairs of samples, so that garbage
	// collections and peaks do not affect it.
	Growth float64
}

// resources are the resources with trends, and the growth to ignore: a share of the median, and an amount. Only growth above both
// counts.
var resources = []struct {
	name   string
	of     func(history.Sample) float64
	amount float64
}{
	{"memory", func(s history.Sample) float64 { return float64(s.RSS) }, 48 << 20},
	{"goroutines", func(s history.Sample) float64 { return float64(s.Goroutines) }, 30},
	{"descriptors", func(s history.Sample) float64 { return float64(s.Descriptors) }, 30},
	{"disk", func(s history.Sample) float64 { return float64(s.Disk) }, 4 << 20},
}

const flatShare = 0.15

// Flat reports whether the growth is not significant.
func (t Trend) Flat() bool {
	for _, r := range resources {
		if r.name == t.What {
			return t.Growth <= r.amount || t.Growth <= flatShare*t.Median
		}
	}
	return true
}

// String returns a line of a report.
func (t Trend) String() string {
	unit, div := "", 1.0
	if t.What == "memory" || t.What == "disk" {
		unit, div = " MiB", 1<<20
	}
	return fmt.Sprintf("%-4s %-11s median %8.1f, max %8.1f, growth %+7.1f%s in %v", t.Member, t.What, t.Median/div, t.Max/div, t.Growth/div, unit,
		t.For.Round(time.Second))
}

// Trends returns the trends of all processes that ran for at least that long, without the first part of their time, in which
// caches fill.
func Trends(h *history.History, warm, least time.Duration) []Trend {
	var out []Trend
	for _, m := range h.Run.Members {
		run := longest(h, m.Name, warm)
		if len(run) < 20 || run[len(run)-1].At-run[0].At < least {
			continue
		}
		for _, r := range resources {
			t := Trend{Member: m.Name, What: r.name, For: run[len(run)-1].At - run[0].At}
			var values, slopes []float64
			step := max(1, len(run)/400) // pairs of 400 samples are as significant as all pairs
			for i := 0; i < len(run); i += step {
				v := r.of(run[i])
				values = append(values, v)
				t.Max = max(t.Max, v)
				for j := 0; j < i; j += step {
					if dt := run[i].At - run[j].At; dt > t.For/4 { // close samples say nothing about a trend
						slopes = append(slopes, (v-r.of(run[j]))/dt.Seconds())
					}
				}
			}
			t.Median, t.Growth = median(values), median(slopes)*t.For.Seconds()
			out = append(out, t)
		}
	}
	return out
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

func median(v []float64) float64 {
	if len(v) == 0 {
		return 0
	}
	slices.SortFunc(v, cmp.Compare[float64])
	return v[len(v)/2]
}

// TrendReport returns all trends as text, and those that are not flat.
func TrendReport(all []Trend) (text string, growing []string) {
	var b strings.Builder
	for _, t := range all {
		fmt.Fprintln(&b, t)
		if !t.Flat() {
			growing = append(growing, t.String())
		}
	}
	return b.String(), growing
}
