// Package forwardtest implements, for tests, the kubelet's side of a port-forward. Tests can register a node with a real API
// server whose address is this handler, or a fake API server can use the handler itself.
package forwardtest

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"
)

// protocol is the subprotocol of port-forwards.
const protocol = "portforward.k8s.io"

// Dial connects to a port of a pod. The client of the port-forward receives its error.
type Dial func(ctx context.Context, namespace, pod string, port int) (net.Conn, error)

// Kubelet answers requests for port-forwards. It accepts the paths of kubelets, /portForward/NAMESPACE/POD, and of API servers,
// which end in /NAMESPACE/pods/POD/portforward.
type Kubelet struct{ Dial Dial }

// pair holds the two streams of one connection.
type pair struct {
	port         int
	data, errors httpstream.Stream
}

// ServeHTTP implements [http.Handler]. It refuses WebSockets, as a kubelet does.
func (k Kubelet) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	namespace, pod, ok := podOf(r.URL.Path)
	if !ok {
		http.NotFound(w, r)
		return
	}
	if r.Method != http.MethodPost {
		http.Error(w, "WebSockets are not supported", http.StatusBadRequest)
		return
	}
	if _, err := httpstream.Handshake(r, w, []string{protocol}); err != nil {
		return // the error has been answered
	}
	streams := make(chan httpstream.Stream, 16)
	conn := spdy.NewResponseUpgrader().UpgradeResponse(w, r, func(s httpstream.Stream, _ <-chan struct{}) error {
		streams <- s
		return nil
	})
	if conn == nil {
		return // the error has been answered
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	defer conn.Close()
	pairs := make(map[string]*pair)
	for {
		select {
		case <-conn.CloseChan():
			return
		case <-r.Context().Done():
			return
		case s := <-streams:
			id := s.Headers().Get(corev1.PortForwardRequestIDHeader)
			if pairs[id] == nil {
				pairs[id] = &pair{}
			}
			p := pairs[id]
			p.port, _ = strconv.Atoi(s.Headers().Get(corev1.PortHeader))
			if s.Headers().Get(corev1.StreamType) == corev1.StreamTypeError {
				p.errors = s
			} else {
				p.data = s
			}
			if p.data != nil && p.errors != nil {
				delete(pairs, id)
				wg.Go(func() { k.join(r.Context(), conn, namespace, pod, p) })
			}
		}
	}
}

// join copies in both directions until both sides have ended or the connection ends.
func (k Kubelet) join(ctx context.Context, all httpstream.Connection, namespace, pod string, p *pair) {
	defer p.errors.Close()
	defer p.data.Close()
	far, err := k.Dial(ctx, namespace, pod, p.port)
	if err != nil {
		fmt.Fprintf(p.errors, "error forwarding port %d to pod %s: %v", p.port, pod, err)
		return
	}
	ended := make(chan struct{})
	defer close(ended)
	go func() {
		select {
		case <-all.CloseChan():
		case <-ended:
		}
		far.Close()
	}()
	go func() {
		_, _ = io.Copy(far, p.data) // the client ends it
		if c, ok := far.(interface{ CloseWrite() error }); ok {
			_ = c.CloseWrite()
		}
	}()
	_, _ = io.Copy(p.data, far)
}

func podOf(path string) (namespace, pod string, ok bool) {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	n := len(parts)
	switch {
	case n >= 3 && parts[0] == "portForward":
		return parts[1], parts[2], true
	case n >= 4 && parts[n-1] == "portforward" && parts[n-3] == "pods":
		return parts[n-4], parts[n-2], true
	}
	return "", "", false
}
