package poller

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/routesrv/routesrv/api"
	"github.com/routesrv/routesrv/compile"
	"github.com/routesrv/routesrv/compile/rules"
	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/publish"
	"github.com/routesrv/routesrv/table"
)

// failure is why a poll failed.
type failure struct {
	reason string // label of the metric
	err    error
	stack  []byte // of a panic
}

// once is one iteration of the loop. It returns the number of consecutive failures, 0 after a success. If down is set, the source
// is known not to answer, and once does not read.
func (p *Poller) once(ctx context.Context, o kube.ReadOptions, down error) (failures int) {
	defer p.cfg.Publisher.Tend()
	p.update(func(s *api.Source) { s.LastAttempt = time.Now() })
	var f *failure
	if down == nil {
		f = p.attempt(ctx, o)
	} else {
		f = readFailure(down)
	}
	if f == nil || f.reason == failedRead && ctx.Err() != nil {
		return 0 // the end of the loop is not a failure
	}
	p.update(func(s *api.Source) {
		s.Failures++
		s.FailedTotal++
		s.LastError = f.err.Error()
		failures = s.Failures
	})
	p.cfg.Metrics.polls.WithLabelValues(resultError).Inc()
	p.cfg.Metrics.failures.WithLabelValues(f.reason).Inc()
	attrs := []any{"error", f.err, "reason", f.reason, "failures", failures}
	if f.stack != nil {
		attrs = append(attrs, "stack", string(f.stack))
	}
	p.log.Error(LogRoutesFetchingFailed, attrs...)
	return failures
}

// attempt reads, compiles, judges and publishes. If it fails or panics, the served table stays.
func (p *Poller) attempt(ctx context.Context, o kube.ReadOptions) (f *failure) {
	start := time.Now()
	defer func() {
		if v := recover(); v != nil {
			f = &failure{failedPanic, fmt.Errorf("panic: %v", v), debug.Stack()}
		}
	}()
	attempt := p.cfg.Publisher.Begin()
	snapshot, err := p.cfg.Source.Read(ctx, o)
	if err == nil && snapshot == nil {
		err = errors.New("the source returned nothing")
	}
	at := time.Now()
	p.cfg.Metrics.duration.WithLabelValues(phaseRead).Observe(at.Sub(start).Seconds())
	if err != nil {
		return readFailure(err)
	}
	seen := readOf(snapshot, o, at)
	repeated := p.compile(snapshot, seen)
	c := publish.Candidate{Table: p.candidate, Read: seen, Snapshot: snapshot, Origin: p.cfg.Origin}
	if p.cfg.Settle != nil && p.firstOffer() {
		beside, _, _ := p.cfg.Publisher.Comparison()
		p.cfg.Settle(ctx, beside, c.Table)
	}
	p.offer(attempt, c, repeated)
	p.update(func(s *api.Source) {
		s.LastSuccess, s.Failures, s.LastError = at, 0, ""
		s.Revision = seen.Newest
	})
	return nil
}

// firstOffer reports whether the publisher knows no objects yet.
func (p *Poller) firstOffer() bool {
	served := p.cfg.Publisher.Served()
	return served == nil || served.Snapshot == nil
}

func readFailure(err error) *failure {
	return &failure{reason: failedRead, err: fmt.Errorf("failed to load cluster state: %w", err)}
}

// readOf describes a read. A source with a single revision means that the whole snapshot has that revision.
func readOf(s *kube.Snapshot, o kube.ReadOptions, at time.Time) table.Read {
	return table.Read{Oldest: uint64(s.Revision), Newest: uint64(max(s.Revision, s.Newest)), Consistent: o.Consistent, At: at}
}

// compile compiles the candidate table of a snapshot. It reports whether the table is the same as in the previous read.
//
// The revision of the table is the highest of the read. The lowest would not do: it does not change while one of the kinds has no
// writes, so different tables would have the same revision.
func (p *Poller) compile(s *kube.Snapshot, seen table.Read) (repeated bool) {
	start := time.Now()
	var routes table.List
	p.cfg.Publisher.Exclusively(func() { routes = p.cfg.Compile(s) })
	p.cfg.Metrics.duration.WithLabelValues(phaseCompile).Observe(time.Since(start).Seconds())
	before := p.candidate
	if before != nil && slices.Equal(routes.Blocks(), before.Routes().Blocks()) {
		return true
	}
	p.candidate = before.Next(routes, seen.Newest, seen.At)
	return before != nil && before.Equal(p.candidate)
}

