package etagcache

import (
	"net/http"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/routesrv/routesrv/api"
	"github.com/routesrv/routesrv/internal/series"
	"github.com/routesrv/routesrv/table"
)

// Metrics is created by NewMetrics. Use one Metrics for one Cache.
type Metrics struct {
	Responses    *prometheus.CounterVec // by code and encoding
	SentBytes    *prometheus.CounterVec // by encoding; bodies only
	StreamEvents *prometheus.CounterVec // by event
	TableBytes   *prometheus.GaugeVec   // by encoding

	StreamsRefused, StreamsDropped, StreamSentBytes, Claims, OlderTables, BrokenBodies prometheus.Counter
	Streams, TableRoutes, TableStale, ReadRevision, Complete, LastRead                 prometheus.Gauge
	EncodeDuration                                                                     prometheus.Histogram
}

// NewMetrics creates the metrics and registers them with reg; nil registers nowhere. It panics if they are already registered.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	made := series.In(reg)
	m := &Metrics{
		Responses: made.Counters("routesrv_table_responses_total", "Responses of /routes and /routes/{zone}.", "code encoding"),
		SentBytes: made.Counters("routesrv_table_sent_bytes_total", "Bytes of the bodies of /routes and /routes/{zone}, as encoded.", "encoding"),
		EncodeDuration: made.Histogram("routesrv_table_encode_duration_seconds", "Time to encode the new parts of a table, full or of a zone.",
			prometheus.ExponentialBuckets(0.001, 2, 14)),
		Streams:         made.Gauge("routesrv_streams", "Open streams."),
		StreamsRefused:  made.Counter("routesrv_streams_refused_total", "Streams refused at the limit or during shutdown."),
		StreamsDropped:  made.Counter("routesrv_streams_dropped_total", "Streams whose reader read nothing or broke the connection."),
		StreamSentBytes: made.Counter("routesrv_stream_sent_bytes_total", "Bytes sent on streams, as encoded."),
		StreamEvents:    made.Counters("routesrv_stream_events_total", "Events sent on streams.", "event", api.Events()...),
		TableBytes:      made.Gauges("routesrv_table_bytes", "Size of the last full table; 0 for an encoding that no client requested.", "encoding"),
		TableRoutes:     made.Gauge("routesrv_table_routes", "Routes in the served table."),
		TableStale:      made.Gauge("routesrv_table_stale", "1 while the table comes from a last-known-good file and no read has confirmed it."),
		ReadRevision:    made.Gauge("routesrv_table_read_revision", "Highest list revision of the last read that showed the served table."),
		Complete:        made.Gauge("routesrv_table_complete_revision", "The table is complete up to this revision."),
		LastRead:        made.Gauge("routesrv_source_last_read_timestamp_seconds", "Time of the last successful read of the source."),
		Claims: made.Counter("routesrv_unknown_etags_total", "Tables named by clients that may be newer than this replica's; each got 304 and caused "+
			"a read."),
		OlderTables:  made.Counter("routesrv_older_tables_served_total", "Responses that sent a client back to an older table, because the source went back."),
		BrokenBodies: made.Counter("routesrv_broken_bodies_total", "Bodies that could not be written completely."),
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
}

func (m *Metrics) observeResponse(status int, e encoding, bytes int) {
	m.Responses.WithLabelValues(strconv.Itoa(status), e.String()).Inc()
	m.SentBytes.WithLabelValues(e.String()).Add(float64(bytes))
}

// Seen is what one request, or one event of a stream, shows about its client.
type Seen struct {
	Request *http.Request // for a stream, its first request; read only
	Zone    string        // the requested zone
	// Digest and Revision are of the table that the client names; if it names none, of the table that it was sent completely.
	// Zero means neither. For a stream they are the table that it was brought to.
	Digest   table.Digest
	Revision uint64
	// Ahead means that the client has a table that may be newer than this replica's.
	Ahead  bool
	Stream StreamPhase
	Sent   api.Tag // the table of a complete 200; otherwise zero
}

// StreamPhase is the stream event of a Seen.
type StreamPhase uint8

// The phases of a stream.
const (
	NoStream StreamPhase = iota // an ordinary request
	StreamOpened
	StreamWritten // something was written, apparently successfully
	StreamClosed
)

// Order returns the number of the last version with the table, full or for a zone; 0 if the table is not remembered.
func (c *Cache) Order(d table.Digest) uint64 { return c.history.order(d) }

// Changed returns a version since which these routes have not changed, so that its clients and later ones have them.
func (c *Cache) Changed(ids []string) uint64 { return c.history.lastChange(ids) }

// answered counts an answer, and reports what a GET of a table has shown. whole means that the body was sent completely.
func (x *exchange) answered(status, n int, whole bool) {
	x.cache.cfg.Metrics.observeResponse(status, x.encoding, n)
	saw := x.cache.cfg.Saw
	if saw == nil || x.variant == nil || x.r.Method != http.MethodGet {
		return
	}
	seen := Seen{Request: x.r, Zone: x.zone, Ahead: x.kept}
	if named := api.ParseTags(x.r.Header[api.HeaderIfNoneMatch]).List; len(named) > 0 {
		seen.Digest, seen.Revision = named[0].Digest, named[0].Revision
	}
	if whole && status == http.StatusOK {
		seen.Sent = api.Tag{Digest: x.variant.table.Digest(), Revision: x.revision}
		if seen.Digest.IsZero() {
			seen.Digest, seen.Revision, seen.Ahead = seen.Sent.Digest, x.revision, false
		}
	}
	saw(seen)
}

// observe reports an event of a stream.
func (s *stream) observe(phase StreamPhase) {
	saw := s.cache.cfg.Saw
	if saw == nil {
		return
	}
	seen := Seen{Request: s.r, Zone: s.zone, Stream: phase, Ahead: s.ahead}
	if s.has != nil {
		seen.Digest, seen.Revision = s.has.Digest, s.has.Revision
	}
	saw(seen)
}
