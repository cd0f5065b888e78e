package forward

import (
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"
	"time"

	"k8s.io/streaming/pkg/httpstream"
)

// maxFailure bounds what a kubelet says about a connection that failed, in bytes.
const maxFailure = 4 << 10

// conn is a connection to a port of a pod: a stream of data, and one on which the kubelet says what failed.
type conn struct {
	addr    addr
	session httpstream.Connection
	data    httpstream.Stream
	errors  httpstream.Stream

	failed  chan struct{} // closed when the kubelet has said what failed, or that nothing did
	failure string        // what it said; read after failed

	once sync.Once
}

func newConn(pod string, port int, session httpstream.Connection, data, failures httpstream.Stream) *conn {
	c := &conn{addr: addr{pod, port}, session: session, data: data, errors: failures, failed: make(chan struct{})}
	go func() {
		defer close(c.failed)
		if text, err := io.ReadAll(io.LimitReader(failures, maxFailure)); err == nil && len(text) > 0 {
			c.failure = clip(string(text))
			_ = data.Reset() // nobody answers on it: wake up who reads
		}
	}()
	return c
}

// Read implements net.Conn. When the kubelet could not connect, its words are the error.
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

// explain prefers what the kubelet said to the error of a stream. Its word may come a little later than the end of the data.
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

// Close implements net.Conn. It ends a Read and a Write that wait.
func (c *conn) Close() error {
	c.once.Do(func() {
		_ = c.data.Reset()
		_ = c.errors.Reset()
		c.session.RemoveStreams(c.data, c.errors)
	})
	return nil
}

// LocalAddr and RemoteAddr implement net.Conn.
func (c *conn) LocalAddr() net.Addr  { return addr{"localhost", 0} }
func (c *conn) RemoteAddr() net.Addr { return c.addr }

// errNoDeadline is the answer to whoever relies on a deadline.
var errNoDeadline = errors.New("forwarded connections have no deadlines")

// SetDeadline, SetReadDeadline and SetWriteDeadline implement net.Conn. They fail: Close ends what waits.
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
