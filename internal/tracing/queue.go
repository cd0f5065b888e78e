package tracing

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	sdk "go.opentelemetry.io/otel/sdk/trace"
)

// Limits of the queue to the collector.
const (
	// maxQueue is how many spans may wait; further spans are dropped. Up to maxBatch spans are sent at a time.
	maxQueue = 2048
	maxBatch = 512
	// gather is how long a span waits for others to join its batch.
	gather = time.Second
	// sendTimeout limits one request, and FlushTimeout all requests after the end of [Tracer.Run].
	sendTimeout  = 10 * time.Second
	FlushTimeout = 3 * time.Second
	// maxTries is how often to send a batch to a collector that does not answer or is busy, with growing delays.
	maxTries   = 4
	firstPause = time.Second
)

// Results of spans: the label of the metric.
const (
	resultSent    = "sent"
	resultDropped = "dropped"
	resultFailed  = "failed"
)

// newMetrics creates the counter and registers it.
func newMetrics(reg prometheus.Registerer) *prometheus.CounterVec {
	spans := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "routesrv_trace_spans_total",
		Help: "Spans by result: sent, dropped (the queue was full, or the process ended) or failed (the collector did not accept them).",
	}, []string{"result"})
	for _, r := range []string{resultSent, resultDropped, resultFailed} {
		spans.WithLabelValues(r)
	}
	if reg != nil {
		reg.MustRegister(spans)
	}
	return spans
}

// NewMetrics registers the series of a Tracer, for the reference.
func NewMetrics(reg prometheus.Registerer) { newMetrics(reg) }

// queue holds spans until they are sent. It never blocks the code that creates spans.
type queue struct {
	exporter sdk.SpanExporter
	log      *slog.Logger
	spans    *prometheus.CounterVec
	waiting  chan sdk.ReadOnlySpan
	failing  bool // the last batch failed; owned by run
}

func newQueue(e sdk.SpanExporter, log *slog.Logger, spans *prometheus.CounterVec) *queue {
	return &queue{exporter: e, log: log, spans: spans, waiting: make(chan sdk.ReadOnlySpan, maxQueue)}
}

// OnStart implements [sdk.SpanProcessor].
func (q *queue) OnStart(context.Context, sdk.ReadWriteSpan) {}

// OnEnd implements [sdk.SpanProcessor].
func (q *queue) OnEnd(s sdk.ReadOnlySpan) {
	select {
	case q.waiting <- s:
	default:
		q.count(resultDropped, 1)
	}
}

// Shutdown implements [sdk.SpanProcessor]. It does nothing: the queue ends with run.
func (q *queue) Shutdown(context.Context) error { return nil }

// ForceFlush implements [sdk.SpanProcessor].
func (q *queue) ForceFlush(context.Context) error { return nil }

func (q *queue) count(result string, n int) { q.spans.WithLabelValues(result).Add(float64(n)) }

// run sends batches until ctx ends. Then it sends the remaining spans within the time of the flush.
func (q *queue) run(ctx context.Context) {
	sending, giveUp := context.WithCancel(context.WithoutCancel(ctx))
	defer giveUp()
	defer context.AfterFunc(ctx, func() {
		timer := time.NewTimer(FlushTimeout)
		defer timer.Stop()
		select {
		case <-timer.C:
			giveUp()
		case <-sending.Done():
		}
	})()
	for {
		batch := q.batch(ctx)
		if len(batch) == 0 {
			return // ctx has ended, and the queue is empty
		}
		if sending.Err() != nil {
			q.count(resultDropped, len(batch))
			continue
		}
		q.send(ctx, sending, batch)
	}
}

// batch waits for spans and gathers more of them. It returns none if ctx has ended and the queue is empty.
func (q *queue) batch(ctx context.Context) (batch []sdk.ReadOnlySpan) {
	var full <-chan time.Time
	for len(batch) < maxBatch {
		select {
		case s := <-q.waiting:
			batch = append(batch, s)
			if full == nil {
				full = time.After(gather)
			}
			continue
		default:
		}
		if ctx.Err() != nil {
			return batch
		}
		select {
		case s := <-q.waiting:
			batch = append(batch, s)
			if full == nil {
				full = time.After(gather)
			}
		case <-full:
			return batch
		case <-ctx.Done():
		}
	}
	return batch
}

// send sends a batch, and retries while the collector is busy and the process keeps running.
func (q *queue) send(ctx, sending context.Context, batch []sdk.ReadOnlySpan) {
	var err error
	for try, pause := 1, firstPause; ; try, pause = try+1, 2*pause {
		limit, cancel := context.WithTimeout(sending, sendTimeout)
		err = q.exporter.ExportSpans(limit, batch)
		cancel()
		var busy busyError
		if !errors.As(err, &busy) || try == maxTries || !wait(ctx, pause) {
			break
		}
	}
	var part rejectedError
	if errors.As(err, &part) {
		n := min(int(part.spans), len(batch))
		q.count(resultFailed, n)
		q.count(resultSent, len(batch)-n)
	} else if err != nil {
		q.count(resultFailed, len(batch))
	} else {
		q.count(resultSent, len(batch))
	}
	switch {
	case err != nil && !q.failing:
		q.log.Warn("the collector does not accept traces; spans are dropped until it does (--otlp-endpoint)", "error", err)
	case err == nil && q.failing:
		q.log.Info("the collector accepts traces again")
	}
	q.failing = err != nil
}

// wait waits, and reports whether ctx is still active.
func wait(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
