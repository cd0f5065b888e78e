package publish

import (
	"encoding/binary"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/routesrv/routesrv/internal/series"
)

// Metrics are the series of a Publisher.
type Metrics struct {
	holds *prometheus.CounterVec
	held  prometheus.Gauge
	// unjudged counts promotions without a verdict, and halted are the halted entries.
	unjudged prometheus.Counter
	halted   prometheus.Gauge
	kept     *prometheus.GaugeVec

	// Only where objects are known: the start and end of freezes and pins, and a hash of them.
	steeredSince, steeredUntil, steeredHash prometheus.Gauge
	lost                                    prometheus.Gauge
	writes                                  *prometheus.CounterVec // of files
}

// NewMetrics creates the series with the prefix and registers them; a nil registerer leaves them unregistered.
func NewMetrics(reg prometheus.Registerer, prefix string) *Metrics {
	made, later := series.In(reg), series.In(nil)
	m := &Metrics{
		writes: made.Counters(prefix+"_file_writes_total", "Writes of last_known_good, or of routes for a proxy: ok or error.", "file result"),
		holds:  made.Counters(prefix+"_guard_holds_total", "How often the guard began to hold a table or keep objects.", "reason", series.Texts(Reasons())...),
		held:   made.Gauge(prefix+"_guard_held", "1 while the guard holds a table or keeps objects."),
		kept:   made.Gauges(prefix+"_kept_objects", "Objects kept at an earlier version.", "reason"),

		unjudged: later.Counter(prefix+"_canary_unjudged_total", "Changes promoted although the canary query was not answered."),
		halted:   later.Gauge(prefix+"_canary_halted_objects", "Objects whose newest version was halted on the canary."),

		steeredSince: later.Gauge(prefix+"_steering_since_timestamp_seconds", "When the oldest freeze or pin began; 0 without any."),
		steeredUntil: later.Gauge(prefix+"_steering_until_timestamp_seconds", "When the first freeze or pin ends; 0 if none has an end."),
		lost:         later.Gauge(prefix+"_lost_hosts_ratio", "Share of hosts lost within the guard window, and published."),
		steeredHash:  later.Gauge(prefix+"_steering_hash", "A number equal on replicas with the same freezes and pins; 0 without any."),
	}
	m.keeps(nil)
	return m
}

// steers shows the freezes and pins.
func (m *Metrics) steers(list keptList) {
	since, until := list.freezesAndPins().times()
	seconds := func(t time.Time) float64 {
		if t.IsZero() {
			return 0
		}
		return float64(t.Unix())
	}
	m.steeredSince.Set(seconds(since))
	m.steeredUntil.Set(seconds(until))
	digest := list.orderDigest()
	m.steeredHash.Set(float64(binary.BigEndian.Uint32(digest[:]))) // fits into a float64
}

// keeps shows the kept objects, or that the whole table waits.
func (m *Metrics) keeps(list keptList) {
	m.steers(list)
	list = list.settled()
	m.held.Set(float64(min(1, len(list.guarded())))) // once: a scrape may come at any time
	count := map[string]int{keptBy: 0, string(ReasonTrial): 0, string(ReasonTakeover): 0, string(ReasonFreeze): 0, string(ReasonPin): 0, string(ReasonCanary): 0}
	m.halted.Set(float64(len(list.soaking().where(func(k *Kept) bool { return k.Soak.Halted != "" }))))
	for _, k := range list.objects() {
		if reviewed(k.Reason) || steered(k.Reason) || k.Soak != nil {
			count[string(k.Reason)]++
		} else {
			count[keptBy]++
		}
	}
	for reason, n := range count {
		m.kept.WithLabelValues(reason).Set(float64(n))
	}
}

// Steering returns the series of freezes and pins, and of published losses, for a server that reads objects.
func (m *Metrics) Steering() []prometheus.Collector {
	return []prometheus.Collector{m.steeredSince, m.steeredUntil, m.steeredHash, m.lost, m.unjudged, m.halted}
}