// offer offers the candidate to the publisher, and logs the outcome. repeated means that the candidate is the same as in the
// previous read.
func (p *Poller) offer(attempt *publish.Attempt, c publish.Candidate, repeated bool) {
	if served := p.cfg.Publisher.Table(); served != nil && served.Equal(c.Table) {
		c.Table = served // without a change in the source the ETag does not change
	}
	start := time.Now()
	o := attempt.Offer(c)
	if o.Now != o.Before {
		p.cfg.Metrics.duration.WithLabelValues(phasePublish).Observe(time.Since(start).Seconds())
		p.published(o.Before, o.Now)
	}
	if repeated && o.Result != publish.Published {
		p.log.Debug(LogRoutesNoChange)
	}
	if c.Table.Len() == 0 && (o.Now == nil || o.Now.Len() > 0) {
		p.cfg.Metrics.empty.Inc()
		p.update(func(s *api.Source) { s.EmptyTotal++ })
		p.log.Info(LogRoutesEmpty)
	}
	result := resultChanged
	switch o.Result {
	case publish.Held:
		result = resultHeld
	case publish.Unchanged:
		result = resultUnchanged
		p.confirmed(o.Now)
	}
	p.cfg.Metrics.polls.WithLabelValues(result).Inc()
}

// confirmed records that a read has shown the served table. It logs that the first time.
func (p *Poller) confirmed(t *table.Table) {
	first := false
	p.update(func(s *api.Source) {
		first = s.Initialized.IsZero()
		served := p.cfg.Publisher.Served()
		s.Initialized, s.Updated = served.Initialized, served.Updated
	})
	if first {
		p.log.Info(LogRoutesInitialized, describe(t)...)
	}
}

// published logs that another table is served.
func (p *Poller) published(before, t *table.Table) {
	p.confirmed(t)
	p.log.Info(LogRoutesUpdated, describe(t)...)
	if p.log.Enabled(context.Background(), slog.LevelDebug) {
		logChanges(p.log, before, t)
	}
}

// describe returns the log attributes of a table.
func describe(t *table.Table) []any {
	return []any{"bytes", t.Bytes(), "count", t.Len(), "hash", t.Digest().String()}
}

// LevelTrace is the level below debug, at which changed routes are logged with their text.
const LevelTrace = slog.LevelDebug - 4

// logChanges logs each route that was added, removed or changed between two tables, at debug level.
func logChanges(log *slog.Logger, before, after *table.Table) {
	var old table.List
	if before != nil {
		old = before.Routes()
	}
	changed := make(map[string][]*table.Route)
	for was, is := range table.Changes(old, after.Routes()) {
		verb, route := "Updated", is
		if was == nil {
			verb = "Inserted"
		} else if is == nil {
			verb, route = "Deleted", was
		}
		changed[verb] = append(changed[verb], route)
	}
	for _, verb := range []string{"Inserted", "Updated", "Deleted"} {
		for i, r := range changed[verb] {
			attrs := []any{"op", strings.ToLower(verb), "id", r.ID}
			if log.Enabled(context.Background(), LevelTrace) {
				attrs = append(attrs, "route", r.Text)
			}
			log.Debug(fmt.Sprintf("%s route %d of %d", verb, i+1, len(changed[verb])), attrs...)
		}
	}
}

// Compiler compiles snapshots for a [Poller], and snapshots with kept objects for a publisher: it is a [publish.Builder].
// Problems, Addresses and Latest are safe for concurrent use; the others may be called by one goroutine at a time, which the publisher ensures.
type Compiler struct {
	*compile.Compiler
	options rules.Options
	ledger  *ledger
}

// NewCompiler checks the options. A nil logger means no log, a nil registerer no metrics.
func NewCompiler(o rules.Options, log *slog.Logger, reg prometheus.Registerer) (*Compiler, error) {
	compiler, err := compile.New(o)
	if err != nil {
		return nil, fmt.Errorf("compile options: %w", err)
	}
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Compiler{Compiler: compiler, options: o, ledger: newLedger(log, reg)}, nil
}

// Compile returns the routes of a snapshot and records its problems. It passes a panic on to the Poller.
func (c *Compiler) Compile(s *kube.Snapshot) table.List {
	result := c.Compiler.Compile(s)
	c.ledger.record(result.Problems, time.Now())
	return result.Routes
}

// Signature tells versions of an object apart, as far as they can have different routes: other metadata than what the compiler reads does not count.
func (c *Compiler) Signature(o kube.Object) string {
	if routed, ok := o.(kube.Routed); ok {
		meta := *routed.Metadata()
		meta.Changed = ""
		meta.Annotations = slices.DeleteFunc(slices.Clone(meta.Annotations), func(p kube.Pair) bool { return !c.options.Reads(p.Key) })
		meta.Labels = slices.DeleteFunc(slices.Clone(meta.Labels), func(p kube.Pair) bool { return p.Key != c.options.ApplicationLabel })
		o = routed.WithMeta(meta)
	}
	return publish.SignatureOf(o)
}

// Problems returns the current problems, sorted by owner. The caller owns the slice.
func (c *Compiler) Problems() []Problem { return c.ledger.list() }

// Remember sets since when an earlier process knew problems, by their ids. Call it before the first read.
func (c *Compiler) Remember(since map[string]time.Time) {
	c.ledger.mu.Lock()
	defer c.ledger.mu.Unlock()
	c.ledger.earlier = since
}

// Addresses returns the ready addresses of a service, sorted as strings, from the last successful read. ok is false before the
// first read.
func (c *Compiler) Addresses(namespace, name string) (addresses []string, ok bool) {
	if latest := c.Latest(); latest != nil {
		return latest.Addresses(namespace, name), true
	}
	return nil, false
}
