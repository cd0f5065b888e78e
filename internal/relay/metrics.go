package relay

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/routesrv/routesrv/internal/claims"
)

// metrics are the series of a Relay beside those of its client.
type metrics struct {
	asked *prometheus.CounterVec
}

func newMetrics(reg prometheus.Registerer) *metrics {
	m := &metrics{asked: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "routesrv_relay_questions_total",
		Help: "Questions to the upstream route server about tables that clients name and this relay never had, by answer: send " +
			"(the relay sends its table), other (the upstream would send a table that the relay does not have yet), keep (the " +
			"client keeps its table), or none.",
	}, []string{"answer"})}
	for _, a := range claims.Answers() {
		m.asked.WithLabelValues(string(a))
	}
	if reg != nil {
		reg.MustRegister(m.asked)
	}
	return m
}
