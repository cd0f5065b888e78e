package poller_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/routesrv/routesrv/guard"
	"github.com/routesrv/routesrv/internal/durable"
	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/poller"
	"github.com/routesrv/routesrv/publish"
	"github.com/routesrv/routesrv/table"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// read is one read of the source: when it started, relative to the start of the test, and the options of the read.
type read struct {
	at         time.Duration
	consistent bool
}

// world is a source, a compiler and a sink that the test controls.
type world struct {
	t        *testing.T
	start    time.Time
	log      *recorder
	registry *prometheus.Registry

	mu        sync.Mutex // guards what follows
	routes    table.List
	revision  kube.Revision // the highest of the lists
	oldest    kube.Revision // the lowest, 0 if it is not known
	err       error         // of the next reads
	took      time.Duration // by each read
	deaf      bool          // reads ignore that their context ends
	onCompile func()
	onPublish func(*table.Table)
	reads     []read
	compiles  int
	published []*table.Table
	calls     []string     // as a sink, in order
	current   *table.Table // the table that is served
	polls     int
	seen      []table.Read
}

// newWorld makes a world with routes, given by id.
func newWorld(t *testing.T, ids ...string) *world {
	w := &world{t: t, start: time.Now(), log: newRecorder(slog.LevelInfo), registry: prometheus.NewRegistry()}
	w.set(ids...)
	return w
}

// settings are what a test may change.
type settings struct {
	poller.Config
	Guard  guard.Config
	Served *table.Table // nil: nothing is served at the start
}

// poller makes a Poller of the world; change may be nil.
func (w *world) poller(change func(*settings)) *poller.Poller {
	w.t.Helper()
	p, err := poller.New(w.settings(change).Config)
	if err != nil {
		w.t.Fatal(err)
	}
	return p
}

// settings are those of a Poller that offers to a separate publisher.
func (w *world) settings(change func(*settings)) settings {
	w.t.Helper()
	s := settings{Config: poller.Config{
		Source: w, Compile: w.compile, Logger: slog.New(w.log), Metrics: poller.NewMetrics(w.registry),
	}}
	if change != nil {
		change(&s)
	}
	cfg := publish.Config{
		Sink: w, Guard: s.Guard, Logger: s.Logger.With("component", "poller"), Metrics: publish.NewMetrics(w.registry, "routesrv"),
	}
	if s.Served != nil {
		file := publish.LastKnownGood(w.t.TempDir())
		err := durable.WriteFile(file.Path, func(to io.Writer) error { return s.Served.WriteFile(to, table.FileMeta{}) })
		if err != nil {
			w.t.Fatal(err)
		}
		cfg.File = file
	}
	var err error
	if s.Publisher, err = publish.New(cfg); err != nil {
		w.t.Fatal(err)
	}
	s.Publisher.Boot(1<<20, nil)
	return s
}

// run starts the loop; the returned function stops it and waits. It works in a synctest bubble only.
func (w *world) run(p *poller.Poller) (stop func()) {
	w.t.Helper()
	ctx, cancel := context.WithCancel(w.t.Context())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	return func() {
		w.t.Helper()
		cancel()
		if err := <-done; err != nil {
			w.t.Errorf("Run: %v, want nil after a cancel", err)
		}
	}
}

// change changes the world under its lock.
func (w *world) change(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f()
}

// set makes the next read show these routes, at a new revision.
func (w *world) set(ids ...string) {
	routes := routesOf(ids...)
	w.change(func() { w.routes, w.revision = routes, w.revision+1 })
}

func (w *world) fail(err error) { w.change(func() { w.err = err }) }

func (w *world) Read(ctx context.Context, o kube.ReadOptions) (*kube.Snapshot, error) {
	w.mu.Lock()
	w.reads = append(w.reads, read{time.Since(w.start), o.Consistent})
	took, deaf := w.took, w.deaf
	w.mu.Unlock()
	if deaf {
		time.Sleep(took)
	} else if took > 0 {
		select {
		case <-time.After(took):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		return nil, w.err
	}
	return &kube.Snapshot{Revision: w.oldest, Newest: w.revision}, nil
}

func (w *world) compile(*kube.Snapshot) table.List {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.compiles++
	if w.onCompile != nil {
		w.onCompile()
	}
	return w.routes
}

func (w *world) publish(t *table.Table) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.onPublish != nil {
		w.onPublish(t)
	}
	w.published = append(w.published, t)
	w.calls = append(w.calls, "publish "+idsOf(t))
}

