package forward

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/klog/v2"

	"github.com/routesrv/routesrv/app/options"
	"github.com/routesrv/routesrv/app/query"
)

// Defaults, as in the base in deploy/kustomize.
const (
	defaultNamespace   = "routesrv"
	defaultSelector    = "app.kubernetes.io/name=routesrv"
	supportPortName    = "support"
	mainPortName       = "http"
	defaultSupportPort = 9911
	defaultMainPort    = 9090
	program            = "routesrv" // its container, if none declares the support port
)

// places holds the clusters of one run.
type places struct {
	kubeconfig, context, contexts string
	namespace, selector           string
	supportPort, mainPort         int

	mu   sync.Mutex
	open []func() // functions that Close calls
}

// SilenceClient discards the log of client-go, which also returns what it logs as errors. The log is global, so call it once, before NewPlaces.
func SilenceClient() { klog.SetSlogLogger(slog.New(slog.DiscardHandler)) }

// NewPlaces returns the places that kubectl routesrv asks: the pods of a Deployment in the clusters of a kubeconfig.
func NewPlaces() query.Places { return &places{} }

// Define implements [query.Places].
func (p *places) Define(flags *options.Flags) {
	flags.Add("--context", options.Text("NAME", &p.context, ""), "Context of the kubeconfig; empty means the current one.")
	flags.Add("--contexts", options.Text("PATTERN", &p.contexts, ""),
		"Ask several clusters: contexts with a comma between them, where * stands for any characters.")
	flags.Add("--server-namespace", options.Text("NAME", &p.namespace, defaultNamespace), "Namespace of the route servers.")
	flags.Add("-l,--selector", options.Text("LABELS", &p.selector, defaultSelector), "Labels of the pods of the route server.")
	flags.Add("--kubeconfig", options.Text("FILE", &p.kubeconfig, ""), "Kubeconfig file, instead of those that kubectl uses.")
	flags.Add("--support-port", options.Number(&p.supportPort, 0, 0, 65535),
		"Port of the support listener; 0 means the port named support, else 9911.")
	flags.Add("--main-port", options.Number(&p.mainPort, 0, 0, 65535),
		"Port of the main listener, for diff; 0 means the port named http, else 9090.")
	contexts := func() []string {
		names, _, _ := NewKubeconfig(flags.Lookup("kubeconfig").Value.String()).Contexts() // without a kubeconfig there are none
		return names
	}
	flags.Complete("context", contexts)
	flags.Complete("contexts", contexts)
}

// Args implements [query.Places].
func (p *places) Args() string { return "" }

// Clusters implements [query.Places]. Flags choose the clusters, so it returns every argument unused.
func (p *places) Clusters(args []string) ([]query.Cluster, []string, error) {
	if p.context != "" && p.contexts != "" {
		return nil, nil, errors.New("--context and --contexts cannot be combined")
	}
	if p.namespace == "" || strings.ContainsAny(p.namespace, "/?#% ") {
		return nil, nil, fmt.Errorf("%q is not a namespace", p.namespace)
	}
	kubeconfig := NewKubeconfig(p.kubeconfig)
	names, err := []string{p.context}, error(nil)
	switch {
	case p.contexts != "":
		if names, err = kubeconfig.Match(p.contexts); err != nil {
			err = fmt.Errorf("--contexts: %w", err)
		}
	case p.context == "":
		_, names[0], err = kubeconfig.Contexts()
	}
	if err != nil {
		return nil, nil, err
	}
	clusters := make([]query.Cluster, len(names))
	for i, name := range names {
		clusters[i] = p.cluster(kubeconfig, name)
	}
	return clusters, args, nil
}

// Close implements [query.Places].
func (p *places) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, end := range p.open {
		end()
	}
	p.open = nil
}

func (p *places) closeLater(end func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.open = append(p.open, end)
}

// cluster returns the cluster of a context. It reads the credentials only when asked: a broken context does not affect the others.
func (p *places) cluster(kubeconfig *Kubeconfig, name string) query.Cluster {
	return query.Cluster{Name: name, Find: func(ctx context.Context) ([]query.Replica, error) {
		c, err := kubeconfig.Open(name)
		if err != nil {
			return nil, err
		}
		p.closeLater(c.Close)
		pods, err := c.Pods(ctx, p.namespace, p.selector)
		if _, refused := errors.AsType[*apierrors.StatusError](err); err != nil && !refused {
			err = fmt.Errorf("%w (without the API server: --urls FILE, with NAME and the URL of a support listener on each line)", err)
		}
		if err != nil {
			return nil, err
		}
		var replicas []query.Replica
		for _, pod := range pods {
			if pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed { // such as evicted pods: others have replaced them
				continue
			}
			replicas = append(replicas, p.replica(c, pod))
		}
		if len(replicas) == 0 {
			return nil, fmt.Errorf("no pod with the labels %s in namespace %s: name them with --server-namespace and -l", p.selector, p.namespace)
		}
		return replicas, nil
	}}
}

// replica returns the replica of a pod.
func (p *places) replica(c *Cluster, pod *Pod) query.Replica {
	r := query.Replica{Name: pod.Name}
	if phase := pod.Status.Phase; phase != corev1.PodRunning || pod.Waiting() != "" && !pod.Ready() {
		r.Fault = "the pod is " + strings.ToLower(string(phase))
		if waiting := pod.Waiting(); waiting != "" {
			r.Fault += " (" + waiting + ")"
		}
		return r
	}
	support := cmp.Or(p.supportPort, pod.Port(supportPortName), defaultSupportPort)
	main := cmp.Or(p.mainPort, pod.Port(mainPortName), defaultMainPort)
	transport := &http.Transport{DialContext: pod.dialer(support)}
	p.closeLater(transport.CloseIdleConnections)
	// In the pod the connection arrives at the loopback interface.
	r.Support = &query.Listener{URL: "http://localhost:" + strconv.Itoa(support), Transport: transport}
	r.Host, r.Dial = "routesrv."+pod.Namespace+".svc:"+strconv.Itoa(main), pod.dialer(main)
	r.Post = func(ctx context.Context, path string, form url.Values) ([]byte, error) {
		user, err := c.WhoAmI(ctx)
		if err != nil {
			return nil, err
		}
		form = maps.Clone(form)
		form.Set("by", user)
		_, container := pod.port(func(p corev1.ContainerPort) bool { return int(p.ContainerPort) == support })
		return pod.Exec(ctx, cmp.Or(container, program), program, "post", path, form.Encode())
	}
	return r
}
