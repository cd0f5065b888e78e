package tracing_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/goleak"

	"github.com/routesrv/routesrv/app/tracing"
	"github.com/routesrv/routesrv/etagcache"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is the longest that anything may take before a test gives up.
const patience = time.Minute

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// reply is a response of a collector.
func reply(status int, body string) (*http.Response, error) {
	return &http.Response{StatusCode: status, Status: http.StatusText(status), Body: io.NopCloser(strings.NewReader(body))}, nil
}

func newTracer(t *testing.T, url string, transport http.RoundTripper) (*tracing.Tracer, *prometheus.Registry) {
	t.Helper()
	registry := prometheus.NewRegistry()
	tr, err := tracing.New(context.Background(), tracing.Config{Endpoint: url, Transport: transport, Sample: 1, Service: "test", Registry: registry})
	if err != nil {
		t.Fatal(err)
	}
	return tr, registry
}

// spans makes n spans.
func spans(tr *tracing.Tracer, n int) {
	for range n {
		tr.Saw(etagcache.Seen{Sent: etagcache.Sent{Status: http.StatusNotModified, Began: time.Now(), Ended: time.Now()}})
	}
}

// counts returns the numbers of spans by outcome.
func counts(t *testing.T, registry *prometheus.Registry) map[string]int {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	all := make(map[string]int)
	for _, f := range families {
		for _, m := range f.Metric {
			all[m.Label[0].GetValue()] = int(m.Counter.GetValue())
		}
	}
	return all
}

// TestCollectorThatHangsDelaysNobody: spans beyond the queue are dropped at once, and the shutdown waits no longer than the
// flush.
func TestCollectorThatHangsDelaysNobody(t *testing.T) {
	asked, over := make(chan struct{}, 100), make(chan struct{})
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		asked <- struct{}{}
		_, _ = io.Copy(io.Discard, r.Body)
		select {
		case <-over:
		case <-r.Context().Done():
		}
	}))
	defer collector.Close()
	defer close(over)
	tr, registry := newTracer(t, collector.URL, nil)
	spans(tr, 512)
	select {
	case <-asked:
	case <-time.After(patience):
		t.Fatal("nothing was sent")
	}
	spans(tr, 3000)
	done := make(chan struct{})
	go func() {
		tr.Close()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(patience):
		t.Fatal("the end waits for a collector that hangs")
	}
	if got := counts(t, registry); got["sent"] != 0 {
		t.Errorf("got %v, want no span sent", got)
	}
}

func TestFlushHasALimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr, registry := newTracer(t, "http://collector/v1/traces", roundTrip(func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		}))
		spans(tr, 2000)
		start := time.Now()
		tr.Close()
		if took := time.Since(start); took != tracing.FlushTimeout {
			t.Errorf("the flush took %v, want %v", took, tracing.FlushTimeout)
		}
		if got := counts(t, registry); got["sent"] != 0 {
			t.Errorf("got %v, want no span sent", got)
		}
	})
}

// TestBusyCollectorIsAskedAgain: spans are retried, and a collector that refuses them is not asked again.
func TestBusyCollectorIsAskedAgain(t *testing.T) {
	for name, c := range map[string]struct {
		answer func(n int32) (*http.Response, error)
		asked  int32
		want   map[string]int
	}{
		"busy, then free": {func(n int32) (*http.Response, error) {
			if n < 3 {
				return reply(http.StatusServiceUnavailable, "")
			}
			return reply(http.StatusOK, "")
		}, 3, map[string]int{"sent": 5}},
		"away":      {func(int32) (*http.Response, error) { return nil, errors.New("connection refused") }, 1, map[string]int{"failed": 5}},
		"refuses":   {func(int32) (*http.Response, error) { return reply(http.StatusUnauthorized, "") }, 1, map[string]int{"failed": 5}},
		"redirects": {func(int32) (*http.Response, error) { return reply(http.StatusFound, "") }, 1, map[string]int{"failed": 5}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var asked atomic.Int32
				tr, registry := newTracer(t, "http://collector/v1/traces", roundTrip(func(*http.Request) (*http.Response, error) {
					return c.answer(asked.Add(1))
				}))
				spans(tr, 5)
				time.Sleep(time.Minute)
				tr.Close()
				if asked.Load() != c.asked {
					t.Errorf("asked %d times, want %d", asked.Load(), c.asked)
				}
				got := counts(t, registry)
				for _, result := range []string{"sent", "failed"} {
					if got[result] != c.want[result] {
						t.Errorf("got %v, want %v", got, c.want)
					}
				}
			})
		})
	}
}

func TestSeriesExistBeforeTheFirstSpan(t *testing.T) {
	tr, registry := newTracer(t, "http://c/v1/traces", nil)
	if testutil.CollectAndCount(registry) == 0 {
		t.Error("no series before the first span")
	}
	tr.Close()
}
