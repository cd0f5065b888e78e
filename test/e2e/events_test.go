package e2e

import (
	"context"
	"os"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/routesrv/routesrv/test/programs"
)

const (
	eventsFile      = "../../deploy/kustomize/components/events/rbac.yaml"
	eventsNamespace = "eventful"
	lonely          = `
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: lonely, namespace: ` + eventsNamespace + `}
spec:
  rules: [{host: lonely.eventful.example.org, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: later, port: {number: 80}}}}]}}]
`
	later = `
apiVersion: v1
kind: Service
metadata: {name: later, namespace: ` + eventsNamespace + `}
spec: {ports: [{name: http, port: 80}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: later-1, namespace: ` + eventsNamespace + `, labels: {kubernetes.io/service-name: later}}
addressType: IPv4
endpoints: [{addresses: [10.9.9.8]}]
ports: [{name: http, port: 80}]
`
)

// TestEventsOnARealAPIServer runs two replicas with the rights of the component. Both write, and nothing twice, also after the end of
// one of them.
func TestEventsOnARealAPIServer(t *testing.T) {
	c := ownCluster(t)
	ctx := t.Context()
	if err := c.applyFile(ctx, eventsFile); err != nil {
		t.Fatal(err)
	}
	if err := c.apply(ctx, lonely); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		rbac, err := os.ReadFile(eventsFile)
		if err != nil {
			t.Error(err)
		}
		if err := c.remove(context.WithoutCancel(ctx), lonely+"---"+later+"---\n"+string(rbac)); err != nil {
			t.Error(err)
		}
	})
	api := newFaultProxy(t, c)
	first, second := startRoutesrv(t, api, "--events"), startRoutesrv(t, api, "--events")
	first.Ready(t)
	second.Ready(t)

	programs.Eventually(t, "both replicas wrote about the Service that is not there", func() bool { return first.wroteEvents(t) && second.wroteEvents(t) })
	event := eventOf(t, c, "ServiceNotFound")
	if event == nil {
		t.Fatal("no Event about the Service that is not there")
	}
	object, err := c.typed.NetworkingV1().Ingresses(eventsNamespace).Get(ctx, "lonely", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if event.InvolvedObject.UID != object.UID || event.Type != corev1.EventTypeWarning || event.Count != 1 ||
		!strings.Contains(event.Message, `"later"`) {
		t.Errorf("%+v", event)
	}

	first.Stop(t)
	if err := c.apply(ctx, strings.ReplaceAll(lonely, "lonely", "newer")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.remove(context.WithoutCancel(ctx), strings.ReplaceAll(lonely, "lonely", "newer")) })
	programs.Eventually(t, "an Event about the other Ingress", func() bool {
		for _, e := range allEvents(t, c) {
			if e.InvolvedObject.Name == "newer" {
				return true
			}
		}
		return false
	})
	if again := eventOf(t, c, "ServiceNotFound"); again == nil || again.Count != 1 || again.UID != event.UID {
		t.Errorf("the Event was written again: %+v", again)
	}
	if err := c.apply(ctx, later); err != nil {
		t.Fatal(err)
	}
	programs.Eventually(t, "an Event that says it is solved", func() bool { return eventOf(t, c, "ProblemSolved") != nil })
}

// wroteEvents reports whether the process says that it wrote an Event, or found it written.
func (p *process) wroteEvents(t *testing.T) bool {
	t.Helper()
	a, err := programs.Fetch(t.Context(), p.Support+"/metrics", "")
	if err != nil {
		t.Fatal(err)
	}
	return !strings.Contains(a.Body, "\nroutesrv_events_total{result=\"written\"} 0\n")
}

func allEvents(t *testing.T, c *cluster) []corev1.Event {
	t.Helper()
	list, err := c.typed.CoreV1().Events(eventsNamespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return list.Items
}

// eventOf returns the Event with the reason on the first Ingress, and requires at most one.
func eventOf(t *testing.T, c *cluster, reason string) *corev1.Event {
	t.Helper()
	var found *corev1.Event
	for _, e := range allEvents(t, c) {
		if e.Reason != reason || e.InvolvedObject.Name != "lonely" {
			continue
		}
		if found != nil {
			t.Errorf("two Events %s: %s and %s", reason, found.Name, e.Name)
		}
		found = &e
	}
	return found
}
