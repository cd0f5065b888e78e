// Package events writes problems as Kubernetes Events on the objects that have them, where application teams look first: kubectl
// describe.
//
// A [Writer] looks at the problems at an interval. A problem of severity warning or error that has lasted for a while becomes one
// Event on its object; for as long as it lasts the Event is renewed before the API server forgets it, and when it is solved a last
// one says so. Of several replicas only the leader writes: see [Cluster].
//
// # Never too many
//
// An Event has a name made of the object and of the id of the problem, so there is one Event for each problem, whichever replica
// writes it and however often it starts. Writes are limited to a few a second for everything together, and to some for each
// object; what does not fit waits for the next look. Nothing waits for Events: an API server that refuses them costs a log line
// and a count.
package events

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/flowcontrol"

	"github.com/routesrv/routesrv/compile"
	"github.com/routesrv/routesrv/kube"
)

// Limits and rhythm.
const (
	lookEvery = 2 * time.Second
	// settle is how long a problem has to last. A rollout has many that are over in a moment: an Ingress before its Service.
	settle = 10 * time.Second
	// renewal is how old an Event may get. API servers forget Events after an hour.
	renewal = 40 * time.Minute
	// perObject is how many problems of one object have Events; /problems has them all.
	perObject = 10
	// perSecond and burst limit all writes.
	perSecond = 5
	burst     = 25
	// maxMessage is the limit of API servers for the text, in bytes.
	maxMessage = 1024
)

// Messages of the log.
const (
	LogLeading  = "writing Events: this replica is the leader"
	LogFollower = "not writing Events: another replica is the leader"
	LogFailed   = "Events cannot be written"
	LogRecover  = "Events are written again"
)

// Problem is one that lasts since a time.
type Problem struct {
	compile.Problem
	Since time.Time
}

// Recorder puts an Event on an object.
type Recorder interface {
	// Record makes the Event of the name, or counts it once more if it is older than renewal. It reports whether the object
	// exists.
	Record(ctx context.Context, e Event) (exists bool, err error)
}

// Event is one that is to be on an object.
type Event struct {
	Name    string // unique in the namespace
	Object  kube.Ref
	Type    string // of package core/v1
	Reason  string // in the form of Kubernetes: UpperCamelCase
	Message string
}

// Writer keeps the Events of an object as its problems are. It is for one goroutine.
type Writer struct {
	recorder Recorder
	problems func() []Problem
	limit    flowcontrol.RateLimiter
	log      *slog.Logger
	metrics  *Metrics

	written map[key]*written
	failing bool
}

// key names a problem of an object.
type key struct {
	object kube.Ref
	id     string
}

type written struct {
	at      time.Time
	problem compile.Problem
}

// NewWriter makes a writer of what problems gives.
func NewWriter(r Recorder, problems func() []Problem, log *slog.Logger, m *Metrics) *Writer {
	return &Writer{
		recorder: r, problems: problems, limit: flowcontrol.NewTokenBucketRateLimiter(perSecond, burst),
		log: log.With("component", "events"), metrics: m, written: make(map[key]*written),
	}
}

// Run writes until ctx ends.
func (w *Writer) Run(ctx context.Context) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		w.look(ctx)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// look writes what is due.
func (w *Writer) look(ctx context.Context) {
	now := time.Now()
	current, waiting := w.due(now), 0
	for _, k := range current.order {
		p := current.problems[k]
		known := w.written[k]
		if known != nil && now.Sub(known.at) < renewal {
			continue
		}
		if !w.limit.TryAccept() {
			waiting++
			continue
		}
		if w.record(ctx, w.event(k, p)) {
			w.written[k] = &written{now, p}
		}
	}
	for k, known := range w.written {
		if _, still := current.all[k]; still {
			continue
		}
		if !w.limit.TryAccept() {
			waiting++
			continue
		}
		if w.record(ctx, w.solved(k, known.problem)) {
			delete(w.written, k)
		}
	}
	w.metrics.waiting.Set(float64(waiting))
}

