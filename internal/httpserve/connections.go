package httpserve

import (
	"net"
	"net/http"
	"sync"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Limits of connections.
const (
	// supportConnections is the limit of a support listener: probes, scrapers, a few people.
	supportConnections = 64
	// reservedDescriptors is how many file descriptors a main listener leaves for the support listener, the clients of the
	// source, and table files. It is more than supportConnections.
	reservedDescriptors = 128
	// minConnections is what a main listener accepts even if fewer than reservedDescriptors remain.
	minConnections = 16
	// newGrace is how long a connection may be silent before it counts as idle.
	newGrace = time.Second
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

// Connections limits the connections of a listener. When the limit is reached, it closes the connection that has been idle for
// longest. If none is idle, new connections wait in the kernel until one ends: active connections are never cut. Create it with
// [NewConnections], call Track with the server before it serves, and wrap the listener with Listener.
type Connections struct {
	max     int
	open    prometheus.Gauge
	evicted prometheus.Counter

	mu    sync.Mutex
	conns map[*countedConn]struct{}
	room  *sync.Cond // on mu: signalled when a connection ends or becomes idle, or the listener is closed
}

// ConnectionMetrics holds the series of all listeners of a process.
type ConnectionMetrics struct {
	open, limit *prometheus.GaugeVec
	evicted     *prometheus.CounterVec
}

// NewConnectionMetrics creates the series and registers them.
func NewConnectionMetrics(reg prometheus.Registerer) *ConnectionMetrics {
	labels := []string{"listener"}
	m := &ConnectionMetrics{
		open: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "routesrv_connections", Help: "Open connections by listener: main, support."}, labels),
		limit: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "routesrv_connections_limit", Help: "Maximum number of connections of a listener."}, labels),
		evicted: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "routesrv_connections_evicted_total",
			Help: "Idle connections that a full listener closed to make room for another client."}, labels),
	}
	reg.MustRegister(m.open, m.limit, m.evicted)
	return m
}

// NewConnections returns the limiter of one listener, which holds at most limit connections.
func NewConnections(name string, limit int, m *ConnectionMetrics) *Connections {
	m.limit.WithLabelValues(name).Set(float64(limit))
	c := &Connections{
		max: limit, open: m.open.WithLabelValues(name), evicted: m.evicted.WithLabelValues(name),
		conns: make(map[*countedConn]struct{}),
	}
	c.room = sync.NewCond(&c.mu)
	return c
}

// countedConn is a connection that counts against the limit.
type countedConn struct {
	net.Conn
	owner *Connections
	once  sync.Once

	// guarded by owner.mu
	busy  bool
	since time.Time // time of the last change between busy and idle
}

// Close implements [net.Conn].
func (c *countedConn) Close() error {
	err := c.Conn.Close()
	c.once.Do(func() { c.owner.remove(c) })
	return err
}

// NetConn returns the wrapped connection.
func (c *countedConn) NetConn() net.Conn { return c.Conn }

// Listener wraps l with the limit. Apply it after all other wrappers of connections, but before TLS.
func (c *Connections) Listener(l net.Listener) net.Listener {
	return &countingListener{Listener: l, connections: c}
}

type countingListener struct {
	net.Listener
	connections *Connections
	closed      bool // guarded by connections.mu
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
	return l.connections.add(conn), nil
}

// Close closes the listener and wakes a waiting Accept.
func (l *countingListener) Close() error {
	l.connections.mu.Lock()
	l.closed = true
	l.connections.room.Broadcast()
	l.connections.mu.Unlock()
	return l.Listener.Close()
}

// wait returns true once one more connection is allowed, if necessary after closing an idle one. It returns false if l was
// closed.
func (c *Connections) wait(l *countingListener) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for !l.closed && len(c.conns) >= c.max {
		victim, later := c.idle(time.Now())
		switch {
		case victim != nil:
			c.evicted.Inc()
			c.mu.Unlock()
			_ = victim.Close() // Close removes it from the list
			c.mu.Lock()
		case later > 0:
			timer := time.AfterFunc(later, c.room.Broadcast)
			c.room.Wait()
			timer.Stop()
		default:
			c.room.Wait()
		}
	}
	return !l.closed
}

// idle returns the connection that has been idle for longest. If none is idle yet, it returns the time until one may be, or 0 if
// only an event can change that. The caller holds mu.
func (c *Connections) idle(now time.Time) (victim *countedConn, later time.Duration) {
	for conn := range c.conns {
		if !conn.busy && (victim == nil || conn.since.Before(victim.since)) {
			victim = conn
		}
	}
	if victim == nil {
		return nil, 0
	}
	if later = victim.since.Sub(now); later > 0 {
		return nil, later
	}
	return victim, 0
}

func (c *Connections) add(conn net.Conn) net.Conn {
	c.mu.Lock()
	defer c.mu.Unlock()
	counted := &countedConn{Conn: conn, owner: c, since: time.Now().Add(newGrace)}
	c.conns[counted] = struct{}{}
	c.open.Set(float64(len(c.conns)))
	return counted
}

func (c *Connections) remove(conn *countedConn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.conns, conn)
	c.open.Set(float64(len(c.conns)))
	c.room.Broadcast()
}

// Track makes the connections of srv report whether they are idle. A connection that has received only part of a request counts
// as idle. Track keeps existing hooks of srv.
func (c *Connections) Track(srv *http.Server) {
	before := srv.ConnState
	srv.ConnState = func(conn net.Conn, state http.ConnState) {
		if before != nil {
			before(conn, state)
		}
		if state != http.StateActive && state != http.StateIdle {
			return
		}
		for {
			switch inner := conn.(type) {
			case *countedConn:
				c.mu.Lock()
				defer c.mu.Unlock()
				inner.busy, inner.since = state == http.StateActive, time.Now()
				if !inner.busy && len(c.conns) >= c.max {
					c.room.Broadcast()
				}
				return
			case interface{ NetConn() net.Conn }: // *tls.Conn
				conn = inner.NetConn()
			default:
				return
			}
		}
	}
}
