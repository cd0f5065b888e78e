// Package faultproxy sits between two members of a run and injects faults into their connections: it refuses, resets, delays,
// drips, cuts, half-closes, corrupts, duplicates and swaps answers, and answers in place of the target.
//
// A [Proxy] speaks HTTP/1.1 on both sides and changes nothing while no fault is on. Several faults can be on at the same time;
// each [Fault] has its parameters. Random choices of faults follow from a seed.
package faultproxy

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"
)

// Config configures a Proxy.
type Config struct {
	// Address is HOST:PORT to listen on; with port 0 a port is chosen and kept.
	Address string
	// Target is the base URL of the server behind the proxy.
	Target string
	// Local is the address (without port) from which the proxy connects to the target; empty means any.
	Local string
	// Checked means that the client detects a corrupted body. If not, only bodies whose encoding has a checksum are corrupted: no
	// client could detect others.
	Checked bool
	Seed    uint64
	// OnBody is told how many bytes of an answer have been passed on so far; it may be nil. It delays the rest.
	OnBody func(r *http.Request, n int64)
}

// Proxy is the connection between two members. All methods are safe for concurrent use.
type Proxy struct {
	cfg       Config
	target    *url.URL
	transport *http.Transport
	address   string
	server    *http.Server

	mu       sync.Mutex // guards the fields below
	listener net.Listener
	conns    map[net.Conn]bool
	faults   map[int]*active
	next     int
	changed  chan struct{} // closed and replaced when the faults change
	rng      *rand.Rand
	waiting  *swap // a request that waits for another one to swap answers with
	struck   map[string]int
	closed   bool
	serving  sync.WaitGroup
}

type active struct {
	Fault
	until chan struct{} // closed when it ends
}

// New starts a proxy, which runs until Close.
func New(cfg Config) (*Proxy, error) {
	target, err := url.Parse(cfg.Target)
	if err != nil {
		return nil, fmt.Errorf("target of a proxy: %w", err)
	}
	dialer := &net.Dialer{Timeout: 5 * time.Second}
	if cfg.Local != "" {
		dialer.LocalAddr = &net.TCPAddr{IP: net.ParseIP(cfg.Local)}
	}
	p := &Proxy{
		cfg: cfg, target: target, conns: make(map[net.Conn]bool), faults: make(map[int]*active), changed: make(chan struct{}),
		rng: rand.New(rand.NewPCG(cfg.Seed, 0)), struck: make(map[string]int), address: cfg.Address,
		transport: &http.Transport{
			DialContext: dialer.DialContext, DisableCompression: true, MaxIdleConnsPerHost: 4, IdleConnTimeout: 5 * time.Second,
		},
	}
	p.server = &http.Server{
		Handler: p, ReadHeaderTimeout: time.Minute,
		ConnState: p.count,
	}
	if err := p.listen(); err != nil {
		return nil, err
	}
	return p, nil
}

// URL returns the base URL to use instead of the target's.
func (p *Proxy) URL() string { return "http://" + p.address }

// Address returns HOST:PORT of URL.
func (p *Proxy) Address() string { return p.address }

// Struck returns how often each fault has struck so far, by name.
func (p *Proxy) Struck() map[string]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := make(map[string]int, len(p.struck))
	for k, v := range p.struck {
		out[k] = v
	}
	return out
}

// Close ends the proxy and all its connections.
func (p *Proxy) Close() {
	p.mu.Lock()
	p.closed = true
	for id, a := range p.faults {
		close(a.until)
		delete(p.faults, id)
	}
	p.announce()
	p.mu.Unlock()
	_ = p.server.Close()
	p.serving.Wait()
	p.transport.CloseIdleConnections()
}

// Inject turns a fault on, until the returned function is called.
func (p *Proxy) Inject(f Fault) (end func(), err error) {
	if err := f.check(); err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	id := p.next
	p.next++
	a := &active{f, make(chan struct{})}
	p.faults[id] = a
	p.announce()
	switch f.Name {
	case Refuse:
		p.deafen()
	case Reset:
		p.drop()
	}
	var once sync.Once
	return func() { once.Do(func() { p.heal(id) }) }, nil
}

func (p *Proxy) heal(id int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	a := p.faults[id]
	if a == nil {
		return // closed meanwhile
	}
	delete(p.faults, id)
	close(a.until)
	p.announce()
	if a.Name == Refuse && !p.on(Refuse) && !p.closed {
		// The address belongs to this proxy, so it can be bound again as soon as the kernel has released it.
		for begin := time.Now(); ; {
			err := p.listenLocked()
			if err == nil {
				return
			}
			if time.Since(begin) > 30*time.Second {
				panic(fmt.Sprintf("listen on %s again: %v", p.address, err))
			}
			time.Sleep(5 * time.Millisecond)
		}
	}
}

// announce wakes goroutines that wait for a change of the faults; mu is held.
func (p *Proxy) announce() {
	close(p.changed)
	p.changed = make(chan struct{})
}

// on reports whether a fault with the name is on; mu is held.
func (p *Proxy) on(name string) bool {
	for _, a := range p.faults {
		if a.Name == name {
			return true
		}
	}
	return false
}

func (p *Proxy) listen() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.listenLocked()
}

func (p *Proxy) listenLocked() error {
	l, err := net.Listen("tcp", p.address)
	if err != nil {
		return fmt.Errorf("proxy: %w", err)
	}
	p.address, p.listener = l.Addr().String(), l
	p.serving.Go(func() {
		if err := p.server.Serve(l); !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, net.ErrClosed) {
			panic(fmt.Sprintf("proxy on %s: %v", p.address, err)) // nothing else ends it
		}
	})
	return nil
}

// deafen closes the listener, so that connections are refused, and drops existing ones; mu is held.
func (p *Proxy) deafen() {
	p.struck[Refuse]++
	if p.listener != nil {
		_ = p.listener.Close()
		p.listener = nil
	}
	p.drop()
}

// drop resets all connections; mu is held.
func (p *Proxy) drop() {
	for c := range p.conns {
		abort(c)
	}
}

// abort closes a connection with RST instead of FIN.
func abort(c net.Conn) {
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = c.Close()
}

// count tracks the open connections.
func (p *Proxy) count(c net.Conn, s http.ConnState) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch s {
	case http.StateNew:
		p.conns[c] = true
		if p.on(Reset) {
			p.struck[Reset]++
			abort(c)
		}
	case http.StateClosed:
		delete(p.conns, c)
	case http.StateHijacked: // drop must still close it; forget is called at its end
	}
}

func (p *Proxy) forget(c net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, c)
}

// plan returns the faults for this request: the first active fault of each name.
func (p *Proxy) plan(r *http.Request) map[string]*active {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out map[string]*active
	for _, a := range p.faults {
		if !a.concerns(r) || a.Share < 1 && a.Share > 0 && p.rng.Float64() >= a.Share {
			continue
		}
		if out == nil {
			out = make(map[string]*active)
		}
		out[a.Name] = a
	}
	return out
}

func (p *Proxy) strike(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.struck[name]++
}

// intn returns a random number from the seed.
func (p *Proxy) intn(n int) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.rng.IntN(max(1, n))
}

// wait waits; it returns false if the client is gone.
func wait(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// ask passes the request on.
func (p *Proxy) ask(r *http.Request) (*http.Response, error) {
	out := r.Clone(r.Context())
	out.URL.Scheme, out.URL.Host, out.RequestURI = p.target.Scheme, p.target.Host, ""
	if r.ContentLength == 0 {
		out.Body = nil
	}
	return p.transport.RoundTrip(out)
}
