package forward

import (
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"

	"k8s.io/streaming/pkg/httpstream"
)

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
			_ = data.Reset() // wakes a blocked reader: nobody answers on the stream
		}
	}()
	return c
}

// Read implements net.Conn. If the kubelet could not connect, the error is its message.
func (c *conn) Read(b []byte) (int, error) {
	n, err := c.data.Read(b)
	if err != nil {
		err = c.explain(err)
	}
	return n, err
}

// Write implements net.Conn.
func (c *conn) Write(b []byte) (int, error) {
	n, err := c.data.Write(b)
	if err != nil {
		err = c.explain(err)
	}
	return n, err
}

// explain returns the kubelet's message instead of a stream error. The message may arrive a little later than the end of the
// data.
func (c *conn) explain(err error) error {
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
