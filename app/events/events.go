// Package events writes problems as Kubernetes Events on the affected objects, where application teams look first: kubectl
// describe.
//
// Each problem of severity warning or error that lasts gets one Event, which is renewed before the API server deletes it, and a
// final Event when it is solved. The name of the Event consists of the object and the id of the problem, so replicas and restarts
// share it. Writes are limited to a few per second in total and to some for each object; the others wait. A failure is only
// logged and counted.
package events

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/flowcontrol"

	"github.com/routesrv/routesrv/compile/rules"
	"github.com/routesrv/routesrv/internal/series"
	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/poller"
)

// Limits and intervals.
const (
	lookEvery      = 2 * time.Second
	settle         = 10 * time.Second // that a problem must last: during a rollout an Ingress may be created before its Service
	renewal        = 40 * time.Minute // maximum age of an Event: API servers delete Events after an hour
	perObject      = 10               // problems of one object with Events; /problems lists all of them
	perSecond      = 5                // of all writes
	burst          = 25
	maxMessage     = 1024            // the API server's limit for the text, in bytes
	requestTimeout = 5 * time.Second // of each request to the API server

	component = "routesrv" // the source of the Events
)

// Messages of the log.
const (
	LogFailed  = "Events cannot be written"
	LogRecover = "Events are written again"
)

// event is an Event to write.
type event struct {
	name    string // unique in the namespace
	object  kube.Ref
	kind    string // a type of package core/v1
	reason  string // in UpperCamelCase, as in Kubernetes
	message string
}

// writer keeps the Events in line with the problems. It must be used by one goroutine only.
type writer struct {
	// write creates the Event with the name, or increments its count if it is older than renewal. It reports whether the object
	// exists.
	write    func(context.Context, event) (exists bool, err error)
	problems func() []poller.Problem
	limit    flowcontrol.RateLimiter
	log      *slog.Logger
	metrics  *Metrics

	written map[key]*written
	failing bool
}

type key struct {
	object kube.Ref
	id     string
}

type written struct {
	at      time.Time
	problem rules.Problem
}

func newWriter(write func(context.Context, event) (bool, error), problems func() []poller.Problem, log *slog.Logger, m *Metrics) *writer {
	return &writer{
		write: write, problems: problems, limit: flowcontrol.NewTokenBucketRateLimiter(perSecond, burst),
		log: log.With("component", "events"), metrics: m, written: make(map[key]*written),
	}
}

