package forward

import (
	"cmp"
	"context"
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

	"github.com/routesrv/routesrv/app/query"
)

// Dial connects to a port of the pod, as a process in the pod would on localhost.
func (p *Pod) Dial(ctx context.Context, port int) (net.Conn, error) {
	return query.Bounded(ctx, func(ctx context.Context) (net.Conn, error) {
		c, err := p.dial(port)
		if err != nil {
			return nil, fmt.Errorf("port-forward to pod %s: %w", p.Name, err)
		}
		if ctx.Err() != nil { // the caller no longer waits
			c.Close()
		}
		return c, ctx.Err()
	})
}

// dialer returns a function that connects to a port for an [http.Transport].
func (p *Pod) dialer(port int) func(ctx context.Context, network, host string) (net.Conn, error) {
	return func(ctx context.Context, _, _ string) (net.Conn, error) { return p.Dial(ctx, port) }
}

// dial opens a connection to the API server, with two streams: one for data, and one on which the kubelet reports errors.
func (p *Pod) dial(port int) (*conn, error) {
	session, err := p.upgrade()
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
	local, remote := net.Pipe()
	c := &conn{Conn: local, session: session, reported: make(chan struct{})}
	forward := func(to io.WriteCloser, from io.Reader) {
		_, _ = io.Copy(to, from) // the other side sees the end
		to.Close()
	}
	go forward(data, remote)
	go forward(remote, data)
	go func() {
		text, err := io.ReadAll(io.LimitReader(failures, maxFailure))
		if err == nil && len(text) > 0 {
			c.failure = fmt.Errorf("pod %s port %d: %s", p.Name, port, clip(string(text)))
			defer remote.Close() // the stream of data has no end then
		}
		close(c.reported)
	}()
	return c, nil
}

// upgrade opens the connection of a port-forward with WebSockets, or with SPDY if the API server or a proxy refuses these.
func (p *Pod) upgrade() (httpstream.Connection, error) {
	u := p.request("portforward").URL()
	sockets, err := portforward.NewSPDYOverWebsocketDialerForStreaming(u, p.cluster.config)
	if err != nil {
		return nil, err
	}
	transport, upgrader, err := spdy.RoundTripperFor(p.cluster.config)
	if err != nil {
		return nil, err
	}
	plain := spdy.NewDialerForStreaming(upgrader, &http.Client{Transport: transport}, http.MethodPost, u)
	dialer := portforward.NewFallbackDialerForStreaming(sockets, plain, noWebSockets)
	conn, protocol, err := dialer.Dial(portforward.PortForwardProtocolV1Name)
	if err != nil {
		return nil, err
	}
	if protocol != portforward.PortForwardProtocolV1Name {
		conn.Close()
		return nil, fmt.Errorf("the API server speaks %q, must be %q", clip(protocol), portforward.PortForwardProtocolV1Name)
	}
	return conn, nil
}

// noWebSockets reports whether an error means that the API server, or a proxy before it, does not support WebSockets.
func noWebSockets(err error) bool {
	return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
}

// maxFailure limits the kubelet's message about a failed connection, in bytes.
const maxFailure = 4 << 10

// conn is one end of a pipe; the other end is connected to the stream of data.
type conn struct {
	net.Conn
	session httpstream.Connection // of this connection alone

	reported chan struct{} // closed when the kubelet has nothing more to report
	failure  error         // what it reported, if it could not connect; set before reported is closed
}

// Read implements net.Conn.
func (c *conn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	return n, c.explain(err)
}

// Write implements net.Conn.
func (c *conn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	return n, c.explain(err)
}

// explain returns the kubelet's message instead of the error of the pipe. The message may arrive a little later than the end of the data.
// Reads and writes both get it, since an HTTP client may report either.
func (c *conn) explain(err error) error {
	if err == nil {
		return nil
	}
	select {
	case <-c.reported:
		return cmp.Or(c.failure, err)
	case <-time.After(200 * time.Millisecond):
	}
	return err
}

// Close implements net.Conn.
func (c *conn) Close() error {
	c.Conn.Close() // never fails
	return c.session.Close()
}
