package fleet

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/routesrv/routesrv/internal/series"
)

// Metrics are the series of a Registry. No label value comes from clients.
type Metrics struct {
	clients                       *prometheus.GaugeVec
	proxies, refusing, dying, lag prometheus.Gauge
	reports                       *prometheus.CounterVec
	refused                       prometheus.Counter
}

// NewMetrics creates the series and registers them; nil registers nowhere.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	made := series.In(reg)
	return &Metrics{
		clients:  made.Gauges("routesrv_clients", "Clients of this replica: current, behind, rejected (unless dying) or silent.", "state", series.Texts(States())...),
		proxies:  made.Gauge("routesrv_live_proxies", "Addresses of clients without dataplane-client that asked within three of their intervals."),
		refusing: made.Gauge("routesrv_clients_refusing_routes", "Live clients whose proxy refused routes of its last table."),
		dying:    made.Gauge("routesrv_clients_dying", "Live clients with a proxy that crashed because of a table, until they recover."),
		lag: made.Gauge("routesrv_fleet_behind_seconds",
			"How long 99 percent of the addresses of clients have been without the newest table, at most; 0 if they hold it."),
		reports: made.Counters("routesrv_client_reports_total", "Reports of clients, by result: taken or refused.", "result", "taken", "refused"),
		refused: made.Counter("routesrv_clients_refused_total", "Requests of clients outside of the fleet, because it is full or too many come from one address."),
	}
}
