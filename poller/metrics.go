package poller

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/routesrv/routesrv/internal/api"
)

// Label values.
const (
	resultChanged   = "changed"
	resultUnchanged = "unchanged"
	resultHeld      = "held"
	resultError     = "error"

	failedRead  = "read"
	failedPanic = "panic"

	phaseRead    = "read"
	phaseCompile = "compile"
	phasePublish = "publish"
)

// Metrics are the series of a Poller.
type Metrics struct {
	polls       *prometheus.CounterVec
	failures    *prometheus.CounterVec
	empty       prometheus.Counter
	duration    *prometheus.HistogramVec
	started     prometheus.Gauge
	initialized prometheus.Gauge
	updated     prometheus.Gauge
}

// NewMetrics creates the series and registers them; a nil registerer leaves them unregistered.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
	}
	m := &Metrics{
		polls: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "routesrv_polls_total",
			Help: "Reads of the source: changed, unchanged, held (by the guard) or error.",
		}, []string{"result"}),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "routesrv_poll_failures_total",
			Help: "Polls with the result error: read (the source failed) or panic.",
		}, []string{"reason"}),
		empty: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "routesrv_empty_tables_total", Help: "Reads that gave no routes.",
		}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "routesrv_poll_phase_duration_seconds",
			Help:    "Duration of the phases: read, compile, publish.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30},
		}, []string{"phase"}),
		started:     gauge("routesrv_polling_started_timestamp_seconds", "When polling started."),
		initialized: gauge("routesrv_table_initialized_timestamp_seconds", "When the first table was confirmed or published."),
		updated:     gauge("routesrv_table_updated_timestamp_seconds", "When the table last changed."),
	}
	for _, r := range []string{resultChanged, resultUnchanged, resultHeld, resultError} {
		m.polls.WithLabelValues(r)
	}
	for _, r := range []string{failedRead, failedPanic} {
		m.failures.WithLabelValues(r)
	}
	if reg != nil {
		reg.MustRegister(m.polls, m.failures, m.empty, m.duration, m.started, m.initialized, m.updated)
	}
	return m
}

// show sets the gauges that mirror the status.
func (m *Metrics) show(s *api.Source) {
	for gauge, at := range map[prometheus.Gauge]time.Time{
		m.started: s.Started, m.initialized: s.Initialized, m.updated: s.Updated,
	} {
		if !at.IsZero() {
			gauge.Set(float64(at.UnixMilli()) / 1000)
		}
	}
}
