package httpserve

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync/atomic"
	"time"
)

const (
	// bodyTimeout is how long a client has to send a body.
	bodyTimeout = 5 * time.Second
	// bodyMemory limits the total size of the bodies of a listener in bytes, while they arrive and while handlers use them.
	bodyMemory = 128 << 20
	// noBody is the answer to a body that is not expected.
	noBody = "this path takes no request body"
)

// bodies reads the bodies of requests before handlers run, so that a slow body occupies only its connection. It refuses bodies
// that are not expected: net/http would wait for them after the answer.
type bodies struct {
	next   http.Handler
	limits map[string]int64 // by method and path
	held   atomic.Int64     // bytes of all bodies
}

func limitBodies(listener string, endpoints []Endpoint, next http.Handler) http.Handler {
	b := &bodies{next: next, limits: make(map[string]int64)}
	for _, e := range endpoints {
		for _, m := range e.Methods {
			if e.Listener == listener {
				b.limits[m+e.Path] = e.MaxBody
			}
		}
	}
	return b
}

// ServeHTTP implements [http.Handler]. It refuses bodies that are unexpected, too large, or too slow.
func (b *bodies) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.ContentLength == 0 {
		b.next.ServeHTTP(w, r)
		return
	}
	conn := http.NewResponseController(w)
	limit := b.limits[r.Method+r.URL.Path]
	switch {
	case limit == 0 && r.ContentLength > 0:
		b.refuse(w, conn, http.StatusBadRequest, noBody)
		return
	case r.ContentLength > limit:
		b.refuse(w, conn, http.StatusRequestEntityTooLarge, fmt.Sprintf("the body has %d bytes, limit %d", r.ContentLength, limit))
		return
	}
	_ = conn.SetReadDeadline(time.Now().Add(bodyTimeout)) // recorders of tests have no deadlines
	one := &body{from: r.Body, limit: limit, all: &b.held}
	defer func() { b.held.Add(-one.size) }()
	var content []byte
	var err error
	whileReading(r, func() { content, err = io.ReadAll(one) })
	switch {
	case limit == 0 && errors.Is(err, errBodyTooLarge): // otherwise a chunked body turned out to be empty
		b.refuse(w, conn, http.StatusBadRequest, noBody)
		return
	case err != nil:
		b.refuse(w, conn, statusOf(err), "read the body: "+err.Error())
		return
	}
	_ = conn.SetReadDeadline(time.Time{})
	r.Body = io.NopCloser(bytes.NewReader(content))
	b.next.ServeHTTP(w, r)
}

// refuse answers without waiting for the rest of the body.
func (b *bodies) refuse(w http.ResponseWriter, conn *http.ResponseController, status int, why string) {
	_ = conn.SetReadDeadline(time.Now())
	w.Header().Set("Connection", "close")
	http.Error(w, why, status)
}

// body reads a body within its limit, and adds its bytes to the total of all bodies.
type body struct {
	from        io.Reader
	limit, size int64
	all         *atomic.Int64
}

// Errors of a body.
var (
	errBodyTooLarge = errors.New("it has more bytes than the limit of this path")
	errBodies       = errors.New("too many large requests at a time")
)

func (b *body) Read(p []byte) (int, error) {
	n, err := b.from.Read(p)
	b.size += int64(n)
	switch held := b.all.Add(int64(n)); {
	case b.size > b.limit:
		return n, errBodyTooLarge
	case held > bodyMemory:
		return n, errBodies
	}
	return n, err
}

func statusOf(err error) int {
	switch {
	case errors.Is(err, errBodyTooLarge):
		return http.StatusRequestEntityTooLarge
	case errors.Is(err, errBodies):
		return http.StatusServiceUnavailable
	case errors.Is(err, os.ErrDeadlineExceeded):
		return http.StatusRequestTimeout
	}
	return http.StatusBadRequest
}
