// Package series creates the Prometheus series of all packages in one form: name, help, labels, and the values of a label from
// the start.
package series

import (
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Factory creates series and registers them. It panics if one exists already.
type Factory struct{ made promauto.Factory }

// In returns a factory for a registry; nil registers nowhere.
func In(reg prometheus.Registerer) Factory { return Factory{promauto.With(reg)} }

// Counter returns a counter without labels.
func (f Factory) Counter(name, help string) prometheus.Counter {
	return f.made.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
}

// Counters returns counters with labels, whose names have spaces between them. They exist from the start for these values of the
// only label, so that the first event is an increase.
func (f Factory) Counters(name, help, labels string, values ...string) *prometheus.CounterVec {
	v := f.made.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, strings.Fields(labels))
	for _, value := range values {
		v.WithLabelValues(value)
	}
	return v
}

// Gauge returns a gauge without labels.
func (f Factory) Gauge(name, help string) prometheus.Gauge {
	return f.made.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
}

// Gauges returns gauges with labels, like [Factory.Counters].
func (f Factory) Gauges(name, help, labels string, values ...string) *prometheus.GaugeVec {
	v := f.made.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, strings.Fields(labels))
	for _, value := range values {
		v.WithLabelValues(value)
	}
	return v
}

// Histogram returns a histogram without labels.
func (f Factory) Histogram(name, help string, buckets []float64) prometheus.Histogram {
	return f.made.NewHistogram(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets})
}

// Histograms returns histograms with labels, like [Factory.Counters].
func (f Factory) Histograms(name, help, labels string, buckets []float64, values ...string) *prometheus.HistogramVec {
	v := f.made.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, strings.Fields(labels))
	for _, value := range values {
		v.WithLabelValues(value)
	}
	return v
}

// Bool returns 1 for true and 0 for false.
func Bool(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

// Stamp sets a gauge to a time in seconds since 1970, unless the time is zero.
func Stamp(g prometheus.Gauge, at time.Time) {
	if !at.IsZero() {
		g.Set(float64(at.UnixMilli()) / 1000)
	}
}

// Texts returns constants as values of a label.
func Texts[T ~string](constants []T) []string {
	all := make([]string, len(constants))
	for i, c := range constants {
		all[i] = string(c)
	}
	return all
}
