package httpserve

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"sync"
	"time"
)

const (
	// bodyTimeout is how long a client has to send a body.
	bodyTimeout = 5 * time.Second
	// bodyMemory limits the bodies of a listener, those on their way and those that handlers work on, in bytes.
	bodyMemory = 128 << 20
	// bodyChunk is how much of a body is read at a time.
	bodyChunk = 32 << 10
)

// bodies reads the bodies of requests before handlers see them, so that a slow one occupies nothing but its connection. Where no
// body is expected, none is accepted: net/http would wait for it after the answer.
type bodies struct {
	next   http.Handler
	limits map[string][]Endpoint // with bodies, by path

	mu      sync.Mutex
	held    int64 // bytes of all bodies
	reading []*body
}

// body is a body that is being read.
type body struct {
	held int64
	cut  func() // ends the read; it does not block
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
	one := &body{cut: func() { _ = conn.SetReadDeadline(time.Now()) }}
	defer b.release(one)
	var content []byte
	var status int
	var err error
	whileReading(r, func() { content, status, err = b.read(r.Body, one, limit) })
	if err != nil {
		b.refuse(w, conn, status, err.Error())
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

// read returns the whole body. The status is for an error.
func (b *bodies) read(r io.Reader, one *body, limit int64) (content []byte, status int, err error) {
	b.mu.Lock()
	b.reading = append(b.reading, one) // the oldest first
	b.mu.Unlock()
	defer func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.reading = slices.DeleteFunc(b.reading, func(o *body) bool { return o == one })
	}()
	for {
		if len(content) == cap(content) {
			if !b.reserve(one, bodyChunk) {
				return nil, http.StatusServiceUnavailable, errors.New("too many large requests at a time")
			}
			content = slices.Grow(content, bodyChunk)
		}
		n, err := r.Read(content[len(content):cap(content)])
		content = content[:len(content)+n]
		switch {
		case int64(len(content)) > limit:
			return nil, http.StatusRequestEntityTooLarge, fmt.Errorf("the body has more than %d bytes", limit)
		case errors.Is(err, io.EOF):
			return content, 0, nil
		case errors.Is(err, os.ErrDeadlineExceeded):
			return nil, http.StatusRequestTimeout, errors.New("the body did not arrive in time")
		case err != nil:
			return nil, http.StatusBadRequest, fmt.Errorf("read the body: %w", err)
		}
	}
}

// reserve counts n more bytes of a body. If that is too much, it cuts the bodies that have been on their way for longest. It returns
// false if this one was cut, or nothing else can be.
func (b *bodies) reserve(one *body, n int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for b.held+n > bodyMemory {
		if len(b.reading) == 0 || b.reading[0] == one {
			return false
		}
		oldest := b.reading[0]
		b.reading = b.reading[1:]
		oldest.cut()
		b.held -= oldest.held
		oldest.held = 0
	}
	if !slices.Contains(b.reading, one) {
		return false
	}
	b.held += n
	one.held += n
	return true
}

// release forgets a body.
func (b *bodies) release(one *body) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.held -= one.held
	one.held = 0
}
