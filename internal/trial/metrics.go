package trial

import (
	"github.com/prometheus/client_golang/prometheus"
)

// The series of a trial.
var (
	upDesc = prometheus.NewDesc("routesrv_trial_proxy_up", "1 while the trial proxy answers; at 0 new filters and predicates pass without a trial.", nil, nil)

	textsDesc = prometheus.NewDesc("routesrv_trial_texts", "Filters and predicates by verdict: accepted, refused, died, hung, grew, blamed or waiting.",
		[]string{"verdict"}, nil)
)

// Describe implements [prometheus.Collector].
func (t *Trial) Describe(descriptions chan<- *prometheus.Desc) {
	descriptions <- upDesc
	descriptions <- textsDesc
}

// Collect implements [prometheus.Collector].
func (t *Trial) Collect(series chan<- prometheus.Metric) {
	s := t.Status()
	up := 1.0
	if s.Silent != "" {
		up = 0
	}
	series <- prometheus.MustNewConstMetric(upDesc, prometheus.GaugeValue, up)
	counts := map[string]int{string(Accepted): s.Accepted, string(Refused): 0, string(Died): 0, string(Hung): 0, string(Grew): 0, string(Blamed): 0, "waiting": s.Waiting}
	for _, f := range s.Failed {
		counts[f.Verdict]++
	}
	for verdict, n := range counts {
		series <- prometheus.MustNewConstMetric(textsDesc, prometheus.GaugeValue, float64(n), verdict)
	}
}
