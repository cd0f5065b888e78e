package budget

import "github.com/prometheus/client_golang/prometheus"

type metrics struct {
	urgent, lazy prometheus.Counter
}

func newMetrics(reg prometheus.Registerer, b *Budget) *metrics {
	changes := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "routesrv_budget_changes_total",
		Help: "Changed tables, by kind: urgent ones were served at once, lazy ones only add endpoints and wait for up to --change-budget.",
	}, []string{"kind"})
	m := &metrics{urgent: changes.WithLabelValues("urgent"), lazy: changes.WithLabelValues("lazy")}
	if reg != nil {
		reg.MustRegister(changes, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "routesrv_budget_waiting",
			Help: "1 while a table waits because it only adds endpoints, else 0.",
		}, func() float64 {
			if t, _ := b.Waiting(); t != nil {
				return 1
			}
			return 0
		}))
	}
	return m
}
