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
			Help:    "Time from the request of a list to its last object, decoded.",
			Buckets: prometheus.ExponentialBuckets(0.005, 2, 13), // 5 ms to 20 s
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
		WatchRestarts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "routesrv_watch_restarts_total",
			Help: "Watches that ended, by reason: ended (by the server, as agreed), error, or silent (it did not show a change). A list follows.",
		}, []string{"kind", "reason"}),
		WatchConfirmed: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "routesrv_watch_confirmed_timestamp_seconds",
			Help: "When the objects of a watched kind were last known to be up to date: by an event, a bookmark, a revision or a list.",
		}, kind),
	}
	if reg != nil {
		reg.MustRegister(m.ListDuration, m.ListObjects, m.DecodedObjects, m.ReadErrors, m.Restores, m.WatchRestarts, m.WatchConfirmed)
	}
	return m
}
