package shadowdiff

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// The results of a comparison.
const (
	resultSame      = "same"      // no difference
	resultPending   = "pending"   // differences that may be skew
	resultDifferent = "different" // differences that count
	resultError     = "error"     // no comparison was possible
)

// Metrics are the series of a continuous comparison.
type Metrics struct {
	Routes      *prometheus.GaugeVec   // kind
	Comparisons *prometheus.CounterVec // result
	Clean       prometheus.Gauge
}

// NewMetrics creates the series and registers them; a nil registerer leaves them unregistered.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	made := promauto.With(reg)
	m := &Metrics{
		Routes: made.NewGaugeVec(prometheus.GaugeOpts{
			Name: "dataplane_shadow_routes",
			Help: "Routes that differ for longer than skew explains: missing, extra, changed or renamed.",
		}, []string{"kind"}),
		Comparisons: made.NewCounterVec(prometheus.CounterOpts{
			Name: "dataplane_shadow_comparisons_total",
			Help: "Comparisons: same, pending (the difference may be skew), different or error (a table was not " +
				"available).",
		}, []string{"result"}),
		Clean: made.NewGauge(prometheus.GaugeOpts{
			Name: "dataplane_shadow_clean_seconds",
			Help: "Time without a difference that counts, up to the last comparison.",
		}),
	}
	for _, k := range kindNames {
		m.Routes.WithLabelValues(k)
	}
	for _, r := range []string{resultSame, resultPending, resultDifferent, resultError} {
		m.Comparisons.WithLabelValues(r)
	}
	return m
}

// Observe sets the series from a comparison.
func (m *Metrics) Observe(o *Observation) {
	for kind, n := range map[Kind]int{
		Missing: o.Confirmed.Missing, Extra: o.Confirmed.Extra, Changed: o.Confirmed.Changed, Renamed: o.Confirmed.Renamed,
	} {
		m.Routes.WithLabelValues(kind.String()).Set(float64(n))
	}
	result := resultSame
	switch {
	case o.Confirmed.Differences() > 0:
		result = resultDifferent
	case o.Pending.Differences() > 0:
		result = resultPending
	}
	m.Comparisons.WithLabelValues(result).Inc()
	m.Clean.Set(o.Clean.Seconds())
}

// Failed counts a comparison that was not possible. The other series keep the values of the last comparison.
func (m *Metrics) Failed() { m.Comparisons.WithLabelValues(resultError).Inc() }
