package kubetest

import (
	"io"
	"net/http"
	"sync"
)

// Transport calls the handler without a network, for tests with a fake clock. Streams work as over a connection; a panic of the
// handler breaks the connection.
type Transport struct{ Handler http.Handler }

// RoundTrip implements [http.RoundTripper].
func (t Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	body, out := io.Pipe()
	w := &pipeWriter{header: make(http.Header), out: out, ready: make(chan struct{})}
	ctx := r.Context()
	served := make(chan struct{})
	go func() {
		defer close(served)
		defer func() {
			v := recover()
			w.WriteHeader(http.StatusOK)
			if v != nil {
				_ = out.CloseWithError(io.ErrUnexpectedEOF)
			} else {
				_ = out.Close()
			}
		}()
		t.Handler.ServeHTTP(w, r)
	}()
	go func() {
		select {
		case <-ctx.Done():
			_ = body.CloseWithError(ctx.Err())
			_ = out.CloseWithError(ctx.Err())
		case <-served:
		}
	}()
	select {
	case <-w.ready:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	return &http.Response{
		StatusCode: w.status, Status: http.StatusText(w.status), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: w.sent, Body: body, ContentLength: -1, Request: r,
	}, nil
}

// pipeWriter writes a response to a pipe.
type pipeWriter struct {
	header http.Header
	out    *io.PipeWriter
	once   sync.Once
	ready  chan struct{} // closed when the header has been written

	status int         // set before ready is closed
	sent   http.Header // set before ready is closed
}

func (w *pipeWriter) Header() http.Header { return w.header }

func (w *pipeWriter) WriteHeader(status int) {
	w.once.Do(func() {
		w.status, w.sent = status, w.header.Clone()
		close(w.ready)
	})
}

func (w *pipeWriter) Write(b []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.out.Write(b)
}

// Flush implements [http.Flusher]; nothing is buffered.
func (w *pipeWriter) Flush() { w.WriteHeader(http.StatusOK) }