// Restore serves a table from an earlier process.
func (w *world) Restore(t *table.Table, _ time.Time) { w.change(func() { w.current = t }) }

// Publish serves an accepted table.
func (w *world) Publish(t *table.Table) {
	w.publish(t)
	w.change(func() { w.current = t })
}

// Begin numbers the reads.
func (w *world) Begin() func(*table.Table, table.Read) {
	var seq int
	w.change(func() {
		w.polls++
		seq = w.polls
		w.calls = append(w.calls, fmt.Sprintf("started %d", seq))
	})
	return func(t *table.Table, r table.Read) {
		if t != nil && t != w.current {
			w.Publish(t)
		}
		w.change(func() {
			what := "completed"
			if r.Held {
				what = "held"
			}
			w.calls = append(w.calls, fmt.Sprintf("%s %d at %d", what, seq, r.Newest))
			w.seen = append(w.seen, r)
		})
	}
}

// readTimes returns when the reads started.
func (w *world) readTimes() []time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	times := make([]time.Duration, len(w.reads))
	for i, r := range w.reads {
		times[i] = r.at
	}
	return times
}

// tables returns the ids of the published routes, one text for each table.
func (w *world) tables() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []string
	for _, t := range w.published {
		all = append(all, idsOf(t))
	}
	return all
}

func routesOf(ids ...string) table.List {
	routes := make([]*table.Route, len(ids))
	for i, id := range ids {
		id, text, ok := strings.Cut(id, "=")
		if !ok {
			text = "*"
		}
		routes[i] = &table.Route{ID: id, Text: id + ": " + text + " -> <shunt>;"}
	}
	list, err := table.List{}.With(routes, nil)
	if err != nil {
		panic(err) // the ids are those of a test
	}
	return list
}

func tableOf(t *testing.T, ids ...string) *table.Table {
	t.Helper()
	return table.Of(routesOf(ids...), 1, time.Now())
}

func idsOf(t *table.Table) string {
	var ids []string
	for r := range t.Routes().All() {
		ids = append(ids, r.ID)
	}
	return strings.Join(ids, " ")
}

// recorder is a slog.Handler that keeps its records.
type recorder struct {
	level slog.Level
	attrs []slog.Attr
	*records
}

type records struct {
	mu   sync.Mutex
	list []record
}

type record struct {
	level   slog.Level
	message string
	attrs   map[string]slog.Value
}

func newRecorder(level slog.Level) *recorder { return &recorder{level: level, records: &records{}} }

func (r *recorder) Enabled(_ context.Context, l slog.Level) bool { return l >= r.level }
func (r *recorder) WithGroup(string) slog.Handler                { return r }

func (r *recorder) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &recorder{r.level, append(r.attrs[:len(r.attrs):len(r.attrs)], attrs...), r.records}
}

func (r *recorder) Handle(_ context.Context, rec slog.Record) error {
	attrs := make(map[string]slog.Value)
	for _, a := range r.attrs {
		attrs[a.Key] = a.Value
	}
	rec.Attrs(func(a slog.Attr) bool { attrs[a.Key] = a.Value; return true })
	r.mu.Lock()
	defer r.mu.Unlock()
	r.list = append(r.list, record{rec.Level, rec.Message, attrs})
	return nil
}

// lines returns "LEVEL message" of all records so far.
func (r *recorder) lines() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var lines []string
	for _, rec := range r.list {
		lines = append(lines, rec.level.String()+" "+rec.message)
	}
	return lines
}

// find returns the records with the message.
func (r *recorder) find(message string) []record {
	r.mu.Lock()
	defer r.mu.Unlock()
	var found []record
	for _, rec := range r.list {
		if rec.message == message {
			found = append(found, rec)
		}
	}
	return found
}

// texts returns the attributes with the given names as "name=value".
func (rec record) texts(names ...string) string {
	var out []string
	for _, n := range names {
		out = append(out, n+"="+rec.attrs[n].String())
	}
	return strings.Join(out, " ")
}
