package delivery

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"sync/atomic"
	"time"
)

// lingerTime bounds the wait for a peer that asked for the connection to be closed. Skipper gives up after 3 s.
const lingerTime = 5 * time.Second

// maxCloseWait bounds the wait for the close of a peer that has announced it over TLS. Most peers close at once, but one on a
// busy machine may be interrupted in between. A peer that waits for our announcement first waits for this long.
const maxCloseWait = 2 * time.Second

// sendBufferSize is the kernel's buffer for what is sent on one connection. Left alone, Linux lets it grow to 4 MiB, which
// counts against the memory limit of the pod: some hundred readers that stall would fill that.
const sendBufferSize = 256 << 10

// WrapListener returns a listener whose connections notice when they end before a body has arrived, and whose kernel buffers are
// bounded. It belongs below TLS: wrap the TCP listener, then call Serve or ServeTLS. It has an effect only together with [Track].
func WrapListener(l net.Listener) net.Listener {
	return &trackedListener{l}
}

type trackedListener struct{ net.Listener }

func (l *trackedListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	if tcp, ok := conn.(interface{ SetWriteBuffer(bytes int) error }); ok {
		_ = tcp.SetWriteBuffer(sendBufferSize) // it works without, and a closed connection will tell by itself
	}
	return &trackedConn{Conn: conn}, nil
}

type connKey struct{}

// Track lets [Ledger.Begin] find the connection of a request, and connections learn of requests, whichever handler answers them.
// Call it before srv serves. Hooks that srv has already are kept.
func Track(srv *http.Server) {
	connContext, connState := srv.ConnContext, srv.ConnState
	srv.ConnContext = func(ctx context.Context, conn net.Conn) context.Context {
		if connContext != nil {
			ctx = connContext(ctx, conn)
		}
		if t := trackedConnOf(conn); t != nil {
			ctx = context.WithValue(ctx, connKey{}, t)
		}
		return ctx
	}
	srv.ConnState = func(conn net.Conn, state http.ConnState) {
		if connState != nil {
			connState(conn, state)
		}
		if state == http.StateActive { // a request has come
			if t := trackedConnOf(conn); t != nil {
				t.asked()
			}
		}
	}
}

// trackedConnOf returns the tracked connection below conn; nil if there is none.
func trackedConnOf(conn net.Conn) *trackedConn {
	for {
		switch inner := conn.(type) {
		case *trackedConn:
			return inner
		case interface{ NetConn() net.Conn }: // *tls.Conn
			conn = inner.NetConn()
		default:
			return nil
		}
	}
}

// trackedOf returns the connection of a request, nil if it is not tracked. Over HTTP/2 it never is: there, the end of a
// connection says nothing about one of its streams.
func trackedOf(r *http.Request) *trackedConn {
	if r.ProtoMajor != 1 {
		return nil
	}
	conn, _ := r.Context().Value(connKey{}).(*trackedConn)
	return conn
}

// trackedConn is a connection of HTTP/1 that knows the last body sent on it. When it ends, by whichever side was
// first, that body is concluded: what the kernel knows of the connection tells whether the peer has acknowledged every
// byte.
type trackedConn struct {
	net.Conn
	last      atomic.Pointer[Body] // the last one; nil if the peer has asked again since
	failed    atomic.Bool          // reading has failed: the peer has broken the connection off
	heard     atomic.Bool          // something came since the last request, if only the announcement of a close
	lingering atomic.Bool          // we have closed our direction
}

// Read notes whether the peer has broken off. That the peer has closed its side in good order, that time is up or
// that we have closed the connection says nothing about the last body.
func (t *trackedConn) Read(p []byte) (int, error) {
	n, err := t.Conn.Read(p)
	if n > 0 {
		t.heard.Store(true)
	}
	if err != nil && !inGoodOrder(err) {
		t.failed.Store(true)
	}
	return n, err
}

func inGoodOrder(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, net.ErrClosed)
}

// Write concludes the last body first if there is one. A body becomes the last one after all of it was written, and is that until
// the next request: what is written in between is what TLS says before it closes, on which the peer may reset the connection.
// After that nothing can be known any more.
func (t *trackedConn) Write(p []byte) (int, error) {
	if b := t.last.Load(); b != nil && b.tls {
		t.concludeBeforeAlert(b)
	}
	return t.Conn.Write(p)
}

