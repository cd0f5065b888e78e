package api

import (
	"context"
	"net"
	"sync/atomic"
	"time"
)

const (
	// connBuffer is how many bytes are read from the network at once.
	connBuffer = 128 << 10
	// bulk is how many bytes of an answer are read without a pause. After that, pause is how long a connection waits
	// for more data to arrive.
	bulk, pause = 64 << 10, 15 * time.Millisecond
)

// dialPatiently opens a connection for lists, with the same limits that client-go uses for its own connections.
func dialPatiently(ctx context.Context, network, address string) (net.Conn, error) {
	dialer := net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second}
	conn, err := dialer.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return &patientConn{Conn: conn}, nil
}

// patientConn reads large answers in large pieces. An API server sends a compressed list in records of a few
// kilobytes, as fast as it compresses. A client that reads each record as it arrives is woken more than a thousand
// times for a list, which costs as much CPU time as hashing the whole list.
type patientConn struct {
	net.Conn
	got atomic.Int64 // bytes received of the current answer

	// owned by the reader, which is one goroutine of the transport
	buf     []byte
	at      int  // buf[at:] is not yet delivered
	drained bool // the last read got all that had arrived
}

// Write sends a request and starts counting the bytes of its answer.
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

// fill reads the data that has arrived.
func (c *patientConn) fill() error {
	if c.buf == nil {
		c.buf = make([]byte, 0, connBuffer)
	}
	if c.drained && c.got.Load() >= bulk {
		time.Sleep(pause)
	}
	n, err := c.Conn.Read(c.buf[:connBuffer])
	if n > 0 {
		err = nil // the next read returns it again
	}
	c.buf, c.at = c.buf[:n], 0
	c.got.Add(int64(n))
	c.drained = n < connBuffer
	return err
}
