package api

import "github.com/prometheus/client_golang/prometheus"

// Metrics holds the measurements of reading a cluster. The label kind is the kind that was listed, or "discovery".
type Metrics struct {
	ListDuration   *prometheus.HistogramVec // kind; complete lists only
	ListBytes      *prometheus.GaugeVec     // kind; of the last answer, as sent
	ListObjects    *prometheus.GaugeVec     // kind; in the last complete list
	DecodedObjects *prometheus.CounterVec   // kind; objects whose bytes differ from the previous read
	ReadErrors     *prometheus.CounterVec   // kind, reason
	Restores       prometheus.Counter
	ReadMode       *prometheus.GaugeVec // mode; 1 for the current one
}

// NewMetrics creates the metrics and registers them with reg; with nil it registers them nowhere. It panics if they
// are already registered.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	kind := []string{"kind"}
	m := &Metrics{
		ListDuration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "routesrv_source_list_duration_seconds",
			Help:    "Time from the request of a list to its last object, decoded.",
			Buckets: prometheus.ExponentialBuckets(0.005, 2, 13), // 5 ms to 20 s
		}, kind),
		ListBytes: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "routesrv_source_list_bytes",
			Help: "Size of the body of the last list as sent, compressed or not.",
		}, kind),
		ListObjects: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "routesrv_source_list_objects",
			Help: "Objects in the last complete list, including those that could not be decoded.",
		}, kind),
		DecodedObjects: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "routesrv_source_decoded_objects_total",
			Help: "Objects decoded because they were new or had changed since the previous read.",
		}, kind),
		ReadErrors: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "routesrv_source_read_errors_total",
			Help: "Requests that made a read fail, by reason.",
		}, []string{"kind", "reason"}),
		Restores: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "routesrv_source_restores_total",
			Help: "How often the cluster went back to an older revision, for example after a restore of etcd.",
		}),
		ReadMode: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "routesrv_source_read_mode",
			Help: "1 for the way in which the API is read: poll or watch.",
		}, []string{"mode"}),
	}
	if reg != nil {
		reg.MustRegister(m.ListDuration, m.ListBytes, m.ListObjects, m.DecodedObjects, m.ReadErrors, m.Restores, m.ReadMode)
	}
	return m
}

// Reading sets how the API is read: "poll" or "watch".
func (m *Metrics) Reading(mode string) {
	m.ReadMode.Reset()
	m.ReadMode.WithLabelValues(mode).Set(1)
}
