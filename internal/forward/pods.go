package forward

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/streaming/pkg/httpstream"
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

// maxOutput limits what a command may write to each of its streams, in bytes.
const maxOutput = 1 << 20

// Exec runs a command in a container of the pod, without a shell and without input, and returns what it wrote to its standard output.
// The user needs the verbs get and create on pods/exec, as for [Pod.Dial] on pods/portforward. If the command ran and failed, the error is
// the first line that it wrote to its standard error, or says how it ended.
func (p *Pod) Exec(ctx context.Context, container string, command ...string) (stdout []byte, err error) {
	u := p.request("exec").VersionedParams(&corev1.PodExecOptions{Container: container, Command: command, Stdout: true, Stderr: true}, scheme.ParameterCodec).URL()
	sockets, err := remotecommand.NewWebSocketExecutor(p.cluster.config, http.MethodGet, u.String())
	if err != nil {
		return nil, fmt.Errorf("exec in pod %s: %w", p.Name, err)
	}
	plain, err := remotecommand.NewSPDYExecutor(p.cluster.config, http.MethodPost, u)
	if err != nil {
		return nil, fmt.Errorf("exec in pod %s: %w", p.Name, err)
	}
	executor, err := remotecommand.NewFallbackExecutor(sockets, plain, func(err error) bool {
		return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
	})
	if err != nil {
		return nil, fmt.Errorf("exec in pod %s: %w", p.Name, err)
	}
	var out, errs limitedBuffer
	err = executor.StreamWithContext(ctx, remotecommand.StreamOptions{Stdout: &out, Stderr: &errs})
	switch {
	case err == nil && !out.full:
		return out.Bytes(), nil
	case err == nil:
		err = fmt.Errorf("the command wrote more than %d bytes", maxOutput)
	case out.Len()+errs.Len() > 0:
		if line, _, _ := strings.Cut(strings.TrimSpace(errs.String()), "\n"); line != "" {
			err = errors.New(clip(line))
		}
		return out.Bytes(), err
	}
	return nil, fmt.Errorf("exec in pod %s, container %s: %w", p.Name, container, errors.New(clip(err.Error())))
}

// limitedBuffer drops what exceeds maxOutput.
type limitedBuffer struct {
	bytes.Buffer
	full bool
}

func (b *limitedBuffer) Write(p []byte) (int, error) {
	rest := p[:min(len(p), maxOutput-b.Len())]
	b.full = b.full || len(rest) < len(p)
	b.Buffer.Write(rest)
	return len(p), nil
}

// WhoAmI returns the name of the user that the API server knows the caller as.
func (c *Cluster) WhoAmI(ctx context.Context) (string, error) {
	review, err := c.users.SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err == nil && review.Status.UserInfo.Username == "" {
		err = errors.New("the answer has no name")
	}
	if err != nil {
		return "", fmt.Errorf("ask the API server who you are: %w", err)
	}
	return review.Status.UserInfo.Username, nil
}
