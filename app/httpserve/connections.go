package httpserve

import (
	"context"
	"crypto/tls"
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
	// reservedDescriptors is how many file descriptors a main listener leaves for everything else, more than supportConnections.
	reservedDescriptors = 128
	// minConnections is how many connections a main listener accepts even if fewer than reservedDescriptors remain.
	minConnections = 16
	// newGrace is how long a connection may be silent before it counts as idle; manyGrace is for addresses with many of them.
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
// connection counts as waiting since its last request began or ended, so that a probe always gets in. Call Track with the server
// before it serves, and wrap the listener with Listener.
type Connections struct {
	max     int
	always  bool // every connection may be closed to make room
	open    prometheus.Gauge
	evicted prometheus.Counter

	mu        sync.Mutex
	conns     map[net.Conn]*connection // as the server knows them
	addresses map[netip.Addr]int       // how many of conns each address has
}

// connection is the state of a connection.
type connection struct {
	address netip.Addr // of the peer; the zero value for a Unix socket
	busy    bool
	since   time.Time // time of the last change between busy and idle; the beginning of a new one
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

// NewConnections returns the limiter of one listener with the given name, which holds at most limit connections.
func NewConnections(name string, limit int, m *ConnectionMetrics) *Connections {
	m.limit.WithLabelValues(name).Set(float64(limit))
	return &Connections{
		max: limit, always: name != MainListener, open: m.open.WithLabelValues(name), evicted: m.evicted.WithLabelValues(name),
		conns: make(map[net.Conn]*connection), addresses: make(map[netip.Addr]int),
	}
}

// Listener wraps l with the limit.
func (c *Connections) Listener(l net.Listener) net.Listener {
	return &limitedListener{Listener: l, connections: c}
}

type limitedListener struct {
	net.Listener
	connections *Connections
	closed      atomic.Bool
}

// Accept waits until the limit allows a connection, then accepts one. The server reports it before it accepts the next one.
func (l *limitedListener) Accept() (net.Conn, error) {
	for l.connections.full(time.Now()) {
		if l.closed.Load() {
			return nil, net.ErrClosed
		}
		time.Sleep(manyGrace) // until one ends or has been idle for long enough
	}
	conn, err := l.Listener.Accept()
	if tcp, ok := conn.(interface{ SetWriteBuffer(bytes int) error }); ok {
		_ = tcp.SetWriteBuffer(sendBufferSize) // a closed connection fails later
	}
	return conn, err
}

// Close closes the listener, and ends a waiting Accept soon.
func (l *limitedListener) Close() error {
	l.closed.Store(true)
	return l.Listener.Close()
}

// full reports whether all connections are in use, after an attempt to close the oldest idle one of the address with most.
func (c *Connections) full(now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.conns) < c.max {
		return false
	}
	var victim net.Conn
	var worst *connection
	for conn, one := range c.conns {
		grace := newGrace
		if c.addresses[one.address] > max(1, c.max/shares) {
			grace = manyGrace
		}
		if one.busy && !c.always || now.Sub(one.since) < grace {
			continue
		}
		if worst != nil {
			mine, others := c.addresses[one.address], c.addresses[worst.address]
			if mine < others || mine == others && !one.since.Before(worst.since) {
				continue
			}
		}
		victim, worst = conn, one
	}
	if victim == nil {
		return true
	}
	c.evicted.Inc()
	c.remove(victim)
	if secure, ok := victim.(*tls.Conn); ok {
		victim = secure.NetConn() // does not wait to say goodbye
	}
	_ = victim.Close() // the server notices
	return false
}

// Track makes srv report its connections. A connection that has received only part of a request counts as idle.
func (c *Connections) Track(srv *http.Server) {
	srv.ConnState = c.changed
	srv.ConnContext = func(ctx context.Context, conn net.Conn) context.Context {
		return context.WithValue(ctx, markKey{}, func(busy bool) { c.mark(conn, busy) })
	}
}

func (c *Connections) changed(conn net.Conn, state http.ConnState) {
	switch state {
	case http.StateActive, http.StateIdle:
		c.mark(conn, state == http.StateActive)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if state != http.StateNew {
		c.remove(conn)
		return
	}
	one := &connection{since: time.Now()}
	if peer, err := netip.ParseAddrPort(conn.RemoteAddr().String()); err == nil {
		one.address = peer.Addr().Unmap()
	}
	c.conns[conn] = one
	c.addresses[one.address]++
	c.open.Set(float64(len(c.conns)))
}

// remove forgets a connection, unless it was evicted before. The caller holds mu.
func (c *Connections) remove(conn net.Conn) {
	one := c.conns[conn]
	if one == nil {
		return
	}
	delete(c.conns, conn)
	if c.addresses[one.address]--; c.addresses[one.address] == 0 {
		delete(c.addresses, one.address)
	}
	c.open.Set(float64(len(c.conns)))
}

func (c *Connections) mark(conn net.Conn, busy bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if one := c.conns[conn]; one != nil {
		one.busy, one.since = busy, time.Now()
	}
}

// markKey is the key of the function in the context of a request that marks its connection as busy or idle.
type markKey struct{}

// whileReading calls read. During the call, the connection of the request may be closed to make room for another one.
func whileReading(r *http.Request, read func()) {
	mark, ok := r.Context().Value(markKey{}).(func(busy bool))
	if !ok || r.ProtoMajor > 1 { // a connection of HTTP/2 may be sending answers to other requests
		read()
		return
	}
	mark(false)
	defer mark(true)
	read()
}
