package source_test

import (
	"context"
	"fmt"
	"net/http"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/rest"

	"github.com/routesrv/routesrv/compile/rules"
	"github.com/routesrv/routesrv/poller"
	"github.com/routesrv/routesrv/publish"
	"github.com/routesrv/routesrv/source/cluster"
	"github.com/routesrv/routesrv/table"
	"github.com/routesrv/routesrv/test/kubetest"
)

// outage is an API server that can be down. It counts the requests during and after the outage.
type outage struct {
	up     http.RoundTripper
	how    atomic.Pointer[string] // nil: it is up
	back   chan struct{}          // closed when it is up again
	asked  atomic.Int64
	full   atomic.Int64 // requests for whole lists, or watches that begin with everything
	probes atomic.Int64
}

func (o *outage) RoundTrip(r *http.Request) (*http.Response, error) {
	o.asked.Add(1)
	switch q := r.URL.Query(); {
	case q.Get("limit") == "1", r.URL.Path == kubetest.Discovery:
		o.probes.Add(1)
	case q.Get("watch") == "" || q.Get("sendInitialEvents") != "":
		o.full.Add(1)
	}
	how := o.how.Load()
	switch {
	case how == nil:
		return o.up.RoundTrip(r)
	case *how == "hangs":
		select {
		case <-o.back:
			return o.up.RoundTrip(r)
		case <-r.Context().Done():
			return nil, r.Context().Err()
		}
	case *how == "503":
		return &http.Response{StatusCode: 503, Header: http.Header{}, Body: http.NoBody, Request: r}, nil
	default:
		return nil, syscall.ECONNREFUSED
	}
}

// TestServesWithinAnIntervalAfterAnOutage takes the API down for a while, changes an object meanwhile, and expects the change to
// be published within a poll interval and a second of the moment when the API answers again.
func TestServesWithinAnIntervalAfterAnOutage(t *testing.T) {
	const interval = 3 * time.Second
	for _, mode := range []string{"poll", "watch"} {
		for _, how := range []string{"refuses", "503", "hangs"} {
			for _, length := range []time.Duration{10 * time.Second, 30 * time.Second, time.Minute, 10 * time.Minute} {
				t.Run(fmt.Sprint(mode, " ", how, " ", length), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) { testOutage(t, mode, how, interval, length) })
				})
			}
		}
	}
}

const outageService = `
apiVersion: v1
kind: Service
metadata: {name: s, namespace: shop}
spec: {clusterIP: 10.3.0.1, ports: [{port: 80, targetPort: 8080}]}
---`

const outageObjects = `
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: %s, namespace: shop}
spec: {rules: [{host: a.example.org, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: s, port: {number: 80}}}}]}}]}
`

// channelSink sends every published table to a channel.
type channelSink struct {
	last *table.Table
	to   chan *table.Table
}

func (c *channelSink) Restore(*table.Table, time.Time) {}
func (c *channelSink) Publish(t *table.Table)          { c.last = t; c.to <- t }

func (c *channelSink) Begin() func(*table.Table, table.Read) {
	return func(t *table.Table, _ table.Read) {
		if t != nil && t != c.last {
			c.Publish(t)
		}
	}
}

func testOutage(t *testing.T, mode, how string, interval, length time.Duration) {
	server, err := kubetest.New(fmt.Appendf(nil, outageService+outageObjects, "before"), kubetest.API{})
	if err != nil {
		t.Fatal(err)
	}
	server.SetRevision(100)
	api := &outage{up: localTransport(server), back: make(chan struct{})}
	config := cluster.Config{REST: &rest.Config{Host: "http://fake", Transport: api}, Timeout: 5 * time.Second}
	var source poller.Source
	if mode == "poll" {
		source, err = cluster.New(config)
	} else {
		source, err = cluster.NewWatcher(config)
	}
	if err != nil {
		t.Fatal(err)
	}
	published := make(chan *table.Table, 100)
	compiler, err := poller.NewCompiler(rules.Options{}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	g, err := publish.New(publish.Config{Sink: &channelSink{to: published}, Builder: compiler})
	if err != nil {
		t.Fatal(err)
	}
	e, err := poller.New(poller.Config{
		Source: source, Compile: compiler.Compile, Publisher: g,
		Interval: interval, MaxBackoff: 15 * time.Second, ProbeInterval: time.Second,
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := e.Run(ctx); err != nil {
			t.Errorf("Run: %v", err)
		}
	}()
	defer func() {
		cancel()
		<-done
	}()
	select {
	case <-published:
	case <-time.After(time.Minute):
		t.Fatalf("nothing is published: %+v", e.Status())
	}
	time.Sleep(20 * time.Second)
	synctest.Wait()

	api.how.Store(&how)
	for _, path := range []string{
		"/apis/networking.k8s.io/v1/ingresses", "/apis/zalando.org/v1/routegroups", "/api/v1/services", "/api/v1/endpoints",
	} {
		server.DropWatches(path)
	}
	api.asked.Store(0)
	api.full.Store(0)
	if err := server.Apply(fmt.Sprintf(outageObjects, "meanwhile")); err != nil {
		t.Fatal(err)
	}
	time.Sleep(length)
	synctest.Wait()
	if e.Status().Failures == 0 && length > 35*time.Second {
		t.Error("no read has failed")
	}
	// Each kind once before an error is noticed, and a few more.
	if n := api.full.Load(); n > 10 {
		t.Errorf("%d requests for everything during the outage", n)
	}
	if n, most := api.asked.Load(), int64(length/time.Second)*20; n > most {
		t.Errorf("%d requests during the outage, want %d at most", n, most)
	}

	api.how.Store(nil)
	close(api.back)
	begin := time.Now()
	select {
	case <-published:
		if d := time.Since(begin); d > interval+time.Second {
			t.Errorf("published %v after the API was back, want within %v", d, interval+time.Second)
		}
	case <-time.After(time.Hour):
		t.Error("nothing is published after the outage")
	}
	for e.Status().Failures > 0 && time.Since(begin) < time.Hour {
		time.Sleep(100 * time.Millisecond)
	}
	if d := time.Since(begin); d > interval+time.Second {
		t.Errorf("reads succeed %v after the API was back, want within %v", d, interval+time.Second)
	}
}
