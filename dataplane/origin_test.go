package dataplane_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"

	"github.com/routesrv/routesrv/dataplane"
	"github.com/routesrv/routesrv/table"
)

// origin is a route server with deltas and streams, written from docs/reference/protocol.md alone. It does not implement the order of
// tables.
type origin struct {
	retry int // of streams, in milliseconds; 0 omits it

	mu        sync.Mutex
	history   []*table.Table
	changed   chan struct{} // closed at each change
	readAt    time.Time     // zero: now
	state     string
	noStreams bool
	noDeltas  bool
	distort   func([]frame) []frame // what is sent over streams in place of the events of one turn
	slow      time.Duration         // between the halves of what is sent over streams
	fate      string                // of streams that wake up: "" is to continue, or "mute", "cut", "end", "comments"
	watch     http.HandlerFunc      // replaces a stream
	get       http.HandlerFunc      // replaces the answer of /routes
	requests  []*http.Request
	times     []time.Time // of the requests
	streams   int         // open ones
}

// frame is an event to be sent.
type frame struct {
	name, id, data string
	raw            string // replaces all of it
}

func (f frame) String() string {
	if f.raw != "" {
		return f.raw
	}
	text := "event: " + f.name + "\n"
	if f.id != "" {
		text += "id: " + f.id + "\n"
	}
	for line := range strings.SplitSeq(f.data, "\n") {
		text += "data: " + line + "\n"
	}
	return text + "\n"
}

// set publishes a table.
func (o *origin) set(t *table.Table) {
	o.change(func() {
		if t == nil {
			o.history = nil
		} else {
			o.history = append(o.history, t)
		}
	})
}

// change changes the origin, and wakes up the streams, which continue with the new state.
func (o *origin) change(f func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	f()
	if o.changed != nil {
		close(o.changed)
	}
	o.changed = nil
}

func (o *origin) currentLocked() *table.Table {
	if len(o.history) == 0 {
		return nil
	}
	return o.history[len(o.history)-1]
}

// asked returns the requests of a path so far, and whether they are HEAD.
func (o *origin) asked(path string) []*http.Request {
	o.mu.Lock()
	defer o.mu.Unlock()
	var out []*http.Request
	for _, r := range o.requests {
		if r.URL.Path == path && r.Method == http.MethodGet {
			out = append(out, r)
		}
	}
	return out
}

// since returns when requests of a path came, relative to start, without probes.
func (o *origin) since(start time.Time, path string) []time.Duration {
	o.mu.Lock()
	defer o.mu.Unlock()
	var out []time.Duration
	for i, r := range o.requests {
		if after := o.times[i].Sub(start); r.URL.Path == path && r.Method == http.MethodGet && after > 0 {
			out = append(out, after)
		}
	}
	return out
}

func (o *origin) connected() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.streams
}

func (o *origin) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	o.mu.Lock()
	o.requests, o.times = append(o.requests, r), append(o.times, time.Now())
	watch, get, cur := o.watch, o.get, o.currentLocked()
	noStreams := o.noStreams
	o.mu.Unlock()
	ofStream := r.URL.Path == "/routes/watch" && !noStreams
	switch {
	case ofStream && watch != nil:
		watch(w, r)
	case !ofStream && get != nil:
		get(w, r)
	case cur == nil:
		w.Header().Set("Retry-After", "3")
		w.WriteHeader(http.StatusNotFound)
	case ofStream:
		o.serveStream(w, r)
	default:
		o.serveTable(w, r, cur)
	}
}

// named returns the table of the history that a tag names.
func (o *origin) named(tag string) *table.Table {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, t := range slices.Backward(o.history) {
		if strings.HasPrefix(strings.TrimPrefix(tag, `"`), t.Digest().String()) {
			return t
		}
	}
	return nil
}

func (o *origin) serveTable(w http.ResponseWriter, r *http.Request, cur *table.Table) {
	if r.Header.Get("A-IM") == "eskip-delta" && !o.noDeltas {
		for name := range strings.SplitSeq(r.Header.Get("If-None-Match"), ", ") {
			if base := o.named(name); base != nil && base.Digest() != cur.Digest() {
				sendDelta(w, cur, name, deltaOf(base, cur))
				return
			}
		}
	}
	serveTable(w, r, cur, "")
}

// sendDelta answers with a delta.
func sendDelta(w http.ResponseWriter, cur *table.Table, base, delta string) {
	h := w.Header()
	h.Set("Etag", etagOf(cur, "+zstd"))
	h.Set("IM", "eskip-delta")
	h.Set("Delta-Base", base)
	h.Set("Content-Type", "application/json")
	h.Set("Content-Encoding", "zstd")
	h.Set("X-Count", strconv.Itoa(cur.Len()))
	h.Set("X-Revision", strconv.FormatUint(cur.Revision(), 10))
	h.Set("X-Source-Read", time.Now().UTC().Format("2006-01-02T15:04:05.000Z07:00"))
	body := encode("zstd", []byte(delta))
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(http.StatusIMUsed)
	_, _ = w.Write(body)
}

