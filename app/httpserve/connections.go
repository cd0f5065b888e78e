package httpserve

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/routesrv/routesrv/internal/series"
)

// Limits of connections.
const (
	// supportConnections is the limit of a support listener: probes, scrapers, a few people.
	supportConnections = 64
	// reservedDescriptors is how many file descriptors a main listener leaves for the support listener, the clients of the
	// source, and table files. It is more than supportConnections.
	reservedDescriptors = 128
	// minConnections is how many connections a main listener accepts even if fewer than reservedDescriptors remain.
	minConnections = 16
	// newGrace is how long a connection may be silent before it counts as idle. manyGrace replaces newGrace for an address with more
	// than its share.
	newGrace  = time.Second
	manyGrace = 50 * time.Millisecond
	// sendBufferSize is the size of the kernel's send buffer of one connection. By default Linux lets it grow to 4 MiB, which
	// counts against the memory limit of the pod: a few hundred stalled readers would exhaust it.
	sendBufferSize = 256 << 10
	// shares divides the connections of a full listener: an address with more than 1/shares of them loses its connections first.
	shares = 64
)

// MainConnections returns how many connections a main listener may hold: want, reduced to what the limit of open files allows. A
// process without free descriptors cannot answer probes and is killed for it.
func MainConnections(want int) int {
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err != nil {
		return want
	}
	free := minConnections
	if files.Cur > reservedDescriptors+minConnections {
		free = int(min(files.Cur, 1<<30)) - reservedDescriptors
	}
	return min(want, free)
}

// Connections limits the connections of a listener. When the limit is reached, it closes a connection of the address that has the
// most: the one that has waited longest. On a main listener only connections without a complete request count as waiting, and
// without any of these, new connections wait in the kernel until one ends: answers are never cut. On a support listener every
// connection counts as waiting since its last request began or ended, so that a probe always gets in, whatever others do with
// their connections.
//
// Create it with [NewConnections], call Track with the server before it serves, and wrap the listener with Listener.
type Connections struct {
	max     int
	always  bool // every connection may be closed to make room
	open    prometheus.Gauge
	evicted prometheus.Counter

	mu        sync.Mutex
	conns     map[*countedConn]struct{}
	addresses map[netip.Addr]int // how many of conns each address has
}

// ConnectionMetrics holds the series of all listeners of a process.
type ConnectionMetrics struct {
	open, limit *prometheus.GaugeVec
	evicted     *prometheus.CounterVec
}

// NewConnectionMetrics creates the series and registers them.
func NewConnectionMetrics(reg prometheus.Registerer) *ConnectionMetrics {
	made := series.In(reg)
	return &ConnectionMetrics{
		open:  made.Gauges("routesrv_connections", "Open connections: main, support or control.", "listener"),
		limit: made.Gauges("routesrv_connections_limit", "Maximum number of connections of a listener.", "listener"),
		evicted: made.Counters("routesrv_connections_evicted_total",
			"Connections that a full listener closed to make room: idle ones, and on support listeners any.", "listener"),
	}
}

// NewConnections returns the limiter of one listener, which holds at most limit connections. The name is [MainListener],
// [SupportListener] or [ControlListener].
func NewConnections(name string, limit int, m *ConnectionMetrics) *Connections {
	m.limit.WithLabelValues(name).Set(float64(limit))
	return &Connections{
		max: limit, always: name != MainListener, open: m.open.WithLabelValues(name), evicted: m.evicted.WithLabelValues(name),
		conns: make(map[*countedConn]struct{}), addresses: make(map[netip.Addr]int),
	}
}

// countedConn is a connection that counts against the limit.
type countedConn struct {
	net.Conn
	owner   *Connections
	address netip.Addr // of the peer; the zero value for a Unix socket
	once    sync.Once

	// guarded by owner.mu
	busy  bool
	since time.Time // time of the last change between busy and idle; the beginning of a new one
}

// Close implements [net.Conn].
func (c *countedConn) Close() error {
	err := c.Conn.Close()
	c.once.Do(func() { c.owner.remove(c) })
	return err
}

// Listener wraps l with the limit. Apply it after all other wrappers of connections, but before TLS.
func (c *Connections) Listener(l net.Listener) net.Listener {
	return &countingListener{Listener: l, connections: c}
}

type countingListener struct {
	net.Listener
	connections *Connections
	closed      atomic.Bool
}

