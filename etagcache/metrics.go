package etagcache

import (
	"net/http"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/routesrv/routesrv/internal/api"
)

// Metrics is created by NewMetrics. Use one Metrics for one Cache.
type Metrics struct {
	Responses       *prometheus.CounterVec // by code and encoding
	SentBytes       *prometheus.CounterVec // by encoding; bodies only
	EncodeDuration  prometheus.Histogram
	Streams         prometheus.Gauge
	StreamsRefused  prometheus.Counter
	StreamsDropped  prometheus.Counter
	StreamEvents    *prometheus.CounterVec // by event
	StreamSentBytes prometheus.Counter
	TableRoutes     prometheus.Gauge
	TableBytes      *prometheus.GaugeVec // by encoding
	TableStale      prometheus.Gauge
	ReadRevision    prometheus.Gauge
	Complete        prometheus.Gauge
	LastRead        prometheus.Gauge
	Claims          prometheus.Counter
	OlderTables     prometheus.Counter
	BrokenBodies    prometheus.Counter
}

// NewMetrics creates the metrics and registers them with reg; nil registers nowhere. It panics if they are already registered.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	made := promauto.With(reg)
	counter := func(name, help string) prometheus.Counter {
		return made.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	gauge := func(name, help string) prometheus.Gauge {
		return made.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
	}
	m := &Metrics{
		Responses: made.NewCounterVec(prometheus.CounterOpts{
			Name: "routesrv_table_responses_total",
			Help: "Responses of /routes and /routes/{zone}.",
		}, []string{"code", "encoding"}),
		SentBytes: made.NewCounterVec(prometheus.CounterOpts{
			Name: "routesrv_table_sent_bytes_total",
			Help: "Bytes of the bodies of /routes and /routes/{zone}, as encoded.",
		}, []string{"encoding"}),
		EncodeDuration: made.NewHistogram(prometheus.HistogramOpts{
			Name:    "routesrv_table_encode_duration_seconds",
			Help:    "Time to encode the new parts of a table, full or of a zone.",
			Buckets: prometheus.ExponentialBuckets(0.001, 2, 14),
		}),
		Streams:         gauge("routesrv_streams", "Open streams."),
		StreamsRefused:  counter("routesrv_streams_refused_total", "Streams refused at the limit or during shutdown."),
		StreamsDropped:  counter("routesrv_streams_dropped_total", "Streams whose reader read nothing or broke the connection."),
		StreamSentBytes: counter("routesrv_stream_sent_bytes_total", "Bytes sent on streams, as encoded."),
		StreamEvents: made.NewCounterVec(prometheus.CounterOpts{
			Name: "routesrv_stream_events_total", Help: "Events sent on streams.",
		}, []string{"event"}),
		TableBytes: made.NewGaugeVec(prometheus.GaugeOpts{
			Name: "routesrv_table_bytes",
			Help: "Size of the last full table; 0 for an encoding that nobody requested.",
		}, []string{"encoding"}),
		TableRoutes: gauge("routesrv_table_routes", "Routes in the served table."),
		TableStale:  gauge("routesrv_table_stale", "1 while the table comes from a last-known-good file and no read has confirmed it."),
		ReadRevision: gauge("routesrv_table_read_revision", "Highest list revision of the last read that showed the served "+
			"table."),
		Complete: gauge("routesrv_table_complete_revision", "The table is complete up to this revision."),
		LastRead: gauge("routesrv_source_last_read_timestamp_seconds", "Time of the last successful read of the source."),
		Claims: counter("routesrv_unknown_etags_total", "Tables named by clients that may be newer than this "+
			"replica's; each got 304 and caused a read."),
		OlderTables: counter("routesrv_older_tables_served_total", "Responses that sent a client back to an older table, "+
			"because the source went back."),
		BrokenBodies: counter("routesrv_broken_bodies_total", "Bodies that could not be written completely."),
	}
	m.begin()
	return m
}

// begin makes the series of what clients usually get appear with 0 before the first event.
func (m *Metrics) begin() {
	for e := range encodings {
		for _, status := range []int{http.StatusOK, http.StatusIMUsed, http.StatusNotModified} {
			m.Responses.WithLabelValues(strconv.Itoa(status), e.String())
		}
		m.SentBytes.WithLabelValues(e.String())
		m.TableBytes.WithLabelValues(e.String())
	}
	for _, name := range api.Events() {
		m.StreamEvents.WithLabelValues(name)
	}
}

func (m *Metrics) observeResponse(status int, e encoding, bytes int) {
	m.Responses.WithLabelValues(strconv.Itoa(status), e.String()).Inc()
	m.SentBytes.WithLabelValues(e.String()).Add(float64(bytes))
}

func (m *Metrics) observeState(st *state) {
	m.ReadRevision.Set(float64(st.newest))
	m.Complete.Set(float64(st.oldest))
	stale := 0.0
	if st.read.Stale {
		stale = 1
	}
	m.TableStale.Set(stale)
}
