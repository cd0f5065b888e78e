package watch

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/routesrv/routesrv/kube"
)

// Metrics holds what a Watcher measures, besides the [api.Metrics] of the lists that it makes.
type Metrics struct {
	events    *prometheus.CounterVec // kind, type
	restarts  *prometheus.CounterVec // kind, reason
	confirmed *prometheus.GaugeVec   // kind
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
			"Watches that ended, by reason: ended (by the server, as agreed), error, or silent (it did not show a change). A list follows.",
			"kind", "reason"),
		confirmed: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "routesrv_watch_confirmed_timestamp_seconds",
			Help: "When the objects of a kind were last known to be up to date: by an event, a bookmark, a revision or a list.",
		}, []string{"kind"}),
	}
	if reg != nil {
		reg.MustRegister(m.events, m.restarts, m.confirmed)
	}
	return m
}

func (m *Metrics) confirm(kind kube.Kind, at time.Time) {
	m.confirmed.WithLabelValues(string(kind)).Set(float64(at.UnixMilli()) / 1000)
}