func (w *writer) run(ctx context.Context) {
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

// look writes the Events that are due, in the order of the problems: by owner.
func (w *writer) look(ctx context.Context) {
	now, waiting := time.Now(), 0
	all := make(map[key]bool) // includes problems without an Event, so that they do not count as solved
	count := make(map[kube.Ref]int)
	for _, p := range w.problems() {
		if p.Severity == rules.Info || p.Owner.Name == "" {
			continue
		}
		k := key{p.Owner, p.ID()}
		twice := all[k]
		if all[k] = true; twice || now.Sub(p.Since) < settle {
			continue
		}
		if count[p.Owner]++; count[p.Owner] > perObject {
			continue
		}
		known := w.written[k]
		switch {
		case known != nil && now.Sub(known.at) < renewal:
		case !w.limit.TryAccept():
			waiting++
		case w.record(ctx, eventOf(k, "", corev1.EventTypeWarning, camelCase(string(p.Reason)), p.Text())):
			w.written[k] = &written{now, p.Problem}
		}
	}
	for k, known := range w.written {
		switch {
		case all[k]:
		case !w.limit.TryAccept():
			waiting++
		case w.record(ctx, eventOf(k, "-solved", corev1.EventTypeNormal, "ProblemSolved", fmt.Sprintf("Solved: %s.", known.problem.What()))):
			delete(w.written, k)
		}
	}
	w.metrics.waiting.Set(float64(waiting))
}

// record writes one Event, and reports whether it is done, which includes that the object no longer exists.
func (w *writer) record(ctx context.Context, e event) bool {
	exists, err := w.write(ctx, e)
	switch {
	case ctx.Err() != nil:
		return false
	case err != nil:
		w.metrics.events.WithLabelValues("failed").Inc()
		if !w.failing {
			w.log.Error(LogFailed, "object", e.object.String(), "error", err)
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

// eventOf returns an Event about a problem. The suffix of the final Event keeps the Event of the problem unchanged.
func eventOf(k key, suffix, kind, reason, message string) event {
	return event{nameOf(k) + suffix, k.object, kind, reason, cut(message)}
}

// nameOf returns the name of a problem's Event. Names have at most 253 bytes.
func nameOf(k key) string {
	const room = 253 - len(".routesrv-0123456789ab-solved")
	name := strings.ToLower(k.object.Name)
	if len(name) > room {
		name = strings.TrimRight(name[:room], ".-")
	}
	return name + ".routesrv-" + k.id
}

func camelCase(reason string) string {
	var b strings.Builder
	for word := range strings.SplitSeq(reason, "_") {
		if word != "" {
			b.WriteString(strings.ToUpper(word[:1]) + word[1:])
		}
	}
	return b.String()
}

// cut shortens a message to the API server's limit, without breaking a character.
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
}

// NewMetrics creates the series and registers them with reg, unless it is nil.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	made := series.In(reg)
	return &Metrics{
		events:  made.Counters("routesrv_events_total", "Kubernetes Events: written or failed.", "result", "written", "failed"),
		waiting: made.Gauge("routesrv_events_waiting", "Events that wait for the limit on writes."),
	}
}

var resources = map[kube.Kind]schema.GroupVersionResource{
	kube.KindIngress:    {Group: "networking.k8s.io", Version: "v1", Resource: "ingresses"},
	kube.KindRouteGroup: {Group: "zalando.org", Version: "v1", Resource: "routegroups"},
	kube.KindService:    {Version: "v1", Resource: "services"},
}

// Config configures a Cluster. All fields except Registry are required.
type Config struct {
	REST     *rest.Config // of an API server
	Instance string       // the name of this replica
	Logger   *slog.Logger
	Registry prometheus.Registerer // nil means no metrics
}

// Cluster writes Events to an API server.
type Cluster struct {
	cfg    Config
	events rest.Interface
	meta   metadata.Interface
}

// NewCluster creates the clients. It sends no request.
func NewCluster(cfg Config) (*Cluster, error) {
	rc := rest.CopyConfig(cfg.REST)
	rc.UserAgent, rc.Timeout = component, requestTimeout
	events, err := newClient(rc)
	if err != nil {
		return nil, fmt.Errorf("client for Events: %w", err)
	}
	meta, err := metadata.NewForConfig(rc)
	if err != nil {
		return nil, fmt.Errorf("client for the objects of Events: %w", err)
	}
	return &Cluster{cfg: cfg, events: events, meta: meta}, nil
}

// newClient returns a client for the core group. The typed clients of client-go would bring all types of Kubernetes into the binary, and
// into memory.
func newClient(rc *rest.Config) (rest.Interface, error) {
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	rc = rest.CopyConfig(rc)
	rc.APIPath, rc.GroupVersion = "/api", &corev1.SchemeGroupVersion
	rc.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	return rest.RESTClientFor(rc)
}

// Run writes Events until ctx ends.
func (c *Cluster) Run(ctx context.Context, problems func() []poller.Problem) {
	newWriter(c.write, problems, c.cfg.Logger, NewMetrics(c.cfg.Registry)).run(ctx)
}

func (c *Cluster) write(ctx context.Context, e event) (exists bool, err error) {
	resource, ok := resources[e.object.Kind]
	if !ok {
		return false, nil
	}
	// kubectl describe finds Events by the uid of their object.
	object, err := c.meta.Resource(resource).Namespace(e.object.Namespace).Get(ctx, e.object.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("look up %s: %w", e.object, err)
	}
	now := metav1.Now()
	err = c.events.Post().Namespace(e.object.Namespace).Resource("events").Body(&corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: e.object.Namespace, Name: e.name},
		InvolvedObject: corev1.ObjectReference{
			Kind: string(e.object.Kind), APIVersion: resource.GroupVersion().String(),
			Namespace: e.object.Namespace, Name: e.object.Name, UID: object.UID,
		},
		Type: e.kind, Reason: e.reason, Message: e.message, FirstTimestamp: now, LastTimestamp: now, Count: 1,
		Source: corev1.EventSource{Component: component}, ReportingController: component, ReportingInstance: c.cfg.Instance,
	}).Do(ctx).Error()
	switch {
	case apierrors.IsAlreadyExists(err):
		return true, c.renew(ctx, e, now)
	case apierrors.IsNotFound(err): // the namespace is being deleted
		return false, nil
	case err != nil:
		return true, fmt.Errorf("write the Event %s/%s: %w", e.object.Namespace, e.name, err)
	}
	return true, nil
}

// renew increments the count of an Event, unless that happened recently.
func (c *Cluster) renew(ctx context.Context, e event, now metav1.Time) error {
	of := func(r *rest.Request) *rest.Request {
		return r.Namespace(e.object.Namespace).Resource("events").Name(e.name)
	}
	var known corev1.Event
	if err := of(c.events.Get()).Do(ctx).Into(&known); err != nil {
		return fmt.Errorf("read the Event %s/%s: %w", e.object.Namespace, e.name, err)
	}
	if now.Sub(known.LastTimestamp.Time) < renewal && known.Message == e.message {
		return nil
	}
	patch, err := json.Marshal(map[string]any{"count": known.Count + 1, "lastTimestamp": now, "message": e.message})
	if err != nil {
		return err
	}
	if err := of(c.events.Patch(types.MergePatchType)).Body(patch).Do(ctx).Error(); err != nil {
		return fmt.Errorf("renew the Event %s/%s: %w", e.object.Namespace, e.name, err)
	}
	return nil
}
