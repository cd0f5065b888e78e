package etagcache

import (
	"compress/gzip"
	"io"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/routesrv/routesrv/internal/wire"
)

func cacheOfStreams(t *testing.T, limit int) *Cache {
	t.Helper()
	c, err := New(Config{MaxStreams: limit})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func streamOf(c *Cache, client string, since time.Time) *stream {
	return &stream{cache: c, client: netip.MustParseAddrPort(client), since: since, out: &eventWriter{}}
}

func TestStreamsAreCounted(t *testing.T) {
	c := cacheOfStreams(t, 2)
	all := &c.streams
	one, two, three := streamOf(c, "10.0.0.1:1", time.Time{}), streamOf(c, "10.0.0.1:2", time.Time{}), streamOf(c, "10.0.0.1:3", time.Time{})
	open := func(want float64) {
		t.Helper()
		if got := testutil.ToFloat64(c.cfg.Metrics.Streams); got != want {
			t.Errorf("%v streams are counted, want %v", got, want)
		}
	}
	if !all.add(one) || !all.add(two) || all.add(three) {
		t.Error("of three streams not the first two are taken")
	}
	open(2)
	all.remove(one)
	open(1)
	if !all.add(three) {
		t.Error("what has ended leaves no room")
	}
	all.remove(two)
	all.remove(three)
	open(0)
	c.DrainStreams(time.Minute) // there are no streams
	if all.add(one) {
		t.Error("a stream is taken by a server that is about to end")
	}
}

// TestAStreamKeepsNoMemoryForATableThatItWasSent: most streams are idle, and there are many.
func TestAStreamKeepsNoMemoryForATableThatItWasSent(t *testing.T) {
	for _, zipped := range []bool{false, true} {
		w := httptest.NewRecorder()
		e := newEventWriter(w, zipped, cacheOfStreams(t, 1).cfg.Metrics)
		e.begin()
		for _, size := range []int{10, 1 << 20, 10} {
			e.text(strings.Repeat("x", size))
			if err := e.flush(); err != nil {
				t.Fatal(err)
			}
			if kept := cap(e.buf); kept > 4<<10 || size == 10 && kept == 0 {
				t.Errorf("%d bytes are kept after %d were sent", kept, size)
			}
		}
		body := io.Reader(w.Body)
		if sent := e.bytes.Load(); sent != int64(w.Body.Len()) {
			t.Errorf("%d bytes are counted of %d", sent, w.Body.Len())
		}
		if zipped {
			gz, err := gzip.NewReader(body)
			if err != nil {
				t.Fatal(err)
			}
			body = gz
		}
		text, _ := io.ReadAll(body) // the stream continues without end
		if len(text) != 1<<20+20 {
			t.Errorf("%d bytes have come", len(text))
		}
	}
}

// The first call sets the window; each call returns when all streams have ended.
func TestADrainWaitsForAllStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := cacheOfStreams(t, 2)
		one := streamOf(c, "10.0.0.1:1", time.Time{})
		c.streams.add(one)
		returned := make(chan bool, 2)
		for _, window := range []time.Duration{time.Minute, 0} {
			go func() { c.DrainStreams(window); returned <- true }()
			synctest.Wait()
		}
		c.streams.mu.Lock()
		if !c.streams.drained || c.streams.handOver != time.Minute || len(returned) > 0 {
			t.Errorf("window %v, %d calls returned", c.streams.handOver, len(returned))
		}
		c.streams.mu.Unlock()
		c.streams.remove(one)
		synctest.Wait()
		if len(returned) != 2 {
			t.Errorf("%d of 2 calls returned when the stream had ended", len(returned))
		}
	})
}

func TestStreamsAreListedByAgeWithWhatTheyLack(t *testing.T) {
	synctest.Test(t, streamsAreListed)
}

func streamsAreListed(t *testing.T) {
	now := time.Now()
	c := cacheOfStreams(t, 10)
	behind, current := streamOf(c, "10.0.0.9:1", now.Add(-time.Hour)), streamOf(c, "10.0.0.2:1", now)
	third := streamOf(c, "10.0.0.1:1", now)
	for _, s := range []*stream{current, behind, third} {
		c.streams.add(s)
	}
	if got := c.Streams(); got[0].Lag != 0 || !got[0].Digest.IsZero() {
		t.Errorf("before the first table: %+v", got[0])
	}
	first, second := numbered(t, 3, 1, 0), numbered(t, 3, 2, 0)
	c.Publish(first)
	behind.has.Store(&wire.Tag{Digest: first.Digest(), Revision: 1})
	behind.order.Store(c.state.Load().version.readings.order)
	behind.out.bytes.Store(77)
	behind.out.tables.Store(2)
	c.Publish(second)
	current.order.Store(c.state.Load().version.readings.order)
	time.Sleep(3 * time.Second)
	got := c.Streams()
	var clients []string
	for _, s := range got {
		clients = append(clients, s.Client)
	}
	if want := []string{"10.0.0.9:1", "10.0.0.1:1", "10.0.0.2:1"}; !slices.Equal(clients, want) {
		t.Fatalf("order %v, want %v", clients, want)
	}
	if s := got[0]; s.Lag != 3 || s.Digest != first.Digest() || s.Revision != 1 || s.Bytes != 77 || s.Tables != 2 || s.Compressed {
		t.Errorf("of the client that is behind: %+v", s)
	}
	if s := got[2]; s.Lag != 0 {
		t.Errorf("of the client that has the table: %+v", s)
	}
}
