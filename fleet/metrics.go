package fleet

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
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
	made := promauto.With(reg)
	gauge := func(name, help string) prometheus.Gauge {
		return made.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
	}
	m := &Metrics{
		clients: made.NewGaugeVec(prometheus.GaugeOpts{
			Name: "routesrv_clients", Help: "Clients of this replica: current, behind, rejected or silent.",
		}, []string{"state"}),
		proxies:  gauge("routesrv_live_proxies", "Clients without dataplane-client, such as Skippers, that asked within three of their intervals."),
		refusing: gauge("routesrv_clients_refusing_routes", "Live clients whose proxy refused routes of its last table."),
		suspect: made.NewGaugeVec(prometheus.GaugeOpts{
			Name: "routesrv_suspect_tables", Help: "Tables of which proxies of live clients probably died, confirmed by several clients or not.",
		}, []string{"confirmed"}),
		lag: gauge("routesrv_fleet_behind_seconds", "How long 99 percent of the live clients have been without the newest table, at most; 0 if they hold it."),
		duration: made.NewHistogramVec(prometheus.HistogramOpts{
			Name: "routesrv_fleet_publish_seconds", Help: "Time until a share of the live clients held a new table: 0.5, 0.99 or 1.",
			Buckets: []float64{.1, .25, .5, 1, 2.5, 5, 10, 20, 30, 60, 120, 300, 600},
		}, []string{"share"}),
		reports: made.NewCounterVec(prometheus.CounterOpts{
			Name: "routesrv_client_reports_total", Help: "Reports of clients, by result: taken or refused.",
		}, []string{"result"}),
		refused: made.NewCounter(prometheus.CounterOpts{
			Name: "routesrv_clients_refused_total", Help: "Requests of clients outside of the fleet, because it is full or too many come from one address.",
		}),
	}
	for _, s := range States() {
		m.clients.WithLabelValues(string(s))
	}
	m.suspects(nil)
	for _, s := range shareNames {
		m.duration.WithLabelValues(s)
	}
	for _, result := range []string{"taken", "refused"} {
		m.reports.WithLabelValues(result)
	}
	return m
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
