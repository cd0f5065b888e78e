package forward

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"
	"k8s.io/streaming/pkg/httpstream"
)

// Dial connects to a port of the pod, as a process in the pod would on localhost. The connection has no deadlines: close it to
// end blocked calls. If ctx ends first, Dial returns, and a connection that opens later is closed.
func (p *Pod) Dial(ctx context.Context, port int) (net.Conn, error) {
	var c *conn
	done := make(chan error, 1)
	go func() {
		var err error
		if c, err = p.dial(ctx, port); err != nil {
			err = fmt.Errorf("port-forward to pod %s: %w", p.Name, err)
		}
		done <- err
	}()
	select {
	case err := <-done:
		if err != nil {
			return nil, err
		}
		return c, nil
	case <-ctx.Done():
		go func() {
			if <-done == nil {
				c.Close()
			}
		}()
		return nil, ctx.Err()
	}
}

// dial opens a connection to the API server, with two streams: one for data, and one on which the kubelet reports errors.
func (p *Pod) dial(ctx context.Context, port int) (*conn, error) {
	session, err := p.cluster.upgrade(ctx, p)
	if err != nil {
		return nil, err
	}
	var streams [2]httpstream.Stream
	for i, kind := range []string{corev1.StreamTypeError, corev1.StreamTypeData} {
		headers := http.Header{}
		headers.Set(corev1.StreamType, kind)
		headers.Set(corev1.PortHeader, strconv.Itoa(port))
		headers.Set(corev1.PortForwardRequestIDHeader, "1")
		if streams[i], err = session.CreateStream(headers); err != nil {
			session.Close()
			return nil, err
		}
	}
	failures, data := streams[0], streams[1]
	failures.Close() // the client sends nothing on this stream
	return newConn(p.Name, port, session, data, failures), nil
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
	dialer := portforward.NewFallbackDialerForStreaming(sockets, plain, noWebSockets)
	conn, protocol, err := dialer.Dial(portforward.PortForwardProtocolV1Name)
	if err != nil {
		return nil, err
	}
	if protocol != portforward.PortForwardProtocolV1Name || ctx.Err() != nil {
		conn.Close()
		return nil, cmp.Or(ctx.Err(), fmt.Errorf("the API server speaks %q, must be %q", clip(protocol), portforward.PortForwardProtocolV1Name))
	}
	return conn, nil
}

// noWebSockets reports whether an error means that the API server, or a proxy before it, does not support WebSockets.
func noWebSockets(err error) bool {
	return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
}

// within adds a context to requests that client-go creates without one.
type within struct {
	ctx  context.Context
	next http.RoundTripper
}

func (w within) RoundTrip(r *http.Request) (*http.Response, error) {
	return w.next.RoundTrip(r.WithContext(w.ctx))
}

// maxFailure limits the kubelet's message about a failed connection, in bytes.
const maxFailure = 4 << 10

// conn is a connection to a port of a pod: a stream of data, and a stream on which the kubelet reports errors.
type conn struct {
	addr    addr
	session httpstream.Connection // of this connection alone
	data    httpstream.Stream

	failed  chan struct{} // closed when the kubelet has reported a failure, or has closed the stream without one
	failure string        // the kubelet's message; read it after failed is closed
}

func newConn(pod string, port int, session httpstream.Connection, data, failures httpstream.Stream) *conn {
	c := &conn{addr: addr{pod, port}, session: session, data: data, failed: make(chan struct{})}
	go func() {
		defer close(c.failed)
		if text, err := io.ReadAll(io.LimitReader(failures, maxFailure)); err == nil && len(text) > 0 {
			c.failure = clip(string(text))
			_ = data.Reset() // wakes a blocked reader: the stream will get no answer
		}
	}()
	return c
}

// Read implements net.Conn. If the kubelet could not connect, the error is its message.
func (c *conn) Read(b []byte) (int, error) {
	n, err := c.data.Read(b)
	return n, c.explain(err)
}

// Write implements net.Conn.
func (c *conn) Write(b []byte) (int, error) {
	n, err := c.data.Write(b)
	return n, c.explain(err)
}

// explain returns the kubelet's message instead of a stream error. The message may arrive a little later than the end of the
// data.
func (c *conn) explain(err error) error {
	if err == nil {
		return nil
	}
	select {
	case <-c.failed:
	case <-time.After(200 * time.Millisecond):
		return err
	}
	if c.failure != "" {
		return fmt.Errorf("%v: %s", c.addr, c.failure)
	}
	return err
}

// Close implements net.Conn. It ends a blocked Read and Write.
func (c *conn) Close() error { return c.session.Close() }

// LocalAddr and RemoteAddr implement net.Conn.
func (c *conn) LocalAddr() net.Addr  { return addr{"localhost", 0} }
func (c *conn) RemoteAddr() net.Addr { return c.addr }

// errNoDeadline is returned by the methods that set deadlines.
var errNoDeadline = errors.New("forwarded connections have no deadlines")

// SetDeadline, SetReadDeadline and SetWriteDeadline implement net.Conn. They fail: use Close to end blocked calls.
func (c *conn) SetDeadline(time.Time) error      { return errNoDeadline }
func (c *conn) SetReadDeadline(time.Time) error  { return errNoDeadline }
func (c *conn) SetWriteDeadline(time.Time) error { return errNoDeadline }

// addr is a port of a pod.
type addr struct {
	pod  string
	port int
}

// Network and String implement net.Addr.
func (a addr) Network() string { return "pod" }
func (a addr) String() string  { return "pod " + a.pod + " port " + strconv.Itoa(a.port) }
