// Package forward connects to pods from outside their cluster, like kubectl port-forward, but without a listener on this machine:
// [Pod.Dial] opens a connection to a port of a pod through the API server, and no other process on this machine can use it.
//
// # Rights
//
// A user needs the verb list on pods, and get and create on pods/portforward: get for WebSockets, create for SPDY, the fallback
// if the API server does not support WebSockets here. [Pod.Exec] needs the same verbs on pods/exec.
//
// # Guarantees
//
// Every call returns when its context ends, even if the API server, the kubelet or a credential plugin hangs. Errors
// contain names as the server sent them: escape them before showing them on a terminal.
package forward

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	typedauthenticationv1 "k8s.io/client-go/kubernetes/typed/authentication/v1"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	_ "k8s.io/client-go/plugin/pkg/client/auth" // all credential plugins that kubectl supports
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/remotecommand"
)

// Kubeconfig lists clusters and credentials. It is safe for concurrent use.
type Kubeconfig struct {
	rules *clientcmd.ClientConfigLoadingRules
}

// NewKubeconfig uses one file or, with an empty path, the same files as kubectl: $KUBECONFIG, else ~/.kube/config.
func NewKubeconfig(path string) *Kubeconfig {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = path
	rules.WarnIfAllMissing = false
	return &Kubeconfig{rules: rules}
}

// Contexts returns the names of all contexts, sorted, and the current one, which may be empty.
func (k *Kubeconfig) Contexts() (names []string, current string, err error) {
	raw, err := k.rules.Load()
	if err != nil {
		return nil, "", fmt.Errorf("read the kubeconfig: %w", err)
	}
	return slices.Sorted(maps.Keys(raw.Contexts)), raw.CurrentContext, nil
}

// Match returns the contexts that match one of several patterns with commas between them, sorted. Each must match some context.
func (k *Kubeconfig) Match(patterns string) ([]string, error) {
	names, _, err := k.Contexts()
	if err != nil {
		return nil, err
	}
	var chosen []string
	for p := range strings.SplitSeq(patterns, ",") {
		p = strings.TrimSpace(p)
		fitting := slices.DeleteFunc(slices.Clone(names), func(name string) bool {
			fits, _ := path.Match(noSlash(p), noSlash(name))
			return !fits
		})
		if len(fitting) == 0 {
			return nil, fmt.Errorf("no context of the kubeconfig matches %q: it has %s", p, strings.Join(names, ", "))
		}
		chosen = append(chosen, fitting...)
	}
	slices.Sort(chosen)
	return slices.Compact(chosen), nil
}

// noSlash replaces slashes, which names of contexts contain, and which * does not match in a path.
func noSlash(name string) string { return strings.ReplaceAll(name, "/", "\x00") }

// Cluster is the API server of one context. It is safe for concurrent use.
type Cluster struct {
	config *rest.Config
	client *http.Client
	core   *typedcorev1.CoreV1Client
	users  *typedauthenticationv1.AuthenticationV1Client
}

// Open returns the client of a context; an empty name means the current one. It does not connect yet.
func (k *Kubeconfig) Open(context string) (*Cluster, error) {
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(k.rules, &clientcmd.ConfigOverrides{CurrentContext: context}).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("read the kubeconfig: %w", err)
	}
	return Open(config)
}

// Open returns the client of an API server. It does not change config.
func Open(config *rest.Config) (*Cluster, error) {
	config = rest.CopyConfig(config)
	config.QPS, config.Timeout, config.WarningHandler = -1, 0, rest.NoWarnings{}
	shared, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("API client: %w", err)
	}
	client := *shared // shared may be http.DefaultClient
	// An API server does not redirect, and client-go would send the token to wherever a redirect points.
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	core, err := typedcorev1.NewForConfigAndClient(config, &client)
	users, err2 := typedauthenticationv1.NewForConfigAndClient(config, &client)
	if err := cmp.Or(err, err2); err != nil {
		return nil, fmt.Errorf("API client: %w", err)
	}
	return &Cluster{config: config, client: &client, core: core, users: users}, nil
}

// request returns a request for a subresource of the pod.
func (p *Pod) request(subresource string) *rest.Request {
	return p.cluster.core.RESTClient().Post().Resource("pods").Namespace(p.Namespace).Name(p.Name).SubResource(subresource)
}