// due are the problems that have Events.
type due struct {
	order    []key // as the problems come: by owner
	problems map[key]compile.Problem
	all      map[key]struct{} // also those of too many, or too new, so that they do not count as solved
}

func (w *Writer) due(now time.Time) due {
	d := due{problems: make(map[key]compile.Problem), all: make(map[key]struct{})}
	count := make(map[kube.Ref]int)
	for _, p := range w.problems() {
		if p.Severity == compile.Info || p.Owner.Name == "" {
			continue
		}
		k := key{p.Owner, p.ID()}
		_, twice := d.all[k]
		if d.all[k] = struct{}{}; twice || now.Sub(p.Since) < settle {
			continue
		}
		if count[p.Owner]++; count[p.Owner] > perObject {
			continue
		}
		d.problems[k] = p.Problem
		d.order = append(d.order, k)
	}
	return d
}

// record writes one Event, and reports whether that is done: also if the object is gone.
func (w *Writer) record(ctx context.Context, e Event) bool {
	exists, err := w.recorder.Record(ctx, e)
	switch {
	case ctx.Err() != nil:
		return false
	case err != nil:
		w.metrics.events.WithLabelValues("failed").Inc()
		if !w.failing {
			w.log.Error(LogFailed, "object", e.Object.String(), "error", err)
		}
		w.failing = true
		return false
	case exists:
		w.metrics.events.WithLabelValues("written").Inc()
	}
	if w.failing {
		w.log.Info(LogRecover)
	}
	w.failing = false
	return true
}

func (w *Writer) event(k key, p compile.Problem) Event {
	return Event{
		Name: nameOf(k), Object: k.object, Type: corev1.EventTypeWarning, Reason: camelCase(string(p.Reason)), Message: cut(p.Text()),
	}
}

// solved says that a problem is gone. It has a name of its own: the Event of the problem stays what it was.
func (w *Writer) solved(k key, p compile.Problem) Event {
	return Event{
		Name: nameOf(k) + "-solved", Object: k.object, Type: corev1.EventTypeNormal, Reason: "ProblemSolved",
		Message: cut(fmt.Sprintf("Solved: %s.", p.What())),
	}
}

// nameOf names the Event of a problem. Names have at most 253 bytes.
func nameOf(k key) string {
	const room = 253 - len(".routesrv-0123456789ab-solved")
	name := strings.ToLower(k.object.Name)
	if len(name) > room {
		name = strings.TrimRight(name[:room], ".-")
	}
	return name + ".routesrv-" + k.id
}

// camelCase is the form that reasons have in Kubernetes.
func camelCase(reason string) string {
	var b strings.Builder
	for word := range strings.SplitSeq(reason, "_") {
		if word != "" {
			b.WriteString(strings.ToUpper(word[:1]) + word[1:])
		}
	}
	return b.String()
}

// cut shortens a message to what API servers take, without breaking a character.
func cut(message string) string {
	message = strings.ToValidUTF8(message, "?")
	if len(message) <= maxMessage {
		return message
	}
	return strings.ToValidUTF8(message[:maxMessage-3], "") + "..."
}

// Metrics are the series of Events.
type Metrics struct {
	events  *prometheus.CounterVec
	waiting prometheus.Gauge
	leading prometheus.Gauge
}

// NewMetrics registers the series; with nil they are kept and shown to nobody.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	m := &Metrics{
		events: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "routesrv_events_total", Help: "Kubernetes Events about problems by result: written or failed.",
		}, []string{"result"}),
		waiting: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "routesrv_events_waiting", Help: "Events that wait because of the limit on writes.",
		}),
		leading: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "routesrv_events_leader", Help: "1 while this replica is the leader that writes Events.",
		}),
	}
	for _, result := range []string{"written", "failed"} {
		m.events.WithLabelValues(result)
	}
	if reg != nil {
		reg.MustRegister(m.events, m.waiting, m.leading)
	}
	return m
}
