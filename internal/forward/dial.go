package forward

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"
	"k8s.io/streaming/pkg/httpstream"
)

// ErrClosed is returned by Dial after Close.
var ErrClosed = errors.New("the forward to the pod is closed")

// Dial connects to a port of the pod, as a process in the pod would on localhost. The connection has no deadlines: close it to
// end blocked calls. If ctx ends first, Dial returns, and a connection that opens later is closed.
func (p *Pod) Dial(ctx context.Context, port int) (net.Conn, error) {
	type result struct {
		conn net.Conn
		err  error
	}
	done := make(chan result, 1)
	go func() {
		c, err := p.dial(ctx, port)
		done <- result{c, err}
	}()
	select {
	case r := <-done:
		return r.conn, r.err
	case <-ctx.Done():
		go func() {
			if r := <-done; r.conn != nil {
				r.conn.Close()
			}
		}()
		return nil, ctx.Err()
	}
}

func (p *Pod) dial(ctx context.Context, port int) (net.Conn, error) {
	s, id, err := p.session(ctx)
	if err != nil {
		return nil, fmt.Errorf("port-forward to pod %s: %w", p.Name, err)
	}
	var streams [2]httpstream.Stream
	for i, kind := range []string{corev1.StreamTypeError, corev1.StreamTypeData} {
		headers := http.Header{}
		headers.Set(corev1.StreamType, kind)
		headers.Set(corev1.PortHeader, strconv.Itoa(port))
		headers.Set(corev1.PortForwardRequestIDHeader, strconv.Itoa(id))
		if streams[i], err = s.CreateStream(headers); err != nil {
			p.forget(s)
			return nil, fmt.Errorf("port-forward to pod %s: %w", p.Name, err)
		}
	}
	failures, data := streams[0], streams[1]
	failures.Close() // the client sends nothing on this stream
	return newConn(p.Name, port, s, data, failures), nil
}

// session returns the open connection to the API server, on which all connections to ports of the pod are streams, or opens one, and the next request number.
func (p *Pod) session(ctx context.Context) (httpstream.Connection, int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed.Load() {
		return nil, 0, ErrClosed
	}
	if p.open != nil {
		select {
		case <-p.open.CloseChan():
			p.open = nil
		default:
		}
	}
	if p.open == nil {
		conn, err := p.cluster.upgrade(ctx, p)
		if err != nil {
			return nil, 0, err
		}
		p.open = conn
		if p.closed.Load() { // closed meanwhile; Close waits for mu to close this session
			return nil, 0, ErrClosed
		}
	}
	p.next++
	return p.open, p.next, nil
}

// forget closes a failed connection, so that the next call opens a new one.
func (p *Pod) forget(s httpstream.Connection) {
	s.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.open == s {
		p.open = nil
	}
}

// Close ends all connections to the pod. Later calls of Dial fail.
func (p *Pod) Close() {
	p.closed.Store(true)
	// An upgrade that never ends holds mu and must not block Close.
	go func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.open != nil {
			p.open.Close()
			p.open = nil
		}
	}()
}

// upgrade opens the connection of a port-forward with WebSockets, or with SPDY if the API server or a proxy in between refuses
// WebSockets.
func (c *Cluster) upgrade(ctx context.Context, p *Pod) (httpstream.Connection, error) {
	u := p.request("portforward").URL()
	sockets, err := portforward.NewSPDYOverWebsocketDialerForStreaming(u, c.config)
	if err != nil {
		return nil, err
	}
	transport, upgrader, err := spdy.RoundTripperFor(c.config)
	if err != nil {
		return nil, err
	}
	plain := spdy.NewDialerForStreaming(upgrader, &http.Client{Transport: within{ctx, transport}}, http.MethodPost, u)
	dialer := portforward.NewFallbackDialerForStreaming(sockets, plain, func(err error) bool {
		return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
	})
	conn, protocol, err := dialer.Dial(portforward.PortForwardProtocolV1Name)
	if err != nil {
		return nil, err
	}
	if protocol != portforward.PortForwardProtocolV1Name || ctx.Err() != nil {
		conn.Close()
		return nil, cmp.Or(ctx.Err(), fmt.Errorf("the API server speaks %q, want %q", clip(protocol), portforward.PortForwardProtocolV1Name))
	}
	return conn, nil
}

// within adds a context to requests that client-go creates without one.
type within struct {
	ctx  context.Context
	next http.RoundTripper
}

func (w within) RoundTrip(r *http.Request) (*http.Response, error) {
	return w.next.RoundTrip(r.WithContext(w.ctx))
}
