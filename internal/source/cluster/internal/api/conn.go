package api

import (
	"context"
	"net"
	"sync/atomic"
	"time"
)

const (
	// connBuffer is how much is read from the network at once.
	connBuffer = 128 << 10
	// bulk is how much of an answer comes without a pause, and pause how long a connection then waits for more to arrive.
	bulk, pause = 64 << 10, 15 * time.Millisecond
)

// dialPatiently makes a connection for lists, with the limits that client-go has where it dials itself.
func dialPatiently(ctx context.Context, network, address string) (net.Conn, error) {
	dialer := net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second}
	conn, err := dialer.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return &patientConn{Conn: conn}, nil
}

// patientConn reads large answers in large pieces. An API server sends a compressed list in records of a few kilobytes, as
// fast as it compresses; who reads each of them when it comes is woken up more than a thousand times for a list, which
// costs as much processor time as to hash all of it.
type patientConn struct {
	net.Conn
	got atomic.Int64 // bytes of the answer that comes

	// owned by who reads, which is one goroutine of the transport
	buf     []byte
	at      int  // buf[at:] was not handed out yet
	drained bool // the last read got all that had arrived
}

// Write sends a request, whose answer begins anew.
func (c *patientConn) Write(p []byte) (int, error) {
	c.got.Store(0)
	return c.Conn.Write(p)
}

// Read implements [net.Conn].
func (c *patientConn) Read(p []byte) (int, error) {
	if c.at == len(c.buf) {
		if err := c.fill(); err != nil {
			return 0, err
		}
	}
	n := copy(p, c.buf[c.at:])
	c.at += n
	return n, nil
}

// fill reads what has arrived.
func (c *patientConn) fill() error {
	if c.buf == nil {
		c.buf = make([]byte, 0, connBuffer)
	}
	if c.drained && c.got.Load() >= bulk {
		time.Sleep(pause)
	}
	n, err := c.Conn.Read(c.buf[:connBuffer])
	if n > 0 {
		err = nil // it will be there again
	}
	c.buf, c.at = c.buf[:n], 0
	c.got.Add(int64(n))
	c.drained = n < connBuffer
	return err
}
