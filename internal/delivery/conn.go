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

// maxCloseWait limits the wait for a peer that has announced over TLS that it closes. Most peers close at once, but on a busy
// machine a peer may be interrupted in between. A peer that waits for our announcement first waits for this long.
const maxCloseWait = 2 * time.Second

// sendBufferSize is the size of the kernel's send buffer of one connection. By default Linux lets it grow to 4 MiB, which counts
// against the memory limit of the pod: a few hundred stalled readers would exhaust it.
const sendBufferSize = 256 << 10

// WrapListener returns a listener whose connections detect that they end before a body has arrived, and have bounded kernel
// buffers. Apply it below TLS: wrap the TCP listener, then call Serve or ServeTLS. It has an effect only together with [Track].
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
		_ = tcp.SetWriteBuffer(sendBufferSize) // errors do not matter: a closed connection fails later anyway
	}
	return &trackedConn{Conn: conn}, nil
}

type connKey struct{}

// Track makes connections visible to [Ledger.Begin], and reports requests to them, whichever handler answers. Call it before srv
// serves. It keeps existing hooks of srv.
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
		if state == http.StateActive { // a new request
			if t := trackedConnOf(conn); t != nil {
				t.asked()
			}
		}
	}
}

// trackedConnOf returns the tracked connection wrapped by conn, or nil.
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

// trackedOf returns the tracked connection of a request, or nil. Requests over HTTP/2 have none: the end of a connection says
// nothing about one of its streams.
func trackedOf(r *http.Request) *trackedConn {
	if r.ProtoMajor != 1 {
		return nil
	}
	conn, _ := r.Context().Value(connKey{}).(*trackedConn)
	return conn
}

// trackedConn is an HTTP/1 connection that knows the last body sent on it. When either side ends it, it concludes that body: the
// state in the kernel tells whether the peer has acknowledged every byte.
type trackedConn struct {
	net.Conn
	last      atomic.Pointer[Body] // the last body; nil if the peer has sent another request since
	failed    atomic.Bool          // reading has failed: the peer has broken the connection
	heard     atomic.Bool          // data arrived since the last request, if only the announcement of a close
	lingering atomic.Bool          // we have closed our direction
}

// Read notes whether the peer has broken the connection. A clean close by the peer, a timeout, or our own close say nothing about
// the last body.
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

// Write first concludes the last body, if any. A body becomes the last one once all of it is written, until the next request.
// Anything written in between is what TLS sends before it closes; the peer may answer with a reset, after which the state is
// unknown.
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

// awaitClose waits for the close of a peer that has announced it. A peer that leaves data unread resets the connection, so the
// close shows what it has read.
func (t *trackedConn) awaitClose() {
	wait := time.Millisecond
	for end := time.Now().Add(maxCloseWait); time.Now().Before(end) && !t.failed.Load() && stateOf(t.Conn) == connOpen; {
		time.Sleep(wait) // the kernel offers no event: a read would compete with net/http's
		wait = min(2*wait, 16*time.Millisecond)
	}
}

// Close concludes the last body and closes the connection. If the connection was to end with that body, most of it may not have
// left this machine, so Close waits for the peer for a limited time. net/http calls it from the goroutine of the connection; a
// second call, from Server.Close, ends the wait.
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

// linger closes our direction, waits until the peer closes its direction, and reports whether all written data has reached the
// peer.
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

// lost reports whether the peer left before all written data reached it.
func (t *trackedConn) lost() bool {
	state := stateOf(t.Conn)
	switch {
	case t.failed.Load():
		return true
	case t.lingering.Load(): // after the state was read: a wait that began since then does not affect it
		return false // linger will find out
	case state == connPeerClosed:
		return unacknowledged(t.Conn) > 0
	default:
		return state == connBroken
	}
}

// open reports whether neither side is known to have ended the connection.
func (t *trackedConn) open() bool { return !t.failed.Load() && stateOf(t.Conn) == connOpen }

// underway reports whether the connection is open and the peer has not yet acknowledged all written data.
func (t *trackedConn) underway() bool { return t.open() && unacknowledged(t.Conn) > 0 }

// left reports whether the peer has closed its side cleanly after receiving everything written so far.
func (t *trackedConn) left() bool {
	return !t.failed.Load() && !t.lingering.Load() && stateOf(t.Conn) == connPeerClosed && unacknowledged(t.Conn) == 0
}

// concluding reports whether linger is about to return because the peer has left.
func (t *trackedConn) concluding() bool {
	return t.lingering.Load() && stateOf(t.Conn) == connBroken
}

// asked reports that the peer has sent another request, so it has read the previous answer.
func (t *trackedConn) asked() {
	t.heard.Store(false)
	if b := t.last.Swap(nil); b != nil {
		b.conclude(true)
	}
}

// sent makes b the last body. A previous last body was followed by this one on the same connection.
func (t *trackedConn) sent(b *Body) {
	if before := t.last.Swap(b); before != nil {
		before.conclude(true)
	}
}

// connState is the kernel's state of a connection that is open on this side.
type connState uint8

const (
	connOpen       connState = iota // or unknown
	connPeerClosed                  // the peer has cleanly closed its direction, which acknowledges everything it has received
	connBroken                      // reset or timed out; or ended by both sides
)
