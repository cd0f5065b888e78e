// Package tracing creates OpenTelemetry traces of how tables are produced and served, and sends them to a collector by OTLP over
// HTTP.
//
// A read is a trace: poll_routes, with read, compile and, if the table changed, publish below it. An answer to a client is a
// separate trace, serve_routes, with a link to the publish span of its table: you can follow a change to each client.
//
// # What is traced
//
// Each read that published a table or failed; each other publication (from a last-known-good file, accepted by an operator, or
// received by a relay); and the first answer with each of these tables. Everything else is sampled at Config.Sample.
//
// A slow collector delays nothing: the SDK queues ended spans, and drops them if its queue is full. No attribute contains a host,
// an address or the name of an object.
package tracing

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/routesrv/routesrv/internal/series"
	"github.com/routesrv/routesrv/table"
)

// Config configures a Tracer. Endpoint and Service are required.
type Config struct {
	// Endpoint is the URL, with path, that receives spans by OTLP. The SDK reads headers, such as credentials, from the variable
	// OTEL_EXPORTER_OTLP_HEADERS of the process.
	Endpoint string
	Sample   float64 // share of reads and answers to trace even if they change nothing, from 0 to 1
	// Service and Version are the attributes service.name and service.version of all spans. The variables OTEL_SERVICE_NAME and
	// OTEL_RESOURCE_ATTRIBUTES of the process take precedence.
	Service, Version string

	// Transport sends requests; nil means one that verifies TLS with the system's authorities and uses no proxy.
	Transport http.RoundTripper
	Logger    *slog.Logger          // nil means no log
	Registry  prometheus.Registerer // nil means no metrics
}

// Tracer creates spans and sends them. Its methods are safe for concurrent use. A nil Tracer does nothing.
type Tracer struct {
	cfg      Config
	tracer   trace.Tracer
	provider *sdk.TracerProvider
	exporter *exporter

	reading atomic.Pointer[read] // the current read; nil if there is none

	mu        sync.Mutex   // guards the fields below
	published []*published // latest last, at most maxPublished
}

// maxPublished is how many tables' publish spans are remembered. Clients are sent only the latest tables.
const maxPublished = 16

type published struct {
	digest table.Digest
	span   trace.SpanContext
	handed atomic.Bool // an answer with this table was traced
}

// Limits of requests to the collector.
const (
	sendTimeout = 10 * time.Second // for one batch, with retries while the collector is busy
	// FlushTimeout limits all requests of [Tracer.Close].
	FlushTimeout = 3 * time.Second
)

// New returns a Tracer. The SDK starts one goroutine, which [Tracer.Close] ends.
func New(ctx context.Context, cfg Config) (*Tracer, error) {
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	if cfg.Transport == nil {
		cfg.Transport = &http.Transport{MaxIdleConns: 1, IdleConnTimeout: time.Minute, TLSHandshakeTimeout: sendTimeout, ForceAttemptHTTP2: true}
	}
	about, err := resource.New(ctx, resource.WithAttributes(
		attribute.String("service.name", cfg.Service), attribute.String("service.version", cfg.Version),
		attribute.String("service.instance.id", uuid.NewString()), // no host or pod name: operators who want one can set it
	), resource.WithFromEnv())
	if err != nil {
		return nil, fmt.Errorf("attributes of the process (OTEL_RESOURCE_ATTRIBUTES): %w", err)
	}
	e, err := newExporter(ctx, cfg)
	if err != nil {
		return nil, err
	}
	t := &Tracer{cfg: cfg, exporter: e, provider: sdk.NewTracerProvider(sdk.WithResource(about), sdk.WithSampler(sdk.AlwaysSample()),
		sdk.WithBatcher(e, sdk.WithBatchTimeout(time.Second), sdk.WithExportTimeout(sendTimeout)))}
	t.tracer = t.provider.Tracer("github.com/routesrv/routesrv")
	return t, nil
}

// Close sends the remaining spans, for at most [FlushTimeout]. Call it once.
func (t *Tracer) Close() {
	if t == nil {
		return
	}
	flush, cancel := context.WithTimeout(context.Background(), FlushTimeout)
	defer cancel()
	if err := t.provider.Shutdown(flush); err != nil {
		_ = t.exporter.SpanExporter.Shutdown(context.Background()) // aborts the request in progress
	}
}

func (t *Tracer) sampled() bool { return rand.Float64() < t.cfg.Sample }

// remember lets answers link to the span that published a table.
func (t *Tracer) remember(d table.Digest, s trace.SpanContext) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.published) == maxPublished {
		t.published = slices.Delete(t.published, 0, 1)
	}
	t.published = append(t.published, &published{digest: d, span: s})
}

// publishedAs returns the last publication of a table, or nil if it is no longer remembered.
func (t *Tracer) publishedAs(d table.Digest) *published {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, p := range slices.Backward(t.published) {
		if p.digest == d {
			return p
		}
	}
	return nil
}

// span creates a span that has already ended.
func (t *Tracer) span(ctx context.Context, name string, began, ended time.Time, o ...trace.SpanStartOption) {
	_, s := t.tracer.Start(ctx, name, append(o, trace.WithTimestamp(began))...)
	s.End(trace.WithTimestamp(ended))
}

func ofTable(d table.Digest, revision uint64) []attribute.KeyValue {
	return []attribute.KeyValue{
		attribute.String("routesrv.digest", d.String()), attribute.Int64("routesrv.revision", int64(revision)),
	}
}

// NewMetrics creates the series of a Tracer, the spans by result, and registers them.
func NewMetrics(reg prometheus.Registerer) *prometheus.CounterVec {
	return series.In(reg).Counters("routesrv_trace_spans_total", "Spans: sent, or failed (not accepted by the collector).", "result", "sent", "failed")
}

// exporter sends batches of spans, counts them, and logs when the collector begins to refuse or to accept them. The SDK calls it
// from one goroutine.
type exporter struct {
	sdk.SpanExporter
	log     *slog.Logger
	spans   *prometheus.CounterVec
	failing bool
}

func newExporter(ctx context.Context, cfg Config) (*exporter, error) {
	client := &http.Client{Transport: cfg.Transport, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse // the headers may be credentials
	}}
	otlp, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(cfg.Endpoint),
		otlptracehttp.WithHTTPClient(client), otlptracehttp.WithCompression(otlptracehttp.GzipCompression), otlptracehttp.WithTimeout(sendTimeout),
		otlptracehttp.WithRetry(otlptracehttp.RetryConfig{Enabled: true, InitialInterval: time.Second, MaxInterval: 4 * time.Second, MaxElapsedTime: sendTimeout}))
	if err != nil {
		return nil, err
	}
	return &exporter{SpanExporter: otlp, log: cfg.Logger.With("component", "tracing"), spans: NewMetrics(cfg.Registry)}, nil
}

// ExportSpans implements [sdk.SpanExporter]. It handles the error of the collector itself.
func (e *exporter) ExportSpans(ctx context.Context, batch []sdk.ReadOnlySpan) error {
	err := e.SpanExporter.ExportSpans(ctx, batch)
	result := "sent"
	if err != nil {
		result = "failed"
	}
	e.spans.WithLabelValues(result).Add(float64(len(batch)))
	switch {
	case err != nil && !e.failing:
		e.log.Warn("the collector does not accept traces; spans are dropped until it does (--otlp-endpoint)", "error", err)
	case err == nil && e.failing:
		e.log.Info("the collector accepts traces again")
	}
	e.failing = err != nil
	return nil
}
