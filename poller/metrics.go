package poller

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/routesrv/routesrv/internal/api"
	"github.com/routesrv/routesrv/internal/series"
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
	made := series.In(reg)
	return &Metrics{
		polls: made.Counters("routesrv_polls_total", "Reads of the source: changed, unchanged, held (by the guard) or error.",
			"result", resultChanged, resultUnchanged, resultHeld, resultError),
		failures: made.Counters("routesrv_poll_failures_total", "Polls with the result error: read (the source failed) or panic.",
			"reason", failedRead, failedPanic),
		empty: made.Counter("routesrv_empty_tables_total", "Reads that gave no routes."),
		duration: made.Histograms("routesrv_poll_phase_duration_seconds", "Duration of the phases: read, compile, publish.",
			"phase", []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30}),
		started:     made.Gauge("routesrv_polling_started_timestamp_seconds", "When polling started."),
		initialized: made.Gauge("routesrv_table_initialized_timestamp_seconds", "When the first table was confirmed or published."),
		updated:     made.Gauge("routesrv_table_updated_timestamp_seconds", "When the table last changed."),
	}
}

// show sets the gauges that mirror the status.
func (m *Metrics) show(s *api.Source) {
	series.Stamp(m.started, s.Started)
	series.Stamp(m.initialized, s.Initialized)
	series.Stamp(m.updated, s.Updated)
}
