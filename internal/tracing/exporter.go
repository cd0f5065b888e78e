package tracing

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	sdk "go.opentelemetry.io/otel/sdk/trace"

	"github.com/routesrv/routesrv/internal/series"
)

// newMetrics creates the counter and registers it.
func newMetrics(reg prometheus.Registerer) *prometheus.CounterVec {
	return series.In(reg).Counters("routesrv_trace_spans_total", "Spans: sent, or failed (not accepted by the collector).", "result", "sent", "failed")
}

// NewMetrics registers the series of a Tracer, for the reference.
func NewMetrics(reg prometheus.Registerer) { newMetrics(reg) }

// exporter sends batches of spans, counts them, and logs when the collector begins to refuse or to accept them. The SDK calls it
// from one goroutine.
type exporter struct {
	sdk.SpanExporter
	log     *slog.Logger
	spans   *prometheus.CounterVec
	failing bool
}

func newExporter(ctx context.Context, cfg Config) (*exporter, error) {
	headers := make(map[string]string)
	for name := range cfg.Headers {
		headers[name] = cfg.Headers.Get(name)
	}
	client := &http.Client{Transport: cfg.Transport, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse // the headers may be credentials
	}}
	otlp, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(cfg.Endpoint), otlptracehttp.WithHeaders(headers),
		otlptracehttp.WithHTTPClient(client), otlptracehttp.WithCompression(otlptracehttp.GzipCompression), otlptracehttp.WithTimeout(sendTimeout),
		otlptracehttp.WithRetry(otlptracehttp.RetryConfig{Enabled: true, InitialInterval: time.Second, MaxInterval: 4 * time.Second, MaxElapsedTime: sendTimeout}))
	if err != nil {
		return nil, err
	}
	return &exporter{SpanExporter: otlp, log: cfg.Logger.With("component", "tracing"), spans: newMetrics(cfg.Registry)}, nil
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
