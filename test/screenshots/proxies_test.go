package screenshots

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/routesrv/routesrv/api"
	"github.com/routesrv/routesrv/fleet"
)

// proxy simulates a Skipper: it polls a table, and counts what it would apply.
type proxy struct {
	url    string
	client *http.Client
	name   string      // header with which it says who it is; empty for none
	stuck  atomic.Bool // it names the same old table for ever
	mute   atomic.Bool // it stops asking

	mu      sync.Mutex // guards the fields below
	tag     string
	routes  int
	updates int
	applied time.Time
	served  int // generated number of requests
}

// newProxy returns a proxy with an address of the loopback interface; empty means any.
func newProxy(url, from string) *proxy {
	dialer := &net.Dialer{Timeout: 5 * time.Second}
	if from != "" {
		dialer.LocalAddr = &net.TCPAddr{IP: net.ParseIP(from)}
	}
	return &proxy{url: url, client: &http.Client{Transport: &http.Transport{DialContext: dialer.DialContext}, Timeout: 10 * time.Second}}
}

// run polls until ctx ends.
func (p *proxy) run(ctx context.Context, every time.Duration) {
	defer p.client.CloseIdleConnections()
	for ctx.Err() == nil {
		if !p.mute.Load() {
			p.poll(ctx)
		}
		select {
		case <-time.After(every):
		case <-ctx.Done():
		}
	}
}

// poll requests the table once. Errors are ignored: the next poll retries.
func (p *proxy) poll(ctx context.Context) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, p.url, nil)
	if err != nil {
		return
	}
	p.mu.Lock()
	tag := p.tag
	p.mu.Unlock()
	r.Header.Set("If-None-Match", tag)
	if p.name != "" {
		r.Header.Set(api.HeaderClient, p.name)
	}
	resp, err := p.client.Do(r)
	if err != nil {
		return
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.served += 40 + rand.IntN(25)
	if err != nil || resp.StatusCode != http.StatusOK || p.stuck.Load() && tag != "" {
		return
	}
	p.tag, p.applied = resp.Header.Get("Etag"), time.Now()
	p.routes, _ = strconv.Atoi(resp.Header.Get("X-Count"))
	p.updates++
}

// ServeHTTP serves metrics like a Skipper.
func (p *proxy) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	fmt.Fprintf(w, "skipper_serve_route_count{code=\"200\",method=\"GET\",route=\"r\"} %d\n", p.served)
	fmt.Fprintf(w, "skipper_serve_route_count{code=\"404\",method=\"GET\",route=\"_unknownroute_\"} %d\n", p.served/90)
	fmt.Fprintf(w, "skipper_response_duration_seconds_count{code=\"503\",method=\"GET\",route=\"r\"} %d\n", p.served/700)
	fmt.Fprintf(w, "skipper_custom_total{key=\"incoming.HTTP/1.1\"} %d\n", p.served+p.served/90)
	fmt.Fprintf(w, "skipper_custom_gauges{key=\"routes.total\"} %d\n", p.routes)
	if p.updates > 0 {
		fmt.Fprintf(w, "skipper_custom_gauges{key=\"routes.updated_timestamp\"} %d\n", p.applied.Unix())
		fmt.Fprintf(w, "skipper_custom_duration_seconds_sum{key=\"routes.update_latency\"} 0.5\n")
		fmt.Fprintf(w, "skipper_custom_duration_seconds_count{key=\"routes.update_latency\"} %d\n", p.updates)
	}
	fmt.Fprintf(w, "skipper_route_invalid{reason=\"unknown_filter\",route_id=\"r\"} 1\n")
}

// bare runs proxies that only poll, in pods with names of a Deployment. Of the last two, one keeps an old table, and one falls silent: see lag.
func (s *stage) bare(ctx context.Context, n int) {
	for i := range n {
		p := newProxy("http://"+s.main+"/routes", fmt.Sprintf("127.0.1.%d", 10+i))
		p.name = fleet.Identity{
			Kind: fleet.Sidecar, ID: fmt.Sprintf("kube-system/skipper-ingress-7d9c8b6f5d-%05s", strconv.FormatInt(int64(9_000_017+i*1_234_567), 36)), Pod: true,
			Node: fmt.Sprintf("ip-10-1-%d-%d", i%3, 20+i), Zone: zones[i%len(zones)], Version: "v0.1.0", Mode: "Exec", Interval: 2 * time.Second,
		}.String()
		s.proxies = append(s.proxies, p)
		s.running.Go(func() { p.run(ctx, 2*time.Second) })
	}
}

// lag makes two of them lag.
func (s *stage) lag() {
	s.proxies[len(s.proxies)-1].mute.Store(true)
	s.proxies[len(s.proxies)-2].stuck.Store(true)
}

// metricsOf starts a proxy beside a sidecar, and returns the URL of its metrics.
func (s *stage) metricsOf(ctx context.Context, address string) string {
	p := newProxy("http://"+address+"/routes", "")
	server := httptest.NewServer(p)
	s.running.Go(func() {
		defer server.Close()
		p.run(ctx, time.Second)
	})
	return server.URL + "/metrics"
}
