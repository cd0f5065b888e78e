// Package tracing makes OpenTelemetry traces of how tables come and go, and sends them to a collector by OTLP over HTTP.
//
// A read is a trace: poll_routes, with read, compile and, if the table changed, publish below it. An answer to a client is a trace
// of its own, serve_routes, with a link to the publish span of the table that it hands out. So a change can be followed from the
// read that found it to the clients that got it, although those come seconds later, and by hundreds.
//
// # What is traced
//
// Each read that published something or failed, each table that was published otherwise (from a checkpoint, accepted by an
// operator, or received by a relay), and the first answer that hands out each of them. Of all other reads and answers a share,
// Config.Sample: most of them tell that nothing has changed.
//
// # Cost
//
// Nobody waits for a collector. A span that has ended goes into a queue of [maxQueue] spans, and is dropped and counted if that is
// full. One goroutine, [Tracer.Run], sends them. No attribute has a host, an address or the name of an object.
package tracing

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/routesrv/routesrv/table"
)

// Config is what a Tracer is made of. Endpoint and Service are required.
type Config struct {
	// Endpoint is the URL that takes spans by OTLP, with its path.
	Endpoint string
	// Headers are added to each request, such as credentials.
	Headers http.Header
	// Sample is the share of the reads and answers that are traced although they change nothing, from 0 to 1.
	Sample float64
	// Service and Version are the attributes service.name and service.version of all spans. The variables OTEL_SERVICE_NAME and
	// OTEL_RESOURCE_ATTRIBUTES of the process take precedence.
	Service, Version string

	// Transport sends; nil means one that verifies TLS with the authorities of the system and asks no proxy.
	Transport http.RoundTripper
	Logger    *slog.Logger          // nil means no log
	Registry  prometheus.Registerer // nil means no metrics
	// Random is [0, 1), called concurrently; nil means math/rand.
	Random func() float64
}

// Tracer makes spans and sends them. Its methods are safe for concurrent use.
type Tracer struct {
	cfg    Config
	tracer trace.Tracer
	queue  *queue

	reading atomic.Pointer[read] // the read that is going on; nil if none is

	mu        sync.Mutex   // guards what follows
	published []*published // the latest last, at most maxPublished
}

// maxPublished is of how many tables the publish spans are remembered. Who is sent a table gets one of the latest.
const maxPublished = 16

// published is a table that was published.
type published struct {
	digest table.Digest
	span   trace.SpanContext
	handed atomic.Bool // an answer that hands it out was traced
}

// New checks the configuration. It starts nothing and does no I/O.
func New(ctx context.Context, cfg Config) (*Tracer, error) {
	if cfg.Sample < 0 || cfg.Sample > 1 {
		return nil, fmt.Errorf("share of samples %v: want 0 to 1", cfg.Sample)
	}
	if cfg.Service == "" {
		return nil, errors.New("want the name of the service")
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Random == nil {
		cfg.Random = rand.Float64
	}
	client, err := newClient(cfg)
	if err != nil {
		return nil, err
	}
	about, err := resource.New(ctx, resource.WithAttributes(
		attribute.String("service.name", cfg.Service), attribute.String("service.version", cfg.Version),
		attribute.String("service.instance.id", uuid.NewString()), // no name of a host or pod: who wants that sets it
	), resource.WithFromEnv())
	if err != nil {
		return nil, fmt.Errorf("attributes of the process (OTEL_RESOURCE_ATTRIBUTES): %w", err)
	}
	t := &Tracer{cfg: cfg, queue: newQueue(otlptrace.NewUnstarted(client), cfg.Logger.With("component", "tracing"), newMetrics(cfg.Registry))}
	provider := sdk.NewTracerProvider(sdk.WithResource(about), sdk.WithSampler(sdk.AlwaysSample()), sdk.WithSpanProcessor(t.queue))
	t.tracer = provider.Tracer("github.com/routesrv/routesrv")
	return t, nil
}

// Run sends spans until ctx ends, and then what is left, for [FlushTimeout] at most. It returns nil. It is to be called once.
func (t *Tracer) Run(ctx context.Context) error {
	t.queue.run(ctx)
	return nil
}

// sampled decides by chance.
func (t *Tracer) sampled() bool { return t.cfg.Sample > 0 && t.cfg.Random() < t.cfg.Sample }

// remember makes answers link to the span that published a table.
func (t *Tracer) remember(d table.Digest, s trace.SpanContext) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.published) == maxPublished {
		t.published = append(t.published[:0], t.published[1:]...)
	}
	t.published = append(t.published, &published{digest: d, span: s})
}

// publishedAs gives the last publication of a table; nil if it is not remembered.
func (t *Tracer) publishedAs(d table.Digest) *published {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := len(t.published) - 1; i >= 0; i-- {
		if t.published[i].digest == d {
			return t.published[i]
		}
	}
	return nil
}

// span makes a span whose time is over.
func (t *Tracer) span(ctx context.Context, name string, began, ended time.Time, o ...trace.SpanStartOption) {
	_, s := t.tracer.Start(ctx, name, append(o, trace.WithTimestamp(began))...)
	s.End(trace.WithTimestamp(ended))
}

// ofTable are the attributes of a table.
func ofTable(d table.Digest, revision uint64) []attribute.KeyValue {
	return []attribute.KeyValue{
		attribute.String("routesrv.digest", d.String()), attribute.Int64("routesrv.revision", int64(revision)),
	}
}
