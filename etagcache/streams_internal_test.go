package etagcache

import (
	"compress/gzip"
	"io"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
)

func cacheOfStreams(t *testing.T, limit int) *Cache {
	t.Helper()
	c, err := New(Config{MaxStreams: limit})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestStreamsAreCounted(t *testing.T) {
	c := cacheOfStreams(t, 2)
	all := &c.streams
	open := func(want float64) {
		t.Helper()
		if got := testutil.ToFloat64(c.cfg.Metrics.Streams); got != want {
			t.Errorf("%v streams are counted, want %v", got, want)
		}
	}
	for i, want := range []bool{true, true, false} {
		if got := all.add(); got != want {
			t.Errorf("stream %d is taken: %v, want %v", i+1, got, want)
		}
	}
	open(2)
	all.remove()
	open(1)
	if !all.add() {
		t.Error("what has ended leaves no room")
	}
	all.remove()
	all.remove()
	open(0)
	c.DrainStreams(time.Minute) // there are no streams
	if all.add() {
		t.Error("a stream is taken by a server that is about to end")
	}
}

// TestAStreamKeepsNoMemoryForATableThatItWasSent: most streams are idle, and there are many.
func TestAStreamKeepsNoMemoryForATableThatItWasSent(t *testing.T) {
	for _, enc := range []encoding{identity, gzipped} {
		w := httptest.NewRecorder()
		e := newEventWriter(w, enc, cacheOfStreams(t, 1).cfg.Metrics)
		e.begin()
		for _, size := range []int{10, 1 << 15, 10} {
			e.text(strings.Repeat("x", size))
			if err := e.flush(); err != nil {
				t.Fatal(err)
			}
			if kept := cap(e.buf); kept > 4<<10 || size == 10 && kept == 0 {
				t.Errorf("%d bytes are kept after %d were sent", kept, size)
			}
		}
		body := io.Reader(w.Body)
		if sent := e.bytes; sent != w.Body.Len() {
			t.Errorf("%d bytes are counted of %d", sent, w.Body.Len())
		}
		if enc == gzipped {
			gz, err := gzip.NewReader(body)
			if err != nil {
				t.Fatal(err)
			}
			body = gz
		}
		text, _ := io.ReadAll(body) // the stream continues without end
		if len(text) != 1<<15+20 {
			t.Errorf("%d bytes have come", len(text))
		}
	}
}

// The first call sets the window; each call returns when all streams have ended.
func TestADrainWaitsForAllStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := cacheOfStreams(t, 2)
		c.streams.add()
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
		c.streams.remove()
		synctest.Wait()
		if len(returned) != 2 {
			t.Errorf("%d of 2 calls returned when the stream had ended", len(returned))
		}
	})
}
