package etagcache

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/routesrv/routesrv/api"
)

const (
	// heartbeat is how often a stream shows that it is alive, and how fresh its table is.
	heartbeat = 15 * time.Second
	// retryBase and retrySpread define the advice when to reconnect after a broken connection.
	retryBase   = time.Second
	retrySpread = 4 * time.Second
)

// stream is a client that follows the table, without a queue: whenever it can write, it sends the changes since the last table.
type stream struct {
	cache *Cache
	r     *http.Request
	out   *eventWriter
	zone  string
	has   *api.Tag // the client's table; nil if none
	ahead bool     // it may be newer
	said  said     // zero if another current event is due
}

// said identifies the content of the last current event.
type said struct {
	order uint64 // of the version
	has   api.Tag
	state string
}

func (c *Cache) watch(w http.ResponseWriter, r *http.Request) {
	h, refused := w.Header(), exchange{cache: c, w: w, r: r}
	h.Set("Vary", "Accept-Encoding")
	switch {
	case r.Method != http.MethodGet:
		h.Set("Allow", http.MethodGet)
		refused.empty(http.StatusMethodNotAllowed)
		return
	case c.state.Load().version == nil:
		h.Set("Retry-After", firstTable)
		refused.empty(http.StatusNotFound)
		return
	}
	if !c.streams.add() {
		c.cfg.Metrics.StreamsRefused.Inc()
		h.Set("Retry-After", strconv.Itoa(int(math.Ceil((retryBase + spread(2*retrySpread)).Seconds()))))
		refused.empty(http.StatusTooManyRequests)
		return
	}
	defer c.streams.remove()
	s := c.newStream(w, r)
	s.observe(StreamOpened)
	defer s.observe(StreamClosed)
	s.begin(w)
	if err := s.run(r.Context()); err != nil {
		c.cfg.Metrics.StreamsDropped.Inc()
		c.cfg.Logger.Debug("stream dropped", "client", r.RemoteAddr, "error", err)
	}
}

// newStream returns a stream for a request, which names the table that the client has. It sends nothing yet.
func (c *Cache) newStream(w http.ResponseWriter, r *http.Request) *stream {
	s := &stream{cache: c, r: r, zone: r.URL.Query().Get("zone")}
	s.out = newEventWriter(w, negotiate(r.Header["Accept-Encoding"], preference[1:]), c.cfg.Metrics) // streams have no zstd form
	if named := api.ParseTags(r.Header[api.HeaderLastEventID]).List; len(named) > 0 {
		s.has = &named[0].Tag
	}
	return s
}

func (s *stream) begin(w http.ResponseWriter) {
	h := w.Header()
	h.Set("Content-Type", api.StreamType)
	h.Set("Cache-Control", noStore)
	h.Set("X-Accel-Buffering", "no") // nginx would keep the events
	if s.out.encoding != identity {
		h.Set("Content-Encoding", s.out.encoding.String())
	}
	w.WriteHeader(http.StatusOK)
	s.cache.cfg.Metrics.observeResponse(http.StatusOK, s.out.encoding, 0)
}

// run sends events until the client leaves or the server is drained. It returns an error if the client stops reading.
func (s *stream) run(ctx context.Context) error {
	s.out.begin()
	s.out.text(fmt.Sprintf("retry: %d\n\n", (retryBase + spread(retrySpread)).Milliseconds()))
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	for {
		st, before := s.cache.state.Load(), s.out.bytes
		if err := s.step(st); err != nil {
			return err
		}
		if s.out.bytes > before {
			s.observe(StreamWritten)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-s.cache.streams.draining:
			return s.handOver(ctx)
		case <-beat.C:
			s.said = said{}
			s.out.text(": heartbeat\n\n")
		case <-st.superseded:
		}
	}
}

// step brings the client to the table of the state, like the answer to a request that names the client's table.
func (s *stream) step(st *serving) error {
	x := exchange{cache: s.cache, r: s.r, zone: s.zone, deltas: true, encoding: identity}
	x.show(st)
	current := false
	if s.has != nil {
		var kept api.Tag
		if kept, current = x.confirm([]api.NamedTag{{Tag: *s.has}}); current {
			s.has = &kept
		}
	}
	if !current {
		if err := s.update(&x, s.has); err != nil {
			return err
		}
	}
	s.ahead = x.kept
	s.current(&x)
	return s.out.flush()
}

// update brings the client to the table of x, by a delta or by an event to fetch the table, whose body all clients share.
func (s *stream) update(x *exchange, has *api.Tag) error {
	var d *delta
	if has != nil {
		d = x.deltaFrom(has.Digest)
	}
	s.has = &api.Tag{Digest: x.variant.table.Digest(), Revision: x.revision}
	if d == nil {
		s.out.event(api.EventFetch, s.has, "")
		return s.out.flush()
	}
	s.out.delta(d, s.has)
	return s.out.flush()
}

