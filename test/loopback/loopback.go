// Package loopback lets HTTP clients call handlers without sockets, for tests.
package loopback

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
)

// ErrCut is the error of a request, or of reading a body, after the handler panicked to cut the connection (http.ErrAbortHandler),
// or after Network.Cut.
var ErrCut = errors.New("connection cut")

// Network is an http.RoundTripper that calls handlers by the host of the URL, without sockets. Clients receive a body while the
// handler writes it, so streams work, and all waiting works in a bubble of testing/synctest. Unknown hosts refuse connections.
// Each handler runs in its own goroutine; its request is cancelled when the body is closed or the client's context ends.
type Network struct {
	calls sync.WaitGroup

	mu    sync.Mutex // guards the fields below
	hosts map[string]http.Handler
	open  map[*exchange]string // to the host
}

// Set assigns a handler to a host; nil removes the host, but ends no running exchange.
func (n *Network) Set(host string, h http.Handler) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.hosts == nil {
		n.hosts, n.open = make(map[string]http.Handler), make(map[*exchange]string)
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
	ctx, cancel := context.WithCancel(r.Context())
	body, out := io.Pipe()
	x := &exchange{cancel: cancel, out: out, header: make(http.Header), answered: make(chan struct{})}
	n.mu.Lock()
	h := n.hosts[r.URL.Host]
	if h == nil {
		n.mu.Unlock()
		cancel()
		return nil, errors.New("connection refused")
	}
	n.open[x] = r.URL.Host
	n.mu.Unlock()
	in := r.Clone(ctx)
	in.RequestURI, in.RemoteAddr = r.URL.RequestURI(), "10.0.0.7:40000"
	stop := context.AfterFunc(ctx, func() { x.end(context.Cause(ctx)) })
	n.calls.Go(func() {
		defer stop()
		x.serve(h, in)
		n.mu.Lock()
		defer n.mu.Unlock()
		delete(n.open, x)
	})
	<-x.answered
	if x.status == 0 {
		cancel()
		return nil, x.err
	}
	resp := &http.Response{
		Status: http.StatusText(x.status), StatusCode: x.status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: x.sent, ContentLength: -1, Request: r, Body: closer{body, cancel},
	}
	if r.Method == http.MethodHead || x.status == http.StatusNotModified {
		resp.ContentLength, resp.Body = 0, http.NoBody
		cancel()
	}
	return resp, nil
}

// exchange writes one response.
type exchange struct {
	cancel   context.CancelFunc
	out      *io.PipeWriter
	header   http.Header
	once     sync.Once
	answered chan struct{} // closed when the fields below are set

	status int // 0 if the exchange ended without one
	sent   http.Header
	err    error // why there is no status
}

func (x *exchange) serve(h http.Handler, r *http.Request) {
	defer func() {
		switch v := recover(); v {
		case nil:
			x.WriteHeader(http.StatusOK)
			x.end(io.EOF)
		case http.ErrAbortHandler:
			x.end(ErrCut)
		default:
			panic(v)
		}
	}()
	h.ServeHTTP(x, r)
}

// end ends the response, unless it has already ended.
func (x *exchange) end(err error) {
	x.once.Do(func() { x.err = err; close(x.answered) })
	_ = x.out.CloseWithError(err)
}

// Header implements [http.ResponseWriter].
func (x *exchange) Header() http.Header { return x.header }

// WriteHeader implements [http.ResponseWriter].
func (x *exchange) WriteHeader(status int) {
	x.once.Do(func() { x.status, x.sent = status, x.header.Clone(); close(x.answered) })
}

// Write implements [http.ResponseWriter]. It waits for the client to read, and fails once the client has given up.
func (x *exchange) Write(p []byte) (int, error) {
	x.WriteHeader(http.StatusOK)
	return x.out.Write(p)
}

// FlushError is called by http.ResponseController.
func (x *exchange) FlushError() error {
	x.WriteHeader(http.StatusOK)
	return nil
}

// closer is a body that cancels its request when it is closed.
type closer struct {
	io.ReadCloser
	cancel context.CancelFunc
}

func (c closer) Close() error {
	c.cancel()
	return c.ReadCloser.Close()
}
