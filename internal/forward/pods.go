package forward

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// maxPods limits a list of pods.
const maxPods = 200

// Pod is a pod as the API server listed it, with connections to its ports. It is safe for concurrent use.
type Pod struct {
	Namespace, Name string
	// Phase is Pending, Running, Succeeded, Failed or Unknown.
	Phase string
	// Waiting says why the first container that is not running is waiting, such as CrashLoopBackOff; empty if all run.
	Waiting string
	// Ready is the pod's readiness.
	Ready bool
	// Ports maps the names of its containers' ports to numbers.
	Ports map[string]int
	// Containers are its containers, without those that only run at the start.
	Containers []corev1.Container

	cluster *Cluster
}

// Pods lists the pods that match a selector such as app=web, sorted by name. More than 200 pods are an error: then the selector
// does not select a few replicas.
func (c *Cluster) Pods(ctx context.Context, namespace, selector string) ([]*Pod, error) {
	list, err := c.core.Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: selector, Limit: maxPods + 1})
	if err != nil {
		if e, ok := errors.AsType[*url.Error](err); ok {
			err = e.Err // the URL adds nothing to the error's context
		}
		return nil, fmt.Errorf("list the pods of namespace %s: %w", namespace, err)
	}
	if len(list.Items) > maxPods || list.Continue != "" {
		return nil, fmt.Errorf("list the pods of namespace %s: more than %d pods have the labels %s: use a narrower selector", namespace, maxPods, selector)
	}
	pods := make([]*Pod, len(list.Items))
	for i := range list.Items {
		pods[i] = c.pod(&list.Items[i])
	}
	slices.SortFunc(pods, func(a, b *Pod) int { return strings.Compare(a.Name, b.Name) })
	return pods, nil
}

func (c *Cluster) pod(p *corev1.Pod) *Pod {
	pod := &Pod{
		cluster: c, Namespace: p.Namespace, Name: p.Name, Phase: string(p.Status.Phase),
		Ports: make(map[string]int),
	}
	for _, condition := range p.Status.Conditions {
		if condition.Type == corev1.PodReady {
			pod.Ready = condition.Status == corev1.ConditionTrue
		}
	}
	for _, s := range p.Status.ContainerStatuses {
		if w := s.State.Waiting; w != nil && pod.Waiting == "" {
			pod.Waiting = w.Reason
		}
	}
	for _, c := range p.Spec.InitContainers {
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways { // it keeps running
			pod.Containers = append(pod.Containers, c)
		}
	}
	pod.Containers = append(pod.Containers, p.Spec.Containers...)
	for _, c := range pod.Containers {
		for _, port := range c.Ports {
			if port.Name != "" {
				pod.Ports[port.Name] = int(port.ContainerPort)
			}
		}
	}
	return pod
}

// clip shortens a text from a server that becomes part of an error.
func clip(s string) string {
	const most = 300
	if s = strings.TrimSpace(s); len(s) > most {
		return strings.ToValidUTF8(s[:most], "") + "…"
	}
	return s
}
