package watch

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/routesrv/routesrv/kube"
)

// Metrics holds what a Watcher measures, besides the [api.Metrics] of the lists that it makes.
type Metrics struct {
	events      *prometheus.CounterVec // kind, type
	restarts    *prometheus.CounterVec // kind, reason
	confirmed   *prometheus.GaugeVec   // kind
	reconciles  *prometheus.CounterVec // kind, result
	differences *prometheus.CounterVec // kind
}

// NewMetrics creates the metrics and registers them with reg; with nil it registers them nowhere. It panics if they
// are already registered.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	m := &Metrics{
		events: counter("routesrv_watch_events_total",
			"Events of the watches by type: added, modified, deleted or bookmark. Initial events of a watch are not counted.", "kind", "type"),
		restarts: counter("routesrv_watch_restarts_total",
			"Watches that ended, by reason: ended (by the server, as agreed), expired (the kind is listed again), error, "+
				"silent (it did not show a change) or missed (a reconcile found a difference).", "kind", "reason"),
		confirmed: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "routesrv_watch_confirmed_timestamp_seconds",
			Help: "When the objects of a kind were last known to be up to date: by an event, a bookmark, a revision or a list.",
		}, []string{"kind"}),
		reconciles: counter("routesrv_watch_reconciles_total",
			"Complete lists compared with the results of the watches, by result: ok or error.", "kind", "result"),
		differences: counter("routesrv_watch_reconcile_differences_total",
			"Objects for which a reconcile found another state than the watch had shown. It must stay 0.", "kind"),
	}
	if reg != nil {
		reg.MustRegister(m.events, m.restarts, m.confirmed, m.reconciles, m.differences)
	}
	return m
}

// show creates the series that must exist before anything happens.
func (m *Metrics) show(kind kube.Kind) {
	m.differences.WithLabelValues(string(kind))
	m.reconciles.WithLabelValues(string(kind), "ok")
}

func (m *Metrics) confirm(kind kube.Kind, at time.Time) {
	m.confirmed.WithLabelValues(string(kind)).Set(float64(at.UnixMilli()) / 1000)
}