// wireDelta is the form of the document.
type wireDelta struct {
	Base     string   `json:"base"`
	Target   string   `json:"target"`
	Revision uint64   `json:"revision"`
	Count    int      `json:"count"`
	Deletes  []string `json:"deletes"`
	Upserts  []string `json:"upserts"`
	Later    string   `json:"later,omitempty"` // to be ignored
}

// deltaOf makes a delta of the texts of two tables.
func deltaOf(base, target *table.Table) string {
	byID := func(t *table.Table) map[string]string {
		lines := make(map[string]string)
		for line := range strings.SplitSeq(string(t.Text()), "\n") {
			if id, _, ok := strings.Cut(line, ":"); ok {
				lines[id] = line
			}
		}
		return lines
	}
	was, is := byID(base), byID(target)
	d := wireDelta{
		Base: base.Digest().String(), Target: target.Digest().String(), Revision: target.Revision(), Count: len(is), Later: "x",
		Deletes: []string{"not_there"}, Upserts: []string{},
	}
	for id := range was {
		if _, ok := is[id]; !ok {
			d.Deletes = append(d.Deletes, id)
		}
	}
	for id, line := range is {
		if was[id] != line {
			d.Upserts = append(d.Upserts, line)
		}
	}
	slices.Sort(d.Upserts)
	return mustJSON(d)
}

func mustJSON(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(data)
}

// serveStream serves a stream until the client leaves.
func (o *origin) serveStream(w http.ResponseWriter, r *http.Request) {
	o.mu.Lock()
	o.streams++
	o.mu.Unlock()
	defer func() {
		o.mu.Lock()
		o.streams--
		o.mu.Unlock()
	}()
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Content-Encoding", "gzip")
	gz := gzip.NewWriter(w)
	send := func(text string) {
		o.mu.Lock()
		slow := o.slow
		o.mu.Unlock()
		for _, part := range []string{text[:len(text)/2], text[len(text)/2:]} {
			_, _ = gz.Write([]byte(part))
			_ = gz.Flush()
			_ = http.NewResponseController(w).Flush()
			sleep(r.Context(), slow)
		}
	}
	if o.retry > 0 {
		send(fmt.Sprintf("retry: %d\n\n", o.retry))
	}
	at := o.named(r.Header.Get("Last-Event-ID"))
	for r.Context().Err() == nil {
		switch o.lot() {
		case "mute":
			<-r.Context().Done()
			return
		case "cut":
			panic(http.ErrAbortHandler)
		case "end":
			return
		case "comments":
			for r.Context().Err() == nil {
				send(": still there\n\n")
				sleep(r.Context(), 15*time.Second)
			}
			return
		}
		frames, next, changed := o.turn(at)
		at = next
		for _, f := range frames {
			send(f.String())
		}
		select {
		case <-r.Context().Done():
		case <-changed:
		case <-time.After(15 * time.Second):
			send(": heartbeat\n\n")
		}
	}
}

// doom sets what happens to all streams from now on.
func (o *origin) doom(fate string) { o.change(func() { o.fate = fate }) }

func (o *origin) lot() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.fate
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// turn returns the events that bring a client from a table to the current one.
func (o *origin) turn(at *table.Table) ([]frame, *table.Table, <-chan struct{}) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.changed == nil {
		o.changed = make(chan struct{})
	}
	cur := o.currentLocked()
	tag := etagOf(cur, "")
	var frames []frame
	switch {
	case at == nil || !slices.Contains(o.history, at):
		frames = append(frames, frame{name: "fetch", id: tag})
	case at.Digest() != cur.Digest():
		frames = append(frames, frame{name: "delta", id: tag, data: deltaOf(at, cur)})
	}
	read := o.readAt
	if read.IsZero() {
		read = time.Now()
	}
	says := map[string]any{"revision": cur.Revision(), "count": cur.Len(), "source_read": read.UTC().Format(time.RFC3339Nano), "x": 1}
	if o.state != "" {
		says["state"] = o.state
	}
	frames = append(frames, frame{name: "current", id: tag, data: mustJSON(says)})
	if o.distort != nil {
		frames = o.distort(frames)
	}
	return frames, cur, o.changed
}

// stage is a world whose route servers have deltas and streams.
type stage struct {
	*world
	origins []*origin
	network *localNetwork
}

// newStage makes a stage with n route servers, and no jitter.
func newStage(t testing.TB, n int) *stage {
	t.Helper()
	s := &stage{world: newWorld(t, n), network: &localNetwork{}}
	for i := range n {
		o := &origin{}
		s.origins = append(s.origins, o)
		s.network.Set(string(rune('a'+i)), o)
	}
	s.cfg.Transport = s.network
	s.cfg.UpdateMode = dataplane.Auto
	return s
}

// run starts the loop; the returned function stops it, and waits for all handlers.
func (s *stage) run(c *dataplane.Client) (stop func()) {
	s.t.Helper()
	end := s.world.run(c)
	return func() {
		s.t.Helper()
		end()
		s.network.Wait()
	}
}
