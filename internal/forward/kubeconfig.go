// Package forward connects to pods from outside their cluster, like kubectl port-forward, but without a listener on this machine:
// [Pod.Dial] opens a connection to a port of a pod through the API server, and no other process on this machine can use it.
//
// A [Kubeconfig] lists clusters by context, [Kubeconfig.Open] returns the client for one, and [Cluster.Pods] lists pods by label.
//
// [Pod.Exec] runs a command in a pod, and [Cluster.WhoAmI] asks who the user is.
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
	"errors"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"

	typedauthenticationv1 "k8s.io/client-go/kubernetes/typed/authentication/v1"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	_ "k8s.io/client-go/plugin/pkg/client/auth" // all credential plugins that kubectl supports
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// maxPattern limits a pattern of contexts, in bytes.
const maxPattern = 4096

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

// Match returns the contexts that match a pattern, sorted: a comma separates several patterns, * matches any characters and ?
// matches one. A pattern without a match is an error, so that a mistyped name does not look like a healthy cluster.
func (k *Kubeconfig) Match(patterns string) ([]string, error) {
	if len(patterns) > maxPattern {
		return nil, fmt.Errorf("pattern of %d bytes, limit %d", len(patterns), maxPattern)
	}
	names, _, err := k.Contexts()
	if err != nil {
		return nil, err
	}
	chosen := make(map[string]bool)
	for p := range strings.SplitSeq(patterns, ",") {
		if p = strings.TrimSpace(p); p == "" {
			return nil, errors.New("an empty pattern: want names of contexts such as prod-*")
		}
		fits, found := glob(p), false
		for _, name := range names {
			if fits.MatchString(name) {
				chosen[name], found = true, true
			}
		}
		if !found {
			return nil, fmt.Errorf("no context of the kubeconfig matches %q: it has %s", p, listed(names))
		}
	}
	return slices.Sorted(maps.Keys(chosen)), nil
}

// glob converts a pattern to a regular expression. Names of contexts contain slashes, and * matches them, too.
func glob(pattern string) *regexp.Regexp {
	text := regexp.QuoteMeta(pattern)
	text = strings.NewReplacer(`\*`, `.*`, `\?`, `.`).Replace(text)
	return regexp.MustCompile(`(?s)^(?:` + text + `)$`)
}

// listed returns the first names of a list as text.
func listed(names []string) string {
	const most = 8
	switch {
	case len(names) == 0:
		return "none"
	case len(names) > most:
		return strings.Join(names[:most], ", ") + fmt.Sprintf(" and %d more", len(names)-most)
	}
	return strings.Join(names, ", ")
}

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
	if err != nil {
		return nil, fmt.Errorf("API client: %w", err)
	}
	users, err := typedauthenticationv1.NewForConfigAndClient(config, &client)
	if err != nil {
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
