package dataplane

import "github.com/prometheus/client_golang/prometheus"

// relayQuestions is the series that a Relay has beside those of its client.
func relayQuestions(reg prometheus.Registerer) *prometheus.CounterVec {
	asked := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "routesrv_relay_questions_total",
		Help: "Questions to the upstream route server about tables that clients name and this relay never had, by answer: send " +
			"(the relay sends its table), other (the upstream would send a table that the relay does not have yet), keep (the " +
			"client keeps its table), or none.",
	}, []string{"answer"})
	for _, a := range ClaimAnswers() {
		asked.WithLabelValues(string(a))
	}
	if reg != nil {
		reg.MustRegister(asked)
	}
	return asked
}