func (t *trackedConn) concludeBeforeAlert(b *Body) {
	if !b.closing && t.heard.Load() {
		t.awaitClose()
	}
	arrived := !t.lost() && (b.closing || unacknowledged(t.Conn) == 0)
	if t.last.CompareAndSwap(b, nil) {
		b.conclude(arrived)
	}
}

// awaitClose waits for the close of a peer that has announced it. How the peer closes tells what it has read: one that leaves
// data unread resets the connection.
func (t *trackedConn) awaitClose() {
	wait := time.Millisecond
	for end := time.Now().Add(maxCloseWait); time.Now().Before(end) && !t.failed.Load() && stateOf(t.Conn) == connOpen; {
		time.Sleep(wait) // the kernel has no event for us: a read would take the place of that of net/http
		wait = min(2*wait, 16*time.Millisecond)
	}
}

// Close concludes the last body and closes the connection. If the connection was to end with that body, most of which may
// not have left this machine, Close waits for the peer, but not long. net/http calls it from the goroutine of
// the connection; a second call, from Server.Close, ends the wait.
func (t *trackedConn) Close() error {
	if b := t.last.Swap(nil); b != nil {
		arrived := false
		if b.closing {
			arrived = t.linger()
		} else {
			arrived = !t.lost() && unacknowledged(t.Conn) == 0
		}
		b.conclude(arrived)
	}
	return t.Conn.Close()
}

// linger closes our direction, waits until the peer closes its own, and reports whether all that was written has
// reached it.
func (t *trackedConn) linger() bool {
	half, ok := t.Conn.(interface{ CloseWrite() error })
	if !ok || t.failed.Load() {
		return !t.failed.Load()
	}
	t.lingering.Store(true)
	if half.CloseWrite() != nil || t.SetReadDeadline(time.Now().Add(lingerTime)) != nil {
		return false
	}
	buf := make([]byte, 512)
	for {
		if _, err := t.Conn.Read(buf); err != nil {
			// The end of our direction counts as one byte.
			return inGoodOrder(err) && unacknowledged(t.Conn) <= 1
		}
	}
}

// lost reports whether the peer has left before all that was written has reached it.
func (t *trackedConn) lost() bool {
	state := stateOf(t.Conn)
	switch {
	case t.failed.Load():
		return true
	case t.lingering.Load(): // after the state was asked for: a wait that began since does not disturb it
		return false // linger finds out
	case state == connPeerClosed:
		return unacknowledged(t.Conn) > 0
	default:
		return state == connBroken
	}
}

// open reports whether neither side is known to have ended the connection.
func (t *trackedConn) open() bool { return !t.failed.Load() && stateOf(t.Conn) == connOpen }

// underway reports whether something that was written has not reached the peer, whose connection is open.
func (t *trackedConn) underway() bool { return t.open() && unacknowledged(t.Conn) > 0 }

// left reports whether the peer has closed its side in good order, having received all that was written so far.
func (t *trackedConn) left() bool {
	return !t.failed.Load() && !t.lingering.Load() && stateOf(t.Conn) == connPeerClosed && unacknowledged(t.Conn) == 0
}

// concluding reports whether linger is about to know: the peer has left.
func (t *trackedConn) concluding() bool {
	return t.lingering.Load() && stateOf(t.Conn) == connBroken
}

// asked says that the peer has sent another request, which it does when it has read the answer before.
func (t *trackedConn) asked() {
	t.heard.Store(false)
	if b := t.last.Swap(nil); b != nil {
		b.conclude(true)
	}
}

// sent makes b the last body. The one before, if it is still there, was followed by this one on the same connection.
func (t *trackedConn) sent(b *Body) {
	if before := t.last.Swap(b); before != nil {
		before.conclude(true)
	}
}

// connState is what the kernel says of a connection that is not closed on this side.
type connState uint8

const (
	connOpen       connState = iota // or nothing is known
	connPeerClosed                  // the peer has closed its direction in good order, which acknowledges all it has received
	connBroken                      // reset or timed out; or ended by both sides
)