// Close closes idle connections to the API server. It leaves forwarded connections open.
func (c *Cluster) Close() { c.client.CloseIdleConnections() }

// maxPods limits a list of pods.
const maxPods = 200

// Pod is a pod as the API server listed it, with connections to its ports. It is safe for concurrent use.
type Pod struct {
	*corev1.Pod
	cluster *Cluster
}

// Pods lists the pods that match a selector such as app=web, sorted by name. More than 200 are an error: they are not replicas.
func (c *Cluster) Pods(ctx context.Context, namespace, selector string) ([]*Pod, error) {
	list, err := c.core.Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: selector, Limit: maxPods + 1})
	if e, ok := errors.AsType[*url.Error](err); ok {
		err = e.Err // the URL adds nothing
	}
	if err == nil && len(list.Items) > maxPods {
		err = fmt.Errorf("more than %d pods have the labels %s: use a narrower selector", maxPods, selector)
	}
	if err != nil {
		return nil, fmt.Errorf("list the pods of namespace %s: %w", namespace, err)
	}
	var pods []*Pod
	for i := range list.Items {
		pods = append(pods, &Pod{&list.Items[i], c})
	}
	slices.SortFunc(pods, func(a, b *Pod) int { return strings.Compare(a.Name, b.Name) })
	return pods, nil
}

// Waiting returns why the first container that is not running is waiting, such as CrashLoopBackOff; empty if all run.
func (p *Pod) Waiting() string {
	for _, s := range p.Status.ContainerStatuses {
		if w := s.State.Waiting; w != nil {
			return w.Reason
		}
	}
	return ""
}

// Ready reports whether the pod is ready.
func (p *Pod) Ready() bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// containers returns the containers that keep running: the containers of the pod, and the sidecars among its init containers.
func (p *Pod) containers() []corev1.Container {
	return slices.DeleteFunc(slices.Concat(p.Spec.InitContainers, p.Spec.Containers), func(c corev1.Container) bool {
		return slices.ContainsFunc(p.Spec.InitContainers, func(i corev1.Container) bool { return i.Name == c.Name && i.RestartPolicy == nil })
	})
}

// port returns the port that a predicate selects, and its container.
func (p *Pod) port(ok func(corev1.ContainerPort) bool) (port int, container string) {
	for _, c := range p.containers() {
		if i := slices.IndexFunc(c.Ports, ok); i >= 0 {
			return int(c.Ports[i].ContainerPort), c.Name
		}
	}
	return 0, ""
}

// Port returns the number of a named container port, or 0 if no container has it.
func (p *Pod) Port(name string) int {
	number, _ := p.port(func(c corev1.ContainerPort) bool { return c.Name == name })
	return number
}

// clip shortens a text from a server that becomes part of an error.
func clip(s string) string {
	const most = 300
	if s = strings.TrimSpace(s); len(s) > most {
		return strings.ToValidUTF8(s[:most], "") + "…"
	}
	return s
}

// Exec runs a command in a container of the pod, without a shell and without input. If it failed, the error is what it printed.
func (p *Pod) Exec(ctx context.Context, container string, command ...string) (stdout []byte, err error) {
	u := p.request("exec").VersionedParams(&corev1.PodExecOptions{Container: container, Command: command, Stdout: true, Stderr: true}, scheme.ParameterCodec).URL()
	sockets, err := remotecommand.NewWebSocketExecutor(p.cluster.config, http.MethodGet, u.String())
	plain, err2 := remotecommand.NewSPDYExecutor(p.cluster.config, http.MethodPost, u)
	executor, err3 := remotecommand.NewFallbackExecutor(sockets, plain, noWebSockets)
	if err := cmp.Or(err, err2, err3); err != nil {
		return nil, fmt.Errorf("exec in pod %s: %w", p.Name, err)
	}
	var out, errs bytes.Buffer
	err = executor.StreamWithContext(ctx, remotecommand.StreamOptions{Stdout: &out, Stderr: &errs})
	switch {
	case err == nil:
		return out.Bytes(), nil
	case out.Len()+errs.Len() > 0:
		if line, _, _ := strings.Cut(strings.TrimSpace(errs.String()), "\n"); line != "" {
			err = errors.New(clip(line))
		}
		return out.Bytes(), err
	}
	return nil, fmt.Errorf("exec in pod %s, container %s: %w", p.Name, container, errors.New(clip(err.Error())))
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
