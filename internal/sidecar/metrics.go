package sidecar

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/routesrv/routesrv/rollout"
)

// metrics are the series of the controller.
type metrics struct {
	mode      *prometheus.GaugeVec
	origin    *prometheus.GaugeVec
	switches  *prometheus.CounterVec
	ready     prometheus.Gauge
	refused   prometheus.Gauge
	held      prometheus.Gauge
	computing prometheus.Gauge
	badMode   prometheus.Gauge
	suspect   prometheus.Gauge
	deaths    prometheus.Counter
}

func newMetrics(reg prometheus.Registerer) *metrics {
	made := promauto.With(reg)
	gauge := func(name, help string) prometheus.Gauge {
		return made.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
	}
	m := &metrics{
		mode: made.NewGaugeVec(prometheus.GaugeOpts{
			Name: "dataplane_mode", Help: "1 for the mode in force: False, Pre or Exec.",
		}, []string{"mode"}),
		origin: made.NewGaugeVec(prometheus.GaugeOpts{
			Name: "dataplane_origin", Help: "1 for the origin of the served table: routeserver, self, last_known_good or none.",
		}, []string{"origin"}),
		switches: made.NewCounterVec(prometheus.CounterOpts{
			Name: "dataplane_switches_total", Help: "Switches to another producer.",
		}, []string{"origin"}),
		ready:     gauge("dataplane_cutover_ready", "1 while mode Pre finds a cutover advisable."),
		refused:   gauge("dataplane_mode_refused", "1 while the requested mode is refused."),
		held:      gauge("dataplane_switch_held", "1 while a switch to another producer is held because of its table."),
		computing: gauge("dataplane_fallback", "1 while a table is computed because no route server answers."),
		badMode:   gauge("dataplane_mode_file_invalid", "1 while the mode file has no valid mode."),
		suspect:   gauge("dataplane_suspect", "1 while the proven table is served, because the proxy died of the offered one."),
		deaths: made.NewCounter(prometheus.CounterOpts{
			Name: "dataplane_proxy_deaths_total", Help: "Restarts of the proxy while it had a table that was not proven.",
		}),
	}
	m.show(&view{Origin: fromNobody})
	for _, o := range []origin{fromSelf, fromRouteServer} {
		m.switches.WithLabelValues(string(o))
	}
	return m
}

// show sets the gauges that mirror the state.
func (m *metrics) show(v *view) {
	for _, mode := range rollout.Modes() {
		m.mode.WithLabelValues(mode.String()).Set(number(mode == v.Mode))
	}
	for _, o := range origins() {
		m.origin.WithLabelValues(string(o)).Set(number(o == v.Origin))
	}
	m.ready.Set(number(v.Cutover != nil && v.Cutover.Ready))
	m.refused.Set(number(v.Refused != ""))
	m.held.Set(number(v.Switch != nil && v.Switch.Guard.Held))
	m.computing.Set(number(v.Fallback != nil && v.Fallback.Compute))
	m.badMode.Set(number(v.ModeFileError != ""))
}

func number(is bool) float64 {
	if is {
		return 1
	}
	return 0
}
