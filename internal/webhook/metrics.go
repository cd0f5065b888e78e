package webhook

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Results of reviews.
const (
	resultAllowed = "allowed" // the object has no problems
	resultWarned  = "warned"  // admitted with warnings
	resultRefused = "refused"
	resultSkipped = "skipped" // the route server ignores the object
	resultFailed  = "failed"  // the review could not be read, or the object not judged
)

// Metrics are the series of a webhook.
type Metrics struct {
	reviews  *prometheus.CounterVec // by kind, operation, result
	duration prometheus.Histogram
	reads    *prometheus.CounterVec // by result
	lastRead prometheus.Gauge
}

// NewMetrics creates the series and registers them with reg, unless it is nil.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	made := promauto.With(reg)
	m := &Metrics{
		reviews: made.NewCounterVec(prometheus.CounterOpts{
			Name: "routesrv_webhook_reviews_total",
			Help: "Reviews: allowed, warned, refused, skipped (not an object of this route server) or failed.",
		}, []string{"kind", "operation", "result"}),
		duration: made.NewHistogram(prometheus.HistogramOpts{
			Name:    "routesrv_webhook_review_duration_seconds",
			Help:    "Time to answer a review.",
			Buckets: []float64{.0005, .001, .0025, .005, .01, .02, .05, .1, .25, .5, 1, 2.5},
		}),
		reads: made.NewCounterVec(prometheus.CounterOpts{
			Name: "routesrv_webhook_reads_total", Help: "Reads of the cluster: ok or error.",
		}, []string{"result"}),
		lastRead: made.NewGauge(prometheus.GaugeOpts{
			Name: "routesrv_webhook_last_read_timestamp_seconds",
			Help: "Time of the last successful read of the cluster; 0 before the first.",
		}),
	}
	for _, result := range []string{"ok", "error"} {
		m.reads.WithLabelValues(result)
	}
	return m
}

func (m *Metrics) read(err error) {
	if err != nil {
		m.reads.WithLabelValues("error").Inc()
		return
	}
	m.reads.WithLabelValues("ok").Inc()
	m.lastRead.Set(float64(time.Now().UnixNano()) / 1e9)
}
