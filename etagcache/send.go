package etagcache

import (
	"errors"
	"io"
	"net/http"
	"net/netip"
	"os"
	"strconv"
	"sync"
	"time"
)

// Limits for a body of /routes. A stalled reader holds a goroutine, a buffer of sendBuffer bytes, and the blocks of its table
// that newer tables do not have.
const (
	// sendBuffer is how much of a body is written at a time. With half of it, a reader with a small window got one write for each
	// probe of the window.
	sendBuffer = 64 << 10
	// maxBodyTime is how long a body may take while its table is the current one.
	maxBodyTime = 5 * time.Minute
	// maxSendsPerAddress is how many bodies may be in progress for one address before one that has stalled for stallTime is cut
	// in favour of the next. Healthy readers behind one address are not limited: they do not stall.
	maxSendsPerAddress = 64
	stallTime          = 2 * time.Second
)

// Reasons for cutting a body, as in the metric.
const (
	cutSilent     = "silent"     // the reader read nothing for maxSilence
	cutSlow       = "slow"       // maxBodyTime, or maxTableTime since there is a newer table, has passed
	cutForAnother = "for_others" // it had stalled, and other readers at its address were waiting
)

var cutReasons = []string{cutSilent, cutSlow, cutForAnother}

// sends are the bodies being written.
type sends struct {
	mu   sync.Mutex // also guards fields of each send
	open map[*send]struct{}
}

// send is a body being written: the [http.ResponseWriter] of its request, with deadlines that depend on the progress of its
// reader. A reader that reads nothing is cut after maxSilence; a slow one after maxBodyTime, or maxTableTime after a newer table
// was available.
type send struct {
	http.ResponseWriter
	exchange   *exchange
	client     netip.Addr
	control    *http.ResponseController
	end        time.Time // when it is cut in any case
	superseded bool      // there is a newer version, and end takes that into account
	status     int
	n          int   // bytes written so far
	err        error // of the first failed write

	// guarded by sends.mu
	progress time.Time // when the last write began
	forced   bool      // cut in favour of another reader
}

func (x *exchange) newSend() *send {
	return &send{
		ResponseWriter: x.w, exchange: x, client: clientOf(x.r), control: http.NewResponseController(x.w),
		end: time.Now().Add(maxBodyTime), status: http.StatusOK,
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

// ReadFrom writes a body in large parts, and writes out the server's buffers, so that a failure is noticed before the handler ends.
// [http.ServeContent] calls it, because [io.Copy] does.
func (s *send) ReadFrom(body io.Reader) (n int64, err error) {
	sends, metrics := &s.exchange.cache.sends, s.exchange.cache.cfg.Metrics
	sends.begin(s)
	defer sends.finish(s)
	n, s.err = io.CopyBuffer(struct{ io.Writer }{s}, struct{ io.Reader }{body}, make([]byte, sendBuffer))
	if s.err == nil {
		s.allow()
		if err := s.control.Flush(); !errors.Is(err, http.ErrNotSupported) {
			s.err = err
		}
	}
	if why := s.reason(); why != "" {
		metrics.BodiesCut.WithLabelValues(why).Inc()
	}
	return n, s.err
}

// Write writes p with its own deadline.
func (s *send) Write(p []byte) (n int, err error) {
	s.allow()
	n, err = s.ResponseWriter.Write(p)
	s.n += n
	return n, err
}

// begin registers a body. If its address has too many, it cuts the one without progress for longest: its writes fail from now on.
func (s *sends) begin(one *send) {
	s.mu.Lock()
	defer s.mu.Unlock()
	one.progress = time.Now()
	count, slowest := 0, one
	for other := range s.open {
		if other.client != one.client {
			continue
		}
		if count++; other.progress.Before(slowest.progress) {
			slowest = other
		}
	}
	if count >= maxSendsPerAddress && time.Since(slowest.progress) > stallTime && !slowest.forced {
		slowest.forced = true
		_ = slowest.control.SetWriteDeadline(time.Unix(1, 0)) // a connection without deadlines does not stall either
	}
	if s.open == nil {
		s.open = make(map[*send]struct{})
	}
	s.open[one] = struct{}{}
}

func (s *sends) finish(one *send) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, one)
}

// allow sets the deadline of the next write.
func (s *send) allow() {
	now := time.Now()
	if !s.superseded && s.exchange.cache.state.Load().version != s.exchange.state.version {
		s.superseded = true
		if limit := now.Add(maxTableTime); limit.Before(s.end) {
			s.end = limit
		}
	}
	limit := now.Add(maxSilence)
	if limit.After(s.end) {
		limit = s.end
	}
	sends := &s.exchange.cache.sends
	sends.mu.Lock()
	defer sends.mu.Unlock()
	s.progress = now
	if !s.forced {
		_ = s.control.SetWriteDeadline(limit) // as in begin
	}
}

// reason says why the body was cut; it returns "" if it was not, or if the reader left first. Call it after the end.
func (s *send) reason() string {
	switch {
	case s.err == nil:
		return ""
	case s.forced:
		return cutForAnother
	case !errors.Is(s.err, os.ErrDeadlineExceeded):
		return ""
	case time.Now().Before(s.end):
		return cutSilent
	default:
		return cutSlow
	}
}
