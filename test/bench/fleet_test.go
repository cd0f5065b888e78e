package bench

import (
	"context"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"time"
)

// pollInterval is the interval of the clients.
const pollInterval = 3 * time.Second

// fleet is a number of clients that poll a route server like unmodified proxies.
type fleet struct {
	url     string
	clients int
	deltas  bool // the clients accept deltas
	done    sync.WaitGroup

	mu      sync.Mutex
	changed sync.Cond
	updated int             // clients that have received a table since the last reset
	sent    int64           // bytes of bodies since the last reset
	times   []time.Duration // of the full tables since the last reset
}

func newFleet(ctx context.Context, url string, clients int, deltas bool) *fleet {
	f := &fleet{url: url, clients: clients, deltas: deltas}
	f.changed.L = &f.mu
	for range clients {
		f.done.Go(func() { f.client(ctx) })
	}
	return f
}

// client polls until ctx ends, with a new connection each time.
func (f *fleet) client(ctx context.Context) {
	client := &http.Client{
		Transport: &http.Transport{DisableKeepAlives: true, DisableCompression: true},
		Timeout:   10 * time.Second,
	}
	etag := ""
	wait := time.NewTimer(rand.N(pollInterval))
	defer wait.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-wait.C:
		}
		wait.Reset(pollInterval)
		start := time.Now()
		n, next, err := f.get(ctx, client, etag)
		if err != nil || next == etag {
			continue
		}
		etag = next
		f.mu.Lock()
		f.updated++
		f.sent += n
		f.times = append(f.times, time.Since(start))
		f.changed.Broadcast()
		f.mu.Unlock()
	}
}

func (f *fleet) get(ctx context.Context, c *http.Client, etag string) (n int64, next string, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, f.url, nil)
	if err != nil {
		return 0, etag, err
	}
	r.Header.Set("Accept-Encoding", "gzip")
	if etag != "" {
		r.Header.Set("If-None-Match", etag)
	}
	if f.deltas {
		r.Header.Set("A-IM", "eskip-delta")
	}
	resp, err := c.Do(r)
	if err != nil {
		return 0, etag, err
	}
	defer resp.Body.Close()
	n, err = io.Copy(io.Discard, resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK && resp.StatusCode != http.StatusIMUsed {
		return n, etag, err
	}
	return n, resp.Header.Get("Etag"), nil
}

func (f *fleet) reset() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.updated, f.sent, f.times = 0, 0, nil
}

// arrived waits until every client has received a table.
func (f *fleet) arrived() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for f.updated < f.clients {
		f.changed.Wait()
	}
}

// figures returns the bytes sent for the last change, and the time of a full table.
func (f *fleet) figures() (sent int64, p50, p99 time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	slices.Sort(f.times)
	return f.sent, f.times[len(f.times)/2], f.times[len(f.times)*99/100]
}

func (f *fleet) wait() { f.done.Wait() }
