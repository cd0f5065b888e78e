package etagcache

import (
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"time"
)

// Limits for readers that stall. Such a reader holds a goroutine, a buffer, and the blocks of its table that newer tables do not have.
const (
	// maxSilence is how long a reader may take for sendSize bytes of a body, or for what is written on a stream at a time.
	maxSilence = 30 * time.Second
	sendSize   = 64 << 10
	// maxBodyTime is how long a body of /routes may take.
	maxBodyTime = 5 * time.Minute
)

// send is the [http.ResponseWriter] of a request for a table. It cuts a body whose reader stalls, and notes what was written.
type send struct {
	http.ResponseWriter
	exchange *exchange
	control  *http.ResponseController
	end      time.Time // when it is cut in any case
	status   int
	n        int   // bytes of the body
	err      error // of the first failed write
}

func (x *exchange) newSend() *send {
	return &send{
		ResponseWriter: x.w, exchange: x, control: http.NewResponseController(x.w), end: time.Now().Add(maxBodyTime), status: http.StatusOK,
	}
}

// WriteHeader records the status, which [http.ServeContent] chooses, and adapts the headers where it does not.
func (s *send) WriteHeader(status int) {
	s.status = status
	switch h := s.Header(); status {
	case http.StatusOK: // it does not send the length of an encoded body
		h.Set("Content-Length", strconv.FormatInt(s.exchange.variant.body(s.exchange.encoding).size, 10))
	case http.StatusPreconditionFailed:
		h.Set("Content-Length", "0")
		for _, name := range []string{"Content-Type", "Content-Encoding", "Last-Modified"} {
			h.Del(name)
		}
	}
	s.ResponseWriter.WriteHeader(status)
}

// Write writes p in parts, each with its own deadline.
func (s *send) Write(p []byte) (n int, err error) {
	for part := range slices.Chunk(p, sendSize) {
		limit := time.Now().Add(maxSilence)
		if limit.After(s.end) {
			limit = s.end
		}
		_ = s.control.SetWriteDeadline(limit) // a connection without deadlines does not stall either
		m, err := s.ResponseWriter.Write(part)
		n, s.n = n+m, s.n+m
		if err != nil {
			s.err = err
			return n, err
		}
	}
	return n, nil
}

// ReadFrom writes a body in parts of sendSize. With the half of it, as [io.Copy] would write, a reader with a small window gets one write
// for each probe of the window.
func (s *send) ReadFrom(body io.Reader) (n int64, err error) {
	return io.CopyBuffer(struct{ io.Writer }{s}, body, make([]byte, sendSize))
}

// flush writes out the server's buffers behind a body of known length, so that a failure is noticed before the handler ends.
func (s *send) flush() {
	if s.n > 0 && s.err == nil && s.Header().Get("Content-Length") != "" {
		if err := s.control.Flush(); !errors.Is(err, http.ErrNotSupported) {
			s.err = err
		}
	}
}
