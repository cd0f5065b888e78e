package dataplane

import (
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/routesrv/routesrv/api"
	"github.com/routesrv/routesrv/internal/series"
	"github.com/routesrv/routesrv/publish"
	"github.com/routesrv/routesrv/table"
)

// tables are the tables of the client when a request is made.
type tables struct{ publish.Tables }

func (c *Client) tables() tables { return tables{c.publisher.Tables()} }

func (t tables) names() []string {
	var names []string
	for _, c := range t.all() {
		names = append(names, c.Names...)
	}
	return names
}

func (t tables) all() (all []*publish.Candidate) {
	if t.Served != nil {
		all = append(all, &t.Served.Candidate)
	}
	if t.Held != nil {
		all = append(all, t.Held)
	}
	return all
}

// find returns the table with the digest, or nil if the client does not have it.
func (t tables) find(d table.Digest) *publish.Candidate {
	for _, c := range t.all() {
		if c.Sent == d {
			return c
		}
	}
	return nil
}

// Transports, as label values and in the status.
const (
	transportStream = "stream"
	transportPoll   = "poll"
)

// Status is a summary of a [Client] for people and machines.
type Status = api.Fetch

// Rejected returns why a client does not accept the table that it was sent, in words for operators, or "".
func Rejected(s *Status) string {
	if s.Held != nil {
		return "guard: " + s.Held.Detail
	}
	for _, server := range s.Servers {
		if server.InUse && slices.Contains(verifyReasons, Reason(server.Reason)) {
			return server.Reason + ": " + server.LastError
		}
	}
	return ""
}

// loopState is the part of the status that rounds change.
type loopState struct {
	api.Fetch
	started time.Time       // when Run began
	stream  api.FetchStream // without a URL before the first stream
	leftOut leftOut
}

func (c *Client) update(change func(*loopState)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change(&c.loop)
}

// Recheck asks Run for an early poll, at most one a second. It never blocks.
func (c *Client) Recheck() {
	select {
	case c.recheck <- struct{}{}:
	default:
	}
}

func (c *Client) interval() time.Duration {
	return time.Duration(float64(c.cfg.Interval) * (1 - jitter + 2*jitter*c.cfg.Random()))
}

func (c *Client) chance(most time.Duration) time.Duration {
	return time.Duration(c.cfg.Random() * float64(most))
}

func (c *Client) using(transport string) {
	c.cfg.Metrics.using(transport)
	c.update(func(l *loopState) { l.Transport = transport })
}

func (c *Client) inUse() *server {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := slices.IndexFunc(c.servers, func(s *server) bool { return s.status.InUse })
	return c.servers[max(i, 0)]
}

// namesOf returns the ETags of a table from a file. Servers use only the digest and the revision.
func namesOf(t *table.Table) []string {
	zstd, gzip := api.Tag{Digest: t.Digest(), Revision: t.Revision(), Encoding: api.Zstd}, api.Tag{Digest: t.Digest(), Revision: t.Revision(), Encoding: api.Gzip}
	return []string{zstd.String(), gzip.String()}
}

func firstOf(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return names[0]
}

// Current returns the applied table, or nil.
func (c *Client) Current() *table.Table { return c.publisher.Table() }

// Publisher returns the publisher that judges and keeps the tables.
func (c *Client) Publisher() *publish.Publisher { return c.publisher }

func appliedOf(s *publish.Served) *api.Applied {
	a := &api.Applied{
		Digest: s.Table.Digest(), Revision: s.Table.Revision(), Routes: s.Table.Len(), Bytes: s.Table.Bytes(), Origin: s.Origin,
		Committed: s.Committed, Confirmed: s.Confirmed, SourceRead: s.Read.At, Stale: s.Stale, ServerState: s.State,
	}
	if !s.Stale {
		a.ETag = firstOf(s.Names)
	}
	return a
}

// Status returns the state of the client.
func (c *Client) Status() Status {
	served, guard, file := c.publisher.Served(), c.publisher.Holding(), c.publisher.File()
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.loop.Fetch
	if s.LastKnownGood = file; guard.Held {
		s.Held = &guard.Guard
	}
	if served != nil {
		s.Applied = appliedOf(served)
		s.AgeSeconds = api.AgeSeconds(time.Now(), s.Applied.SourceRead)
		if s.Applied.Digest == c.loop.leftOut.of {
			s.Applied.LeftOut = c.loop.leftOut.count
		}
	}
	if stream := c.loop.stream; stream.URL != "" {
		s.Stream = &stream
	}
	for _, server := range c.servers {
		s.Servers = append(s.Servers, server.status)
	}
	return s
}

