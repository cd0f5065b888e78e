package tracing

import (
	"context"
	"net/http"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/routesrv/routesrv/etagcache"
	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/poller"
	"github.com/routesrv/routesrv/publish"
	"github.com/routesrv/routesrv/table"
)

// Names of spans. Skipper's route server has the first and the last one, too.
const (
	spanPoll    = "poll_routes"
	spanPublish = "publish"
	spanServe   = "serve_routes"
)

// Reasons for publishing a table: the values of routesrv.cause.
const (
	causeRead          = "read"
	causeLastKnownGood = "last_known_good"
	causeReleased      = "released" // an operator accepted or steered it, or a soak ended
)

// read is the trace of one read. It belongs to the goroutine of the poller, which also publishes the result of the read.
type read struct {
	tracer *Tracer
	began  time.Time
	phases []phase
	ctx    context.Context // with the span of the read, once it exists
	span   trace.Span      // nil until it is needed
}

type phase struct {
	name         string
	began, ended time.Time
}

// Reads returns the hook that begins the trace of a read; see [poller.Config]. Spans are created when a table is published or the
// read ends: only then it is known whether the read is worth tracing.
func (t *Tracer) Reads() func(began time.Time) poller.ReadTrace {
	if t == nil {
		return nil
	}
	return func(began time.Time) poller.ReadTrace {
		r := &read{tracer: t, began: began}
		t.reading.Store(r)
		return r
	}
}

// Phase implements [poller.ReadTrace].
func (r *read) Phase(name string, began, ended time.Time) {
	r.phases = append(r.phases, phase{name, began, ended})
}

// open creates the span of the read, which publish needs as its parent.
func (r *read) open() context.Context {
	if r.span == nil {
		r.ctx, r.span = r.tracer.tracer.Start(context.Background(), spanPoll, trace.WithTimestamp(r.began))
	}
	return r.ctx
}

// End implements [poller.ReadTrace].
func (r *read) End(result, reason string, oldest, newest kube.Revision) {
	r.tracer.reading.Store(nil)
	if result == "" && r.span == nil || r.span == nil && reason == "" && !r.tracer.sampled() {
		return
	}
	ctx := r.open()
	for _, p := range r.phases {
		r.tracer.span(ctx, p.name, p.began, p.ended)
	}
	r.span.SetAttributes(attribute.String("routesrv.result", result), attribute.Int64("routesrv.revision", int64(newest)),
		attribute.Int64("routesrv.complete_revision", int64(oldest)))
	if reason != "" {
		r.span.SetStatus(codes.Error, reason) // the error text may name hosts: it is only in the log
	}
	r.span.End()
}

// Sink returns a sink that passes everything to next and traces publications.
func (t *Tracer) Sink(next publish.Sink) publish.Sink {
	if t == nil {
		return next
	}
	return &sink{next: next, tracer: t}
}

// sink creates a span for each newly served table. A Publisher does not call its methods concurrently.
type sink struct {
	next   publish.Sink
	tracer *Tracer
	served atomic.Pointer[table.Digest] // nil before the first table
}

// Restore implements [publish.Sink].
func (s *sink) Restore(t *table.Table, at time.Time) {
	s.publish(context.Background(), causeLastKnownGood, t, func() { s.next.Restore(t, at) })
}

// Publish implements [publish.Sink].
func (s *sink) Publish(t *table.Table) {
	s.publish(context.Background(), causeReleased, t, func() { s.next.Publish(t) })
}

// Begin implements [publish.Sink].
func (s *sink) Begin() (end func(*table.Table, table.Read)) {
	finish, of := s.next.Begin(), s.tracer.reading.Load()
	return func(t *table.Table, r table.Read) {
		if t == nil || s.serves(t) {
			finish(t, r)
			return
		}
		ctx := context.Background()
		if of != nil {
			ctx = of.open()
		}
		s.publish(ctx, causeRead, t, func() { finish(t, r) })
	}
}

func (s *sink) serves(t *table.Table) bool {
	d := s.served.Load()
	return d != nil && *d == t.Digest()
}

// publish calls serve to serve a table. It registers the span before a client can receive the table.
func (s *sink) publish(ctx context.Context, cause string, t *table.Table, serve func()) {
	d := t.Digest()
	if s.serves(t) {
		serve()
		return
	}
	_, span := s.tracer.tracer.Start(ctx, spanPublish, trace.WithAttributes(append(ofTable(d, t.Revision()),
		attribute.String("routesrv.cause", cause), attribute.Int("routesrv.routes", t.Len()), attribute.Int64("routesrv.bytes", int64(t.Bytes())))...))
	s.tracer.remember(d, span.SpanContext())
	serve()
	s.served.Store(&d)
	span.End()
}

// Saw traces what was sent; see [etagcache.Config].
func (t *Tracer) Saw(seen etagcache.Seen) {
	a := seen.Sent
	if t == nil || a.Status == 0 {
		return
	}
	var from *published
	switch a.Status {
	case http.StatusOK, http.StatusIMUsed, http.StatusPartialContent:
		from = t.publishedAs(a.Published)
	}
	first := from != nil && from.handed.CompareAndSwap(false, true)
	if !first && !t.sampled() {
		return
	}
	o := []trace.SpanStartOption{trace.WithSpanKind(trace.SpanKindServer), trace.WithAttributes(
		attribute.Int("http.response.status_code", a.Status), attribute.Bool("routesrv.stream", seen.Stream != etagcache.NoStream),
		attribute.String("routesrv.encoding", a.Encoding), attribute.Int("routesrv.bytes", a.Bytes), attribute.Bool("routesrv.whole", a.Whole),
	), trace.WithAttributes(ofTable(a.Digest, a.Revision)...)}
	if from != nil {
		o = append(o, trace.WithLinks(trace.Link{SpanContext: from.span}))
	}
	t.span(context.Background(), spanServe, a.Began, a.Ended, o...)
}
