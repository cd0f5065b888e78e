package etagcache

import (
	"sync"
	"time"
)

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

// DrainStreams ends all streams, spread over the window of the first call, each with an event that asks its client to reconnect to any
// server. It accepts no new streams from now on, and returns when all have ended.
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