// Results of an exchange, as label values.
const (
	resultChanged   = "changed"   // a new table was applied
	resultUnchanged = "unchanged" // the applied table is current
	resultHeld      = "held"      // the guard holds the table back
	resultOlder     = "older"     // the table is older than the applied one
	resultOvertaken = "overtaken" // an operator's acceptance changed the table during the exchange
	resultRejected  = "rejected"  // the answer did not pass verification
	resultError     = "error"     // there was no usable answer
)

var results = []string{
	resultChanged, resultUnchanged, resultHeld, resultOlder, resultOvertaken, resultRejected, resultError,
}

// Metrics are the series of a Client.
type Metrics struct {
	fetches, fetchErrors, verifyFailures, deltas, reconnects *prometheus.CounterVec
	received, failovers, older                               prometheus.Counter
	transport                                                *prometheus.GaugeVec
	routes, leftOut, revision, stale, sourceRead             prometheus.Gauge
	duration                                                 prometheus.Histogram
	publisher                                                *publish.Metrics
}

// NewMetrics creates the series and registers them; a nil registerer leaves them unregistered.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	made := series.In(reg)
	m := &Metrics{
		fetches: made.Counters("dataplane_fetches_total", "Exchanges with a route server, and stream events about the table: "+
			"changed, unchanged, held (by the guard), older, overtaken (by an acceptance), rejected (by verification) or error.", "result", results...),
		fetchErrors:    made.Counters("dataplane_fetch_errors_total", "Exchanges with the result error.", "reason", series.Texts(fetchReasons)...),
		verifyFailures: made.Counters("dataplane_verify_failures_total", "Exchanges with the result rejected.", "reason", series.Texts(verifyReasons)...),
		deltas:         made.Counters("dataplane_deltas_total", "Deltas: applied, failed (did not verify), or full (the whole table came).", "result", deltaApplied, deltaRejected, deltaFull),
		transport:      made.Gauges("dataplane_transport", "1 for the transport in use: stream or poll.", "transport"),
		reconnects:     made.Counters("dataplane_stream_reconnects_total", "Streams that ended or could not be opened.", "reason", series.Texts(endReasons)...),
		received:       made.Counter("dataplane_received_bytes_total", "Bytes of bodies as received, before decoding."),
		duration: made.Histogram("dataplane_fetch_duration_seconds", "Duration of exchanges, with verification.",
			[]float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30}),
		failovers: made.Counter("dataplane_failovers_total", "Changes of the route server in use."),
		older: made.Counter("dataplane_older_tables_accepted_total", "Tables applied or held although their revision is lower, "+
			"because the server insisted."),
		routes: made.Gauge("dataplane_table_routes", "Routes of the applied table."),
		leftOut: made.Gauge("dataplane_table_left_out", "Parts of the last fetched table that were left out: no reader can parse them, or no proxy "+
			"survives them."),
		revision:   made.Gauge("dataplane_table_revision", "Revision of the applied table; 0 if it has none."),
		stale:      made.Gauge("dataplane_table_stale", "1 while the table comes from the last-known-good file and no server has confirmed it."),
		sourceRead: made.Gauge("dataplane_source_last_read_timestamp_seconds", "When the source of the applied table was last read, as far as known."),
	}
	m.publisher = publish.NewMetrics(reg, "dataplane")
	m.using("")
	return m
}

// Publisher returns the series of the client's publisher.
func (m *Metrics) Publisher() *publish.Metrics { return m.publisher }

func (m *Metrics) using(transport string) {
	for _, t := range []string{transportStream, transportPoll} {
		m.transport.WithLabelValues(t).Set(series.Bool(t == transport))
	}
}

func (m *Metrics) show(s *publish.Served) {
	m.routes.Set(float64(s.Table.Len()))
	m.revision.Set(float64(s.Table.Revision()))
	m.stale.Set(series.Bool(s.Stale)) // once: a scrape may come at any time
	series.Stamp(m.sourceRead, s.Read.At)
}