// Accept waits until the limit allows a connection, then accepts one.
func (l *countingListener) Accept() (net.Conn, error) {
	if !l.connections.wait(l) {
		return nil, net.ErrClosed
	}
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	if tcp, ok := conn.(interface{ SetWriteBuffer(bytes int) error }); ok {
		_ = tcp.SetWriteBuffer(sendBufferSize) // a closed connection fails later
	}
	return l.connections.add(conn), nil
}

// Close closes the listener, and ends a waiting Accept soon.
func (l *countingListener) Close() error {
	l.closed.Store(true)
	return l.Listener.Close()
}

// wait returns true once one more connection is allowed, if necessary after closing another one. It returns false if l was
// closed.
func (c *Connections) wait(l *countingListener) bool {
	for {
		full, victim := c.victim(time.Now())
		switch {
		case l.closed.Load():
			return false
		case !full:
			return true
		case victim != nil:
			c.evicted.Inc()
			_ = victim.Close() // Close removes it from the list
		default:
			time.Sleep(manyGrace) // until one ends or has been idle for long enough
		}
	}
}

// victim reports whether the listener is full, and if so, returns the connection to close: among the connections that may be
// closed, the oldest of the address with most connections; nil if none may be closed yet.
func (c *Connections) victim(now time.Time) (full bool, victim *countedConn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.conns) < c.max {
		return false, nil
	}
	for conn := range c.conns {
		if conn.busy && !c.always || now.Sub(conn.since) < c.grace(conn) {
			continue
		}
		if victim == nil {
			victim = conn
			continue
		}
		mine, others := c.addresses[conn.address], c.addresses[victim.address]
		if mine > others || mine == others && conn.since.Before(victim.since) {
			victim = conn
		}
	}
	return true, victim
}

// grace returns how long a new connection is exempt from eviction. Addresses with many connections get less, so that they do not
// block others.
func (c *Connections) grace(conn *countedConn) time.Duration {
	if c.addresses[conn.address] > max(1, c.max/shares) {
		return manyGrace
	}
	return newGrace
}

func (c *Connections) add(conn net.Conn) net.Conn {
	c.mu.Lock()
	defer c.mu.Unlock()
	counted := &countedConn{Conn: conn, owner: c, since: time.Now()}
	if peer, err := netip.ParseAddrPort(conn.RemoteAddr().String()); err == nil {
		counted.address = peer.Addr().Unmap()
	}
	c.conns[counted] = struct{}{}
	c.addresses[counted.address]++
	c.open.Set(float64(len(c.conns)))
	return counted
}

func (c *Connections) remove(conn *countedConn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.conns, conn)
	if c.addresses[conn.address]--; c.addresses[conn.address] == 0 {
		delete(c.addresses, conn.address)
	}
	c.open.Set(float64(len(c.conns)))
}

// Track makes the connections of srv report whether they are idle. A connection that has received only part of a request counts
// as idle.
func (c *Connections) Track(srv *http.Server) {
	srv.ConnState = func(conn net.Conn, state http.ConnState) {
		if counted := countedOf(conn); counted != nil && (state == http.StateActive || state == http.StateIdle) {
			c.mark(counted, state == http.StateActive)
		}
	}
	srv.ConnContext = func(ctx context.Context, conn net.Conn) context.Context {
		return context.WithValue(ctx, connKey{}, countedOf(conn))
	}
}

// connKey is the key of the *countedConn in the context of a request.
type connKey struct{}

// countedOf returns the connection below the wrappers of TLS and others, or nil.
func countedOf(conn net.Conn) *countedConn {
	for {
		switch inner := conn.(type) {
		case *countedConn:
			return inner
		case interface{ NetConn() net.Conn }: // *tls.Conn
			conn = inner.NetConn()
		default:
			return nil
		}
	}
}

// mark records that a connection became busy or idle now.
func (c *Connections) mark(conn *countedConn, busy bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	conn.busy, conn.since = busy, time.Now()
}

// whileReading calls read. During the call, the connection of the request may be closed to make room for another one.
func whileReading(r *http.Request, read func()) {
	conn, _ := r.Context().Value(connKey{}).(*countedConn)
	if conn == nil || r.ProtoMajor > 1 { // a connection of HTTP/2 may be sending answers to other requests
		read()
		return
	}
	conn.owner.mark(conn, false)
	defer conn.owner.mark(conn, true)
	read()
}
