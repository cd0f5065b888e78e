package etagcache

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/routesrv/routesrv/internal/wire"
)

const (
	// heartbeat is how often a stream shows that it is alive, and how fresh its table is.
	heartbeat = 15 * time.Second
	// maxSilence is how long a reader may read nothing before it is dropped.
	maxSilence = 30 * time.Second
	// maxTableTime is how long sending a full table to one reader may take.
	maxTableTime = time.Minute
	// wakeSpread is how much later a stream may send for each other open stream, up to maxWakeSpread: one change must not cause a
	// spike.
	wakeSpread    = 200 * time.Microsecond
	maxWakeSpread = 500 * time.Millisecond
	// retryBase and retrySpread define the advice when to reconnect after a broken connection.
	retryBase   = time.Second
	retrySpread = 4 * time.Second
)

// stream is a client that follows the table. It has no queue: it knows what it sent last, and when it can write, it sends what
// leads from there to the current table.
type stream struct {
	cache  *Cache
	r      *http.Request
	out    *eventWriter
	zone   string
	client netip.AddrPort
	since  time.Time
	has    atomic.Pointer[wire.Tag] // the client's table; nil if none
	order  atomic.Uint64            // number of the version of that table
	wrote  atomic.Pointer[state]    // state of the last current event; only compared
	ahead  bool                     // the client has a table that may be newer; owned by run
}

// watch serves /routes/watch.
func (c *Cache) watch(w http.ResponseWriter, r *http.Request) {
	w.Header()["Vary"] = varyEncoding
	switch {
	case r.Method != http.MethodGet:
		w.Header()["Allow"] = []string{http.MethodGet}
		c.refuseStream(w, http.StatusMethodNotAllowed, 0)
		return
	case c.state.Load().version == nil:
		c.refuseStream(w, http.StatusNotFound, c.cfg.RetryAfter)
		return
	}
	s := c.newStream(w, r)
	if !c.streams.add(s) {
		c.cfg.Metrics.StreamsRefused.Inc()
		c.refuseStream(w, http.StatusTooManyRequests, retryBase+c.spread(2*retrySpread))
		return
	}
	defer c.streams.remove(s)
	s.observe(StreamOpened)
	defer s.observe(StreamClosed)
	s.begin(w)
	if err := s.run(r.Context()); err != nil {
		c.cfg.Metrics.StreamsDropped.Inc()
		c.cfg.Logger.Debug("stream dropped", "client", s.client.String(), "error", err)
	}
}

// refuseStream answers without a body. A retry other than 0 is the advice when to come back.
func (c *Cache) refuseStream(w http.ResponseWriter, status int, retry time.Duration) {
	h := w.Header()
	if retry > 0 {
		h["Retry-After"] = []string{fmt.Sprint(int((retry + time.Second - 1) / time.Second))}
	}
	h["Content-Length"] = zeroLength
	w.WriteHeader(status)
	c.cfg.Metrics.observeResponse(status, identity, 0)
}

// newStream returns a stream for a request, which says what the client has. It sends nothing yet.
func (c *Cache) newStream(w http.ResponseWriter, r *http.Request) *stream {
	s := &stream{cache: c, r: r, zone: r.URL.Query().Get("zone"), since: c.cfg.Now()}
	s.out = newEventWriter(w, negotiateStream(r.Header["Accept-Encoding"]) == gzipped, c.cfg.Metrics)
	s.client, _ = netip.ParseAddrPort(r.RemoteAddr) // a client without a valid address is shown with the zero address
	if named := wire.ParseTags(r.Header[wire.HeaderLastEventID]).List; len(named) > 0 {
		s.has.Store(&named[0].Tag)
	}
	return s
}

// begin sends status and headers.
func (s *stream) begin(w http.ResponseWriter) {
	h := w.Header()
	h["Content-Type"] = []string{wire.StreamType}
	h["Cache-Control"] = []string{"no-store"}
	if s.out.zipped {
		h["Content-Encoding"] = encodingHeader[gzipped]
	}
	w.WriteHeader(http.StatusOK)
	s.cache.cfg.Metrics.observeResponse(http.StatusOK, s.out.encoding(), 0)
}

// run sends events until the client leaves or the server is drained. It returns an error if the client stops reading.
func (s *stream) run(ctx context.Context) error {
	s.out.begin()
	s.out.text(fmt.Sprintf("retry: %d\n\n", (retryBase + s.cache.spread(retrySpread)).Milliseconds()))
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	for {
		st := s.cache.state.Load()
		waiting, err := s.step(ctx, st)
		if err != nil {
			return err
		}
		s.ahead = waiting
		s.observe(StreamWritten)
		next := st.outdated
		if waiting {
			next = st.superseded // the next read may decide whether the client's table is newer
		}
		select {
		case <-ctx.Done():
			return nil
		case <-s.cache.streams.draining:
			return s.handOver(ctx)
		case <-beat.C:
			s.wrote.Store(nil)
			s.out.text(": heartbeat\n\n")
		case <-next:
			if !sleep(ctx, s.cache.spread(s.cache.streams.spread())) {
				return nil
			}
		}
	}
}

