package httpserve

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"sync/atomic"
	"time"
)

const (
	// bodyTimeout is how long a client has to send a body.
	bodyTimeout = 5 * time.Second
	// bodyMemory limits the bodies of a listener, those on their way and those that handlers work on, in bytes.
	bodyMemory = 128 << 20
)

// bodies reads the bodies of requests before handlers see them, so that a slow one occupies nothing but its connection. Where no
// body is expected, none is accepted: net/http would wait for it after the answer.
type bodies struct {
	next   http.Handler
	limits map[string][]Endpoint // with bodies, by path
	held   atomic.Int64          // bytes of all bodies
}

// limitBodies wraps the handler of a listener.
func limitBodies(endpoints []Endpoint, next http.Handler) http.Handler {
	b := &bodies{next: next, limits: make(map[string][]Endpoint)}
	for _, e := range endpoints {
		if e.MaxBody > 0 {
			b.limits[e.Path] = append(b.limits[e.Path], e)
		}
	}
	return b
}

// limit returns the limit of the request's body, or 0 if it may have none.
func (b *bodies) limit(r *http.Request) int64 {
	for _, e := range b.limits[r.URL.Path] {
		if slices.Contains(e.Methods, r.Method) {
			return e.MaxBody
		}
	}
	return 0
}

// ServeHTTP implements [http.Handler]. It answers 400 to a body that is not expected, 413 to one that is too large, 408 to one that
// does not arrive in time, and 503 while bodies take too much memory.
func (b *bodies) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.ContentLength == 0 {
		b.next.ServeHTTP(w, r)
		return
	}
	conn := http.NewResponseController(w)
	limit := b.limit(r)
	switch {
	case limit == 0:
		b.refuse(w, conn, http.StatusBadRequest, "this path takes no request body")
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
	if err != nil {
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

// body reads a body within its limit, and counts its bytes among those of all bodies.
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

// statusOf returns the status for a body that cannot be read.
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
