//go:build linux

package kubelet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// apiServer is the address of the API server inside a pod.
var apiServer = netip.MustParseAddrPort("127.0.0.1:443")

// forwardAll forwards the addresses in the network of the pod as configured, until ctx ends.
func (p *Pod) forwardAll(ctx context.Context) error {
	dialer := net.Dialer{}
	api := func(ctx context.Context) (net.Conn, error) { return dialer.DialContext(ctx, "tcp", p.cfg.APIServer) }
	if err := p.forward(ctx, apiServer, api); err != nil {
		return err
	}
	for at, dial := range p.cfg.Reach {
		if err := p.forward(ctx, at, dial); err != nil {
			return err
		}
	}
	return nil
}

// forward accepts connections at an address in the network of the pod and joins each with one from dial. If dial fails, it closes
// the connection, as if it had been refused.
func (p *Pod) forward(ctx context.Context, at netip.AddrPort, dial Dial) error {
	l, err := p.net.Listen(at)
	if err != nil {
		return fmt.Errorf("listen for the pod: %w", err)
	}
	closeAtEnd := context.AfterFunc(ctx, func() { l.Close() })
	p.working.Go(func() {
		defer closeAtEnd()
		for {
			near, err := l.Accept()
			if err != nil {
				return // closed
			}
			p.working.Go(func() { join(ctx, near, dial) })
		}
	})
	return nil
}

// join copies in both directions until both sides have ended.
func join(ctx context.Context, near net.Conn, dial Dial) {
	defer near.Close()
	far, err := dial(ctx)
	if err != nil {
		return
	}
	defer far.Close()
	defer context.AfterFunc(ctx, func() { near.Close(); far.Close() })()
	back := make(chan struct{})
	go func() {
		defer close(back)
		copyHalf(near, far)
	}()
	copyHalf(far, near)
	<-back
}

// copyHalf copies until the source ends, and passes the end on.
func copyHalf(to, from net.Conn) {
	if _, err := io.Copy(to, from); err != nil {
		// One side is broken, so end the other direction as well.
		to.Close()
		from.Close()
		return
	}
	if c, ok := to.(interface{ CloseWrite() error }); ok {
		c.CloseWrite() // fails if the other side is already gone
	}
}

// errNoEndpoints is the error of a client of a Service without ready pods.
var errNoEndpoints = errors.New("the service has no ready pods")

// Service returns a Dial that connects to the target port of the Service's ready pods in turn. It is an error if the selector
// does not match a pod, or the pods do not have the port.
func Service(s *corev1.Service, port int32, pods ...*Pod) (Dial, error) {
	fail := func(err error) (Dial, error) { return nil, fmt.Errorf("service %s/%s: %w", s.Namespace, s.Name, err) }
	for _, p := range pods {
		if p.cfg.Pod.Namespace != s.Namespace || len(s.Spec.Selector) == 0 ||
			!labels.SelectorFromSet(s.Spec.Selector).Matches(labels.Set(p.cfg.Pod.Labels)) {
			return fail(fmt.Errorf("it does not select pod %s", p.Name()))
		}
	}
	for _, sp := range s.Spec.Ports {
		if sp.Port != port {
			continue
		}
		targets := make([]uint16, len(pods))
		for i, p := range pods {
			target, err := p.target(sp)
			if err != nil {
				return fail(err)
			}
			targets[i] = target
		}
		var next atomic.Uint64
		return func(ctx context.Context) (net.Conn, error) {
			for range pods {
				i := int(next.Add(1) % uint64(len(pods)))
				if pods[i].Ready() {
					return pods[i].Dial(ctx, targets[i])
				}
			}
			return nil, errNoEndpoints
		}, nil
	}
	return fail(fmt.Errorf("it has no port %d", port))
}

// target returns the pod's port behind a port of a Service.
func (p *Pod) target(sp corev1.ServicePort) (uint16, error) {
	var err error
	for i := range p.cfg.Pod.Spec.Containers {
		var port uint16
		if port, err = portOf(&p.cfg.Pod.Spec.Containers[i], sp.TargetPort); err == nil {
			return port, nil
		}
	}
	return 0, fmt.Errorf("pod %s: %w", p.Name(), err)
}