// current sends an event with the table of the client and how fresh it is, unless only the time of the read has changed.
func (s *stream) current(x *exchange) {
	f := api.Current{Revision: s.has.Revision, Count: x.variant.table.Len(), SourceRead: x.state.sourceRead(), State: x.state.name()}
	if x.kept {
		f.State = api.StateUnknown
	}
	if now := (said{x.state.version.readings.order, *s.has, f.State}); now != s.said {
		s.said = now
		s.out.event(api.EventCurrent, s.has, f.String())
	}
}

// handOver asks the client to reconnect, to any server, and ends the stream. The ends of the streams are spread over the window.
func (s *stream) handOver(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-time.After(spread(s.cache.streams.handOver)):
	}
	s.out.event(api.EventReconnect, nil, api.FormatReconnect(spread(time.Second)))
	return s.out.flush()
}

func spread(d time.Duration) time.Duration { return time.Duration(rand.Float64() * float64(d)) }

// streams counts the open streams, and ends them.
type streams struct {
	max     int // set by New, read only
	metrics *Metrics

	mu       sync.Mutex
	open     int
	running  sync.WaitGroup // of the open streams; no stream is added once drained
	drained  bool           // the streams must end
	draining chan struct{}  // closed then
	handOver time.Duration  // over which they end; set before
}

// add registers a stream. It returns false when the limit is reached or the server is shutting down.
func (s *streams) add() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.drained || s.open >= s.max {
		return false
	}
	s.open++
	s.running.Add(1)
	s.metrics.Streams.Inc()
	return true
}

func (s *streams) remove() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open--
	s.metrics.Streams.Dec()
	s.running.Done()
}

// DrainStreams ends all streams, spread over the window of the first call, each with an event that asks its client to reconnect
// to any server. It accepts no new streams from now on, and returns when all have ended.
func (c *Cache) DrainStreams(window time.Duration) {
	s := &c.streams
	s.mu.Lock()
	if !s.drained {
		s.drained, s.handOver = true, window
		close(s.draining)
	}
	s.mu.Unlock()
	s.running.Wait()
}

// eventWriter writes the events of one stream. Errors are sticky: nothing is written after the first one, and flush returns it. A
// compressed stream is one endless gzip member of deflate blocks that were encoded once for all streams, and of stored blocks for
// small texts, so it needs no compressor, which would take most of its memory.
type eventWriter struct {
	w        http.ResponseWriter
	control  *http.ResponseController
	metrics  *Metrics
	encoding encoding // identity or gzipped
	buf      []byte   // small texts, until the next flush
	err      error
	bytes    int // sent
}

func newEventWriter(w http.ResponseWriter, e encoding, m *Metrics) *eventWriter {
	return &eventWriter{w: w, control: http.NewResponseController(w), encoding: e, metrics: m}
}

func (e *eventWriter) begin() {
	_ = e.control.SetReadDeadline(time.Time{}) // a connection without deadlines has no limits to remove
	if e.encoding == gzipped {
		e.buf = append(e.buf, gzipHeader...)
	}
}

// text adds a small text, of less than 64 KiB, which is the most that a stored deflate block holds.
func (e *eventWriter) text(s string) {
	if e.encoding == gzipped {
		e.buf = append(e.buf, 0)
		e.buf = binary.LittleEndian.AppendUint16(e.buf, uint16(len(s)))
		e.buf = binary.LittleEndian.AppendUint16(e.buf, ^uint16(len(s)))
	}
	e.buf = append(e.buf, s...)
}

func (e *eventWriter) event(name string, id *api.Tag, data string) {
	e.head(name, id)
	e.text("data: " + data + "\n\n")
}

func (e *eventWriter) head(name string, id *api.Tag) {
	head := "event: " + name + "\n"
	if id != nil {
		head += "id: " + id.String() + "\n"
	}
	e.text(head)
	e.metrics.StreamEvents.WithLabelValues(name).Inc()
}

func (e *eventWriter) delta(d *delta, id *api.Tag) {
	e.head(api.EventDelta, id)
	e.text("data: ")
	body := d.bodies[e.encoding]()
	if e.encoding == gzipped {
		body = body[len(gzipHeader) : len(body)-gzipTrailer]
	}
	e.buf = append(e.buf, body...)
	e.text("\n\n")
}

// flush sends the added text. The reader must accept it within maxSilence.
func (e *eventWriter) flush() error {
	if e.err != nil || len(e.buf) == 0 {
		return e.err
	}
	if e.encoding == gzipped {
		e.buf = append(e.buf, 0x00, 0x00, 0x00, 0xff, 0xff) // an empty block makes decoders pass on everything before it
	}
	_ = e.control.SetWriteDeadline(time.Now().Add(maxSilence)) // errors do not matter, as in begin
	if _, e.err = e.w.Write(e.buf); e.err == nil {
		e.err = e.control.Flush()
	}
	e.bytes += len(e.buf)
	e.metrics.StreamSentBytes.Add(float64(len(e.buf)))
	if e.buf = e.buf[:0]; cap(e.buf) > 4<<10 {
		e.buf = nil // free the memory: most of the many streams are usually silent
	}
	return e.err
}
