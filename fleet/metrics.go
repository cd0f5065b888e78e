package fleet

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/routesrv/routesrv/internal/series"
)

// Metrics are the series of a Registry. No label value comes from clients.
type Metrics struct {
	clients  *prometheus.GaugeVec
	proxies  prometheus.Gauge
	refusing prometheus.Gauge
	suspect  *prometheus.GaugeVec
	lag      prometheus.Gauge
	duration *prometheus.HistogramVec
	reports  *prometheus.CounterVec
	refused  prometheus.Counter
}

// shareNames are the label values of shares.
var shareNames = [len(shares)]string{"0.5", "0.99", "1"}

// NewMetrics creates the series and registers them; nil registers nowhere.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	made := series.In(reg)
	return &Metrics{
		clients:  made.Gauges("routesrv_clients", "Clients of this replica: current, behind, rejected or silent.", "state", series.Texts(States())...),
		proxies:  made.Gauge("routesrv_live_proxies", "Clients without dataplane-client, such as Skippers, that asked within three of their intervals."),
		refusing: made.Gauge("routesrv_clients_refusing_routes", "Live clients whose proxy refused routes of its last table."),
		suspect: made.Gauges("routesrv_suspect_tables", "Tables of which proxies of live clients probably died, confirmed by several clients or not.",
			"confirmed", "true", "false"),
		lag: made.Gauge("routesrv_fleet_behind_seconds", "How long 99 percent of the live clients have been without the newest table, at most; 0 if they hold it."),
		duration: made.Histograms("routesrv_fleet_publish_seconds", "Time until a share of the live clients held a new table: 0.5, 0.99 or 1.",
			"share", []float64{.1, .25, .5, 1, 2.5, 5, 10, 20, 30, 60, 120, 300, 600}, shareNames[:]...),
		reports: made.Counters("routesrv_client_reports_total", "Reports of clients, by result: taken or refused.", "result", "taken", "refused"),
		refused: made.Counter("routesrv_clients_refused_total", "Requests of clients outside of the fleet, because it is full or too many come from one address."),
	}
}

func (m *Metrics) show(c Counts, proxies, refusing int, lag time.Duration) {
	m.proxies.Set(float64(proxies))
	m.refusing.Set(float64(refusing))
	for _, s := range States() {
		m.clients.WithLabelValues(string(s)).Set(float64(c.Of(s)))
	}
	m.lag.Set(lag.Seconds())
}

func (m *Metrics) suspects(list []SuspectTable) {
	n := map[bool]int{}
	for _, t := range list {
		n[t.Confirmed]++
	}
	m.suspect.WithLabelValues("true").Set(float64(n[true]))
	m.suspect.WithLabelValues("false").Set(float64(n[false]))
}

func (m *Metrics) took(share int, d time.Duration) {
	m.duration.WithLabelValues(shareNames[share]).Observe(d.Seconds())
}
