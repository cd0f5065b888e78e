package cluster

import "github.com/prometheus/client_golang/prometheus"

// Metrics holds the measurements of reading a cluster. The label kind is the kind that was listed, or "discovery".
type Metrics struct {
	ListDuration   *prometheus.HistogramVec // kind; complete lists only
	ListObjects    *prometheus.GaugeVec     // kind; in the last complete list
	DecodedObjects *prometheus.CounterVec   // kind; objects whose bytes differ from the previous read
	ReadErrors     *prometheus.CounterVec   // kind, reason
	Restores       prometheus.Counter
	WatchRestarts  *prometheus.CounterVec // kind, reason
	WatchConfirmed *prometheus.GaugeVec   // kind
}

// NewMetrics creates the metrics and registers them with reg; with nil it registers them nowhere. It panics if they
// are already registered.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	kind := []string{"kind"}
	m := &Metrics{
		ListDuration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "routesrv_source_list_duration_seconds",
			Help:    "Time from the request of a list to its last decoded object.",
			Buckets: prometheus.ExponentialBuckets(0.005, 2, 13), // 5 ms to 20 s
		}, kind),
		ListObjects: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "routesrv_source_list_objects",
			Help: "Objects in the last complete list, also undecodable ones.",
		}, kind),
		DecodedObjects: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "routesrv_source_decoded_objects_total",
			Help: "Objects decoded because they were new or changed.",
		}, kind),
		ReadErrors: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "routesrv_source_read_errors_total",
			Help: "Requests that made a read fail.",
		}, []string{"kind", "reason"}),
		Restores: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "routesrv_source_restores_total",
			Help: "How often the cluster went back to an older revision.",
		}),
		WatchRestarts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "routesrv_watch_restarts_total",
			Help: "Watches that ended, and a list followed: ended (as agreed), error, or silent (it missed a change).",
		}, []string{"kind", "reason"}),
		WatchConfirmed: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "routesrv_watch_confirmed_timestamp_seconds",
			Help: "When a watched kind was last known to be up to date.",
		}, kind),
	}
	if reg != nil {
		reg.MustRegister(m.ListDuration, m.ListObjects, m.DecodedObjects, m.ReadErrors, m.Restores, m.WatchRestarts, m.WatchConfirmed)
	}
	return m
}
