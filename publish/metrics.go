package publish

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/routesrv/routesrv/kube"
)

// Metrics are the series of a Publisher.
type Metrics struct {
	holds *prometheus.CounterVec
	held  prometheus.Gauge
	kept  *prometheus.GaugeVec
	write func(file, result string)
}

// NewMetrics creates the series with the prefix and registers them; a nil registerer leaves them unregistered.
func NewMetrics(reg prometheus.Registerer, prefix string) *Metrics {
	m := &Metrics{
		write: func(string, string) {},
		holds: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: prefix + "_guard_holds_total", Help: "How often the guard began to hold back a table, or to keep objects, by reason.",
		}, []string{"reason"}),
		held: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: prefix + "_guard_held", Help: "1 while the guard holds back a table or keeps objects, else 0.",
		}),
		kept: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: prefix + "_kept_objects", Help: "Objects that are kept at an earlier version than the newest, by kind.",
		}, []string{"kind"}),
	}
	for _, c := range Reasons() {
		m.holds.WithLabelValues(string(c))
	}
	m.keeps(nil)
	if reg != nil {
		reg.MustRegister(m.holds, m.held, m.kept)
	}
	return m
}

// CountWrites sets the function that counts each write of a file, by the name of the file and the result, ok or error.
func (m *Metrics) CountWrites(count func(file, result string)) *Metrics {
	m.write = count
	return m
}

// keeps shows what is kept, or that the whole table waits.
func (m *Metrics) keeps(list keptList) {
	list = list.settled()
	m.held.Set(float64(min(1, len(list.waiting())))) // once: a scrape may come at any time
	count := map[kube.Kind]int{kube.KindIngress: 0, kube.KindRouteGroup: 0, kube.KindService: 0}
	for _, k := range list.objects() {
		count[k.Kind]++
	}
	for kind, n := range count {
		m.kept.WithLabelValues(string(kind)).Set(float64(n))
	}
}
