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
	writes *prometheus.CounterVec // nil: counted by nobody
	named  bool                   // writes has a label with the name of the file
}

// halvesOfHolds are the values of the label half.
func halvesOfHolds() []guard.Half {
	return []guard.Half{guard.HeldIntent, guard.HeldBackends, guard.HeldBoth, guard.WholeTable}
}

// NewMetrics makes the series, whose names begin with the prefix, and registers them; a nil registerer leaves them
// unregistered.
func NewMetrics(reg prometheus.Registerer, prefix string) *Metrics {
	m := &Metrics{
		holds: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: prefix + "_guard_holds_total", Help: "Tables that the guard began to hold back, by reason.",
		}, []string{"reason"}),
		held: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: prefix + "_guard_held", Help: "1 while the guard holds a table back, else 0.",
		}),
		halves: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: prefix + "_guard_held_half", Help: "1 for what a hold keeps now, else 0: intent, backends, both, or table (all of it).",
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

// CountWrites makes the Gate count writes of files in a vector whose last label is the result, ok or error. If named is true
// there is a label before it, the name of the file.
func (m *Metrics) CountWrites(writes *prometheus.CounterVec, named bool) *Metrics {
	m.writes, m.named = writes, named
	return m
}

func (m *Metrics) write(file, result string) {
	switch {
	case m.writes == nil:
	case m.named:
		m.writes.WithLabelValues(file, result).Inc()
	default:
		m.writes.WithLabelValues(result).Inc()
	}
}

// hold shows what is held; empty for nothing.
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
