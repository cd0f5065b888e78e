package etagcache

import (
	"errors"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"sync"
	"sync/atomic"
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

// sendBuffers holds buffers of [sendBuffer] bytes.
var sendBuffers = sync.Pool{New: func() any { return new([sendBuffer]byte) }}

// sends are the bodies being written, by the address of their reader.
type sends struct {
	mu   sync.Mutex
	open map[netip.Addr][]*send
}

// send is a body being written: the [http.ResponseWriter] of its request, with deadlines that depend on the progress of its
// reader. A reader that reads nothing is cut after maxSilence; a slow one after maxBodyTime, or maxTableTime after a newer table
// was available.
type send struct {
	http.ResponseWriter
	cache      *Cache
	version    *version // the version of the body
	client     netip.Addr
	control    *http.ResponseController
	end        time.Time    // when it is cut in any case
	superseded bool         // there is a newer version, and end takes that into account
	progress   atomic.Int64 // unix nanoseconds when the last write ended
	status     int          // as written; 0 before
	n          int          // bytes written so far
	err        error        // of the first failed write

	mu     sync.Mutex // held while a deadline is set
	forced bool       // cut in favour of another reader
	ended  bool
}

// newSend begins a body of x; the caller must call finish after writing it.
func (x *exchange) newSend() *send {
	now := time.Now()
	s := &send{
		ResponseWriter: x.w, cache: x.cache, version: x.state.version, client: clientOf(x.r),
		control: http.NewResponseController(x.w), end: now.Add(maxBodyTime),
	}
	s.progress.Store(now.UnixNano())
	x.cache.sends.begin(s)
	return s
}

// WriteHeader records the status, which [http.ServeContent] chooses.
func (s *send) WriteHeader(status int) {
	s.status = status
	s.ResponseWriter.WriteHeader(status)
}

// Write writes p in parts, each with its own deadline.
func (s *send) Write(p []byte) (n int, err error) {
	for len(p) > 0 && s.err == nil {
		part := p[:min(len(p), sendBuffer)]
		s.allow()
		var m int
		m, s.err = s.ResponseWriter.Write(part)
		s.progress.Store(time.Now().UnixNano())
		n += m
		p = p[m:]
	}
	s.n += n
	return n, s.err
}

// parts writes a whole body, joining its parts to larger writes.
func (s *send) parts(b *body) {
	array := sendBuffers.Get().(*[sendBuffer]byte)
	defer sendBuffers.Put(array)
	buf := array[:0]
	for part := range b.parts {
		for len(part) > 0 {
			m := copy(buf[len(buf):cap(buf)], part)
			buf, part = buf[:len(buf)+m], part[m:]
			if len(buf) < cap(buf) {
				continue
			}
			if _, err := s.Write(buf); err != nil {
				return
			}
			buf = buf[:0]
		}
	}
	s.Write(buf)
}

// flush writes out the server's buffers, so that a failure is noticed before the handler ends.
func (s *send) flush() {
	if s.err != nil {
		return
	}
	s.allow()
	if s.err = s.control.Flush(); errors.Is(s.err, http.ErrNotSupported) {
		s.err = nil
	}
}

// finish ends the body and reports whether all of its n bytes were written.
func (s *send) finish(n int) bool {
	s.cache.sends.finish(s)
	if why := s.reason(); why != "" {
		s.cache.cfg.Metrics.bodiesCut[why].Inc()
	}
	return s.err == nil && s.n == n
}

// begin registers a body. If its address has too many, it cuts the one without progress for longest.
func (s *sends) begin(one *send) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open == nil {
		s.open = make(map[netip.Addr][]*send)
	}
	all := s.open[one.client]
	if len(all) >= maxSendsPerAddress {
		slowest := slices.MinFunc(all, func(a, b *send) int { return int(a.progress.Load() - b.progress.Load()) })
		if time.Since(time.Unix(0, slowest.progress.Load())) > stallTime {
			slowest.cut()
		}
	}
	s.open[one.client] = append(all, one)
}

func (s *sends) finish(one *send) {
	one.mu.Lock()
	one.ended = true
	one.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.open[one.client]
	if i := slices.Index(all, one); i >= 0 {
		all = slices.Delete(all, i, i+1)
	}
	if len(all) == 0 {
		delete(s.open, one.client)
		return
	}
	s.open[one.client] = all
}

// cut makes the current write and all later ones fail.
func (s *send) cut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended || s.forced {
		return
	}
	s.forced = true
	_ = s.control.SetWriteDeadline(time.Unix(1, 0)) // a connection without deadlines does not stall either
}

// allow sets the deadline of the next write.
func (s *send) allow() {
	now := time.Now()
	if !s.superseded && s.cache.state.Load().version != s.version {
		s.superseded = true
		if limit := now.Add(maxTableTime); limit.Before(s.end) {
			s.end = limit
		}
	}
	limit := now.Add(maxSilence)
	if limit.After(s.end) {
		limit = s.end
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.forced {
		_ = s.control.SetWriteDeadline(limit) // as in cut
	}
}

// reason says why the body was cut; it returns "" if it was not, or if the reader left first.
func (s *send) reason() string {
	s.mu.Lock()
	defer s.mu.Unlock()
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
