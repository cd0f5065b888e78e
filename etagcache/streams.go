package etagcache

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/routesrv/routesrv/table"
)

// streams holds all open streams.
type streams struct {
	max int // set by New, read only

	mu       sync.Mutex
	open     map[*stream]struct{}
	running  sync.WaitGroup // of the open streams; no stream is added once drained
	drained  bool           // the streams must end
	draining chan struct{}  // closed then
	handOver time.Duration  // over which they end; set before
}

// add registers a stream. It returns false when the limit is reached or the server is shutting down.
func (s *streams) add(one *stream) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.drained || len(s.open) >= s.max {
		return false
	}
	s.open[one] = struct{}{}
	s.running.Add(1)
	one.cache.cfg.Metrics.Streams.Set(float64(len(s.open)))
	return true
}

func (s *streams) remove(one *stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, one)
	one.cache.cfg.Metrics.Streams.Set(float64(len(s.open)))
	s.running.Done()
}

// StreamStatus is the state of one stream.
type StreamStatus struct {
	Client     string       `json:"client"` // address and port
	Zone       string       `json:"zone,omitempty"`
	Since      time.Time    `json:"since"`
	Digest     table.Digest `json:"digest"`      // of the client's table; zero before the first one
	Revision   uint64       `json:"revision"`    // of the client's table
	Lag        float64      `json:"lag_seconds"` // for how long there has been a newer table; 0 if there is none
	Bytes      int64        `json:"bytes"`       // sent, after compression
	Tables     int64        `json:"tables"`      // full tables sent
	Compressed bool         `json:"compressed"`
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

// Streams lists the open streams, the oldest first.
func (c *Cache) Streams() []StreamStatus {
	c.streams.mu.Lock()
	all := make([]*stream, 0, len(c.streams.open))
	for s := range c.streams.open {
		all = append(all, s)
	}
	c.streams.mu.Unlock()
	v := c.state.Load().version
	statuses := make([]StreamStatus, 0, len(all))
	for _, s := range all {
		one := StreamStatus{Client: s.client.String(), Zone: s.zone, Since: s.since}
		if has := s.has.Load(); has != nil {
			one.Digest, one.Revision = has.Digest, has.Revision
		}
		if v != nil && s.order.Load() < v.readings.order {
			one.Lag = time.Since(v.published).Seconds()
		}
		one.Bytes, one.Tables, one.Compressed = s.out.bytes.Load(), s.out.tables.Load(), s.out.zipped
		statuses = append(statuses, one)
	}
	slices.SortFunc(statuses, func(a, b StreamStatus) int { return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.Client, b.Client)) })
	return statuses
}
