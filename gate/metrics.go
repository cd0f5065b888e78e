package gate

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/routesrv/routesrv/guard"
)

// Metrics are the series of a Gate.
type Metrics struct {
	holds  *prometheus.CounterVec
	held   prometheus.Gauge
	halves *prometheus.GaugeVec
	write  func(file, result string)
}

// halvesOfHolds returns the values of the label half.
func halvesOfHolds() []guard.Half {
	return []guard.Half{guard.HeldIntent, guard.HeldBackends, guard.HeldBoth, guard.WholeTable}
}

// NewMetrics creates the series with the prefix and registers them; a nil registerer leaves them unregistered.
func NewMetrics(reg prometheus.Registerer, prefix string) *Metrics {
	m := &Metrics{
		write: func(string, string) {},
		holds: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: prefix + "_guard_holds_total", Help: "Tables that the guard began to hold back, by reason.",
		}, []string{"reason"}),
		held: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: prefix + "_guard_held", Help: "1 while the guard holds back a table, else 0.",
		}),
		halves: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: prefix + "_guard_held_half", Help: "1 for the half that a hold keeps now, else 0: intent, backends, both, or " +
				"table (all of it).",
		}, []string{"half"}),
	}
	for _, c := range guard.Codes() {
		m.holds.WithLabelValues(string(c))
	}
	m.hold("")
	if reg != nil {
		reg.MustRegister(m.holds, m.held, m.halves)
	}
	return m
}

// CountWrites sets the function that counts each write of a file, by the name of the file and the result, ok or error.
func (m *Metrics) CountWrites(count func(file, result string)) *Metrics {
	m.write = count
	return m
}

// hold sets the gauges for the held half; empty means that nothing is held.
func (m *Metrics) hold(half guard.Half) {
	m.held.Set(0)
	if half != "" {
		m.held.Set(1)
	}
	for _, h := range halvesOfHolds() {
		on := 0.0
		if h == half {
			on = 1
		}
		m.halves.WithLabelValues(string(h)).Set(on)
	}
}
