// Package loopback lets HTTP clients call handlers without sockets: clients receive bodies while the handler writes them, so
// streams work. All waiting uses channels, so it works in a bubble of testing/synctest. It is for tests.
package loopback

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
)

// ErrCut is the error of a request, or of reading a body, after the handler panicked to cut the connection
// (http.ErrAbortHandler).
var ErrCut = errors.New("connection cut")

// Network is an http.RoundTripper that calls handlers by the host of the URL. Unknown hosts refuse connections. Each handler runs
// in its own goroutine; its request is cancelled when the body is closed or the client's context ends.
type Network struct {
	mu    sync.Mutex
	hosts map[string]http.Handler
	open  map[*exchange]string // to the host
	calls sync.WaitGroup
}

// Set assigns a handler to a host; nil removes the host, but ends no running exchange.
func (n *Network) Set(host string, h http.Handler) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.hosts == nil {
		n.hosts = make(map[string]http.Handler)
	}
	n.hosts[host] = h
}

// Cut cuts the running exchanges with a host.
func (n *Network) Cut(host string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for x, to := range n.open {
		if to == host {
			x.end(ErrCut)
			x.cancel()
		}
	}
}

// Wait waits until all handlers have returned.
func (n *Network) Wait() { n.calls.Wait() }

// RoundTrip implements [http.RoundTripper].
func (n *Network) RoundTrip(r *http.Request) (*http.Response, error) {
	n.mu.Lock()
	h := n.hosts[r.URL.Host]
	n.mu.Unlock()
	if h == nil {
		return nil, errors.New("connection refused")
	}
	ctx, cancel := context.WithCancel(r.Context())
	x := &exchange{ctx: ctx, cancel: cancel, header: make(http.Header), answered: make(chan struct{}), arrived: make(chan struct{}, 1)}
	in := r.Clone(ctx)
	in.RequestURI, in.RemoteAddr = r.URL.RequestURI(), "10.0.0.7:40000"
	n.mu.Lock()
	if n.open == nil {
		n.open = make(map[*exchange]string)
	}
	n.open[x] = r.URL.Host
	n.mu.Unlock()
	n.calls.Go(func() {
		x.serve(h, in)
		n.mu.Lock()
		defer n.mu.Unlock()
		delete(n.open, x)
	})
	select {
	case <-x.answered:
	case <-ctx.Done():
		cancel()
		return nil, cmp.Or(context.Cause(r.Context()), ErrCut)
	}
	if !x.hasStatus() {
		cancel()
		return nil, ErrCut
	}
	resp := &http.Response{
		Status: http.StatusText(x.status), StatusCode: x.status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: x.sent, ContentLength: -1, Request: r, Body: &body{x, cancel},
	}
	if r.Method == http.MethodHead || x.status == http.StatusNotModified {
		resp.ContentLength, resp.Body = 0, http.NoBody
		cancel()
	}
	return resp, nil
}

// exchange writes a response.
type exchange struct {
	ctx      context.Context
	cancel   context.CancelFunc
	header   http.Header
	answered chan struct{} // closed when there is a status, or none will come
	arrived  chan struct{} // of capacity 1: there is something to read

	mu     sync.Mutex // guards the fields below
	status int
	sent   http.Header
	buf    bytes.Buffer
	err    error // why the body ended: io.EOF or ErrCut
}

func (x *exchange) serve(h http.Handler, r *http.Request) {
	err := error(ErrCut)
	defer func() {
		if v := recover(); v != nil && v != http.ErrAbortHandler {
			panic(v)
		}
		if err == io.EOF {
			x.WriteHeader(http.StatusOK)
		}
		x.end(err)
	}()
	h.ServeHTTP(x, r)
	err = io.EOF
}

// end ends the response, unless it has already ended.
func (x *exchange) end(err error) {
	x.mu.Lock()
	if x.err == nil {
		if x.err = err; x.status == 0 {
			close(x.answered)
		}
	}
	x.mu.Unlock()
	x.wake()
}

func (x *exchange) hasStatus() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.status != 0
}

// Header implements [http.ResponseWriter].
func (x *exchange) Header() http.Header { return x.header }

// WriteHeader implements [http.ResponseWriter].
func (x *exchange) WriteHeader(status int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.status == 0 && x.err == nil {
		x.status, x.sent = status, x.header.Clone()
		close(x.answered)
	}
}

// Write implements [http.ResponseWriter]. It fails when the client is gone.
func (x *exchange) Write(p []byte) (int, error) {
	x.WriteHeader(http.StatusOK)
	if err := x.ctx.Err(); err != nil {
		return 0, err
	}
	x.mu.Lock()
	x.buf.Write(p)
	x.mu.Unlock()
	x.wake()
	return len(p), nil
}

// FlushError is called by http.ResponseController.
func (x *exchange) FlushError() error {
	x.WriteHeader(http.StatusOK)
	return x.ctx.Err()
}

func (x *exchange) wake() {
	select {
	case x.arrived <- struct{}{}:
	default:
	}
}

// body is the body that a client reads.
type body struct {
	x      *exchange
	cancel context.CancelFunc
}

func (b *body) Read(p []byte) (int, error) {
	for {
		b.x.mu.Lock()
		n, _ := b.x.buf.Read(p)
		err := b.x.err
		b.x.mu.Unlock()
		if n > 0 {
			return n, nil
		}
		if err != nil {
			return 0, err
		}
		select {
		case <-b.x.arrived:
		case <-b.x.ctx.Done():
			b.x.mu.Lock()
			defer b.x.mu.Unlock()
			return 0, cmp.Or(b.x.err, b.x.ctx.Err())
		}
	}
}

func (b *body) Close() error {
	b.cancel()
	return nil
}
