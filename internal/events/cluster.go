package events

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/poller"
)

// component is the source component of the Events.
const component = "routesrv"

// requestTimeout limits each request to the API server.
const requestTimeout = 5 * time.Second

// resources maps each kind to its API resource.
var resources = map[kube.Kind]schema.GroupVersionResource{
	kube.KindIngress:    {Group: "networking.k8s.io", Version: "v1", Resource: "ingresses"},
	kube.KindRouteGroup: {Group: "zalando.org", Version: "v1", Resource: "routegroups"},
	kube.KindService:    {Version: "v1", Resource: "services"},
	kube.KindConfigMap:  {Version: "v1", Resource: "configmaps"},
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
	events typedcorev1.EventsGetter
	meta   metadata.Interface
}

// NewCluster creates the clients. It sends no request.
func NewCluster(cfg Config) (*Cluster, error) {
	rc := rest.CopyConfig(cfg.REST)
	rc.UserAgent, rc.Timeout = component, requestTimeout
	core, err := typedcorev1.NewForConfig(rc)
	if err != nil {
		return nil, fmt.Errorf("client for Events: %w", err)
	}
	meta, err := metadata.NewForConfig(rc)
	if err != nil {
		return nil, fmt.Errorf("client for the objects of Events: %w", err)
	}
	return &Cluster{cfg: cfg, events: core, meta: meta}, nil
}

// Run writes Events until ctx ends.
func (c *Cluster) Run(ctx context.Context, problems func() []poller.Problem) {
	NewWriter(c, problems, c.cfg.Logger, NewMetrics(c.cfg.Registry)).Run(ctx)
}

// Record implements [Recorder].
func (c *Cluster) Record(ctx context.Context, e Event) (exists bool, err error) {
	resource, ok := resources[e.Object.Kind]
	if !ok {
		return false, nil
	}
	// kubectl describe finds Events by the uid of their object.
	object, err := c.meta.Resource(resource).Namespace(e.Object.Namespace).Get(ctx, e.Object.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("look up %s: %w", e.Object, err)
	}
	now := metav1.Now()
	events := c.events.Events(e.Object.Namespace)
	_, err = events.Create(ctx, &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: e.Object.Namespace, Name: e.Name},
		InvolvedObject: corev1.ObjectReference{
			Kind: string(e.Object.Kind), APIVersion: resource.GroupVersion().String(),
			Namespace: e.Object.Namespace, Name: e.Object.Name, UID: object.UID,
		},
		Type: e.Type, Reason: e.Reason, Message: e.Message, FirstTimestamp: now, LastTimestamp: now, Count: 1,
		Source: corev1.EventSource{Component: component}, ReportingController: component, ReportingInstance: c.cfg.Instance,
	}, metav1.CreateOptions{})
	switch {
	case apierrors.IsAlreadyExists(err):
		return true, c.renew(ctx, events, e, now)
	case apierrors.IsNotFound(err): // the namespace is being deleted
		return false, nil
	case err != nil:
		return true, fmt.Errorf("write the Event %s/%s: %w", e.Object.Namespace, e.Name, err)
	}
	return true, nil
}

// renew increments the count of an Event, unless that happened recently.
func (c *Cluster) renew(ctx context.Context, events typedcorev1.EventInterface, e Event, now metav1.Time) error {
	known, err := events.Get(ctx, e.Name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("read the Event %s/%s: %w", e.Object.Namespace, e.Name, err)
	}
	if now.Sub(known.LastTimestamp.Time) < renewal && known.Message == e.Message {
		return nil
	}
	patch, err := json.Marshal(map[string]any{"count": known.Count + 1, "lastTimestamp": now, "message": e.Message})
	if err != nil {
		return err
	}
	if _, err := events.Patch(ctx, e.Name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		return fmt.Errorf("renew the Event %s/%s: %w", e.Object.Namespace, e.Name, err)
	}
	return nil
}
