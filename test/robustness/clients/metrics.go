package clients

import (
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"
)

// metrics are those of a mortal client, as its data plane reads them from a Skipper.
type metrics struct {
	mu      sync.Mutex // guards the fields below
	started time.Time
	applied time.Time // zero before the first table
	seen    bool      // they were read since the process started
}

// serve answers requests for the metrics until stop is called.
func (m *metrics) serve(address string) (stop func(), err error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	m.restarted()
	server := &http.Server{Handler: m}
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(l) })
	return func() { _ = server.Close(); serving.Wait() }, nil
}

func (m *metrics) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.seen = true
	fmt.Fprintf(w, "process_start_time_seconds %f\nskipper_custom_total{key=\"incoming.HTTP/1.1\"} 1\n", float64(m.started.UnixMilli())/1000)
	if !m.applied.IsZero() {
		fmt.Fprintf(w, "skipper_custom_gauges{key=\"routes.total\"} 1\nskipper_custom_gauges{key=\"routes.updated_timestamp\"} %d\n", m.applied.Unix())
	}
}

func (m *metrics) restarted() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.started, m.applied, m.seen = time.Now(), time.Time{}, false
}

// wasSeen reports whether the metrics of this process were read.
func (m *metrics) wasSeen() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.seen
}

func (m *metrics) hasApplied() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.applied = time.Now()
}
