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
		Help: "Questions to the upstream route server about tables that clients name and this relay has never had, by answer: send (its " +
			"own table is fit for them), other (it is, and this relay has not got it yet), keep (the client is to keep what it " +
			"has), or none.",
	}, []string{"answer"})}
	for _, a := range claims.Answers() {
		m.asked.WithLabelValues(string(a))
	}
	if reg != nil {
		reg.MustRegister(m.asked)
	}
	return m
}