// step brings the client to the table of the state, like the answer to a request that names the client's table. It reports
// whether the client has a table that may be newer.
func (s *stream) step(ctx context.Context, st *state) (waiting bool, err error) {
	x := exchange{cache: s.cache, r: s.r, zone: s.zone, state: st, deltas: true, encoding: identity}
	x.variant = st.version.variant(s.zone)
	x.stamp = x.variant.stamp.Load()
	has := s.has.Load()
	var keep []string
	if has != nil {
		keep = x.ifNoneMatch([]string{has.String()})
	}
	if keep == nil {
		if err := s.update(ctx, &x, has); err != nil {
			return false, err
		}
		st = x.state // a full table may have waited for its turn
	} else {
		kept := wire.ParseTags(keep).List[0].Tag
		waiting = kept.Digest != x.variant.table.Digest()
		if kept != *has {
			s.has.Store(&kept)
			s.wrote.Store(nil)
		}
	}
	if !waiting {
		s.order.Store(st.version.readings.order)
	}
	if before := s.wrote.Load(); before == nil || before.version != st.version || before.stale != st.stale || before.held != st.held {
		s.current(&x)
		s.wrote.Store(st)
	}
	return waiting, s.out.flush()
}

// update sends what leads to the table of x: a delta if there is one, else the table.
func (s *stream) update(ctx context.Context, x *exchange, has *wire.Tag) error {
	if has != nil {
		if d := x.deltaFrom(has.Digest); d != nil && s.out.fits(d, x) {
			s.note(x)
			x.begin()
			s.out.delta(s.cache, d, *s.has.Load())
			err := s.out.flush()
			x.tell(http.StatusIMUsed, 0, err == nil, true)
			return err
		}
	}
	return s.fullTable(ctx, x)
}

// note records that the client was brought to the table of x.
func (s *stream) note(x *exchange) {
	s.has.Store(&wire.Tag{Digest: x.variant.table.Digest(), Revision: x.stamp.revision})
}

// fullTable waits for its turn and sends the table that is then current.
func (s *stream) fullTable(ctx context.Context, x *exchange) error {
	end, err := s.turn(ctx)
	if err != nil {
		return err
	}
	defer end()
	x.state = s.cache.state.Load()
	x.variant = x.state.version.variant(s.zone)
	x.stamp = x.variant.stamp.Load()
	s.note(x)
	if !x.variant.sendable() {
		s.out.event(wire.EventFetch, s.has.Load(), "")
		return s.out.flush()
	}
	x.begin()
	err = s.out.table(s.cache, x.variant, *s.has.Load())
	x.tell(http.StatusOK, 0, err == nil, true)
	return err
}

// turn waits until one more full table may be sent, and sends heartbeats meanwhile. The returned function ends the turn.
func (s *stream) turn(ctx context.Context) (end func(), err error) {
	full := &s.cache.streams.full
	if full.try() {
		return full.begin(), nil
	}
	if err := s.out.flush(); err != nil { // show the client that the request was accepted
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	got := make(chan error, 1)
	go func() { got <- full.take(ctx, s.client.Addr()) }()
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	for {
		select {
		case err := <-got:
			if err != nil {
				return nil, err
			}
			return full.begin(), nil
		case <-beat.C:
			s.out.text(": waiting\n\n")
			if err := s.out.flush(); err != nil {
				cancel()
				if <-got == nil {
					full.pass()
				}
				return nil, err
			}
		}
	}
}

// current says which table the stream has brought the client to, and how fresh that table is.
func (s *stream) current(x *exchange) {
	st := s.cache.state.Load() // the time of the last read advances without a new version
	f := wire.Current{Revision: s.has.Load().Revision, Count: x.variant.table.Len()}
	if st.sourceRead != nil {
		f.SourceRead = st.sourceRead[0]
	}
	switch {
	case x.kept:
		f.State = wire.StateUnknown
	case st.tableState != nil:
		f.State = st.tableState[0]
	}
	s.out.event(wire.EventCurrent, s.has.Load(), f.String())
}

// handOver asks the client to reconnect, to any server, and ends the stream. The ends of the streams are spread over the window.
func (s *stream) handOver(ctx context.Context) error {
	timer := time.NewTimer(s.cache.spread(s.cache.streams.window()))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return nil
	case <-timer.C:
	case <-s.cache.streams.ending:
	}
	s.out.event(wire.EventReconnect, nil, wire.FormatReconnect(s.cache.spread(time.Second)))
	return s.out.flush()
}

// sendable reports whether the table can be the data of an event: its lines must be UTF-8 without carriage returns.
func (va *variant) sendable() bool {
	va.sendableOnce.Do(func() {
		va.isSendable = true
		for r := range va.table.Routes().All() {
			if !isEventText(r.Text) {
				va.isSendable = false
				return
			}
		}
	})
	return va.isSendable
}

// spread returns a random part of d.
func (c *Cache) spread(d time.Duration) time.Duration {
	return time.Duration(c.cfg.Random() * float64(d))
}

// sleep waits, and reports whether ctx is still active.
func sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
