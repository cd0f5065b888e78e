package etagcache_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/routesrv/routesrv/api"
	"github.com/routesrv/routesrv/etagcache"
	"github.com/routesrv/routesrv/table"
)

// ask calls the handler without a network, with the given remote address.
func ask(c http.Handler, path, etag, remote string) *httptest.ResponseRecorder {
	req := httptest.NewRequest(http.MethodGet, path, nil)
	req.RemoteAddr = remote
	if etag != "" {
		req.Header.Set("If-None-Match", etag)
	}
	w := httptest.NewRecorder()
	c.ServeHTTP(w, req)
	return w
}

// versions makes tables whose number of routes is their revision, with zones.
func versions(t testing.TB, n int) []*table.Table {
	t.Helper()
	var tabs []*table.Table
	var doc strings.Builder
	for i := range n {
		fmt.Fprintf(&doc, `r%d: * -> <"http://10.0.0.1?zone=a", "http://10.0.0.2?zone=a", "http://10.0.0.3?zone=a", "http://10.0.0.4?zone=b">;`, i)
		tabs = append(tabs, parseTable(t, doc.String(), uint64(i+1), start))
	}
	return tabs
}

func TestResponseComesFromOneTableWhilePublishing(t *testing.T) {
	tabs := versions(t, 30)
	byETag := make(map[string]string)
	for _, tab := range tabs {
		for _, variant := range []*table.Table{tab, tab.Zone("a")} {
			byETag[fmt.Sprintf("%q", fmt.Sprintf("%s.%d", variant.Digest(), variant.Revision()))] = string(variant.Text())
		}
	}
	c := newCache(t, etagcache.Config{})
	handler := c.Handler()
	done := make(chan struct{})
	var readers sync.WaitGroup
	for i, path := range []string{"/routes", "/routes/a", "/routes/b", "/routes"} {
		readers.Go(func() {
			etag := ""
			for {
				select {
				case <-done:
					return
				default:
				}
				w := ask(handler, path, etag, fmt.Sprintf("192.0.2.%d:1", i))
				switch w.Code {
				case http.StatusNotFound:
				case http.StatusNotModified:
					if got := w.Header().Get("Etag"); got != etag {
						t.Errorf("304 with %s to a client that named %s", got, etag)
					}
				case http.StatusOK:
					etag = w.Header().Get("Etag")
					text := w.Body.String()
					if byETag[etag] != text {
						t.Errorf("%s: the body of %s is of another table", path, etag)
					}
					if got, want := w.Header().Get("X-Count"), fmt.Sprint(strings.Count(text, ";")); got != want {
						t.Errorf("X-Count is %s, the body has %s routes", got, want)
					}
					if got, want := w.Header().Get("Content-Length"), fmt.Sprint(len(text)); got != want {
						t.Errorf("Content-Length is %s for %s bytes", got, want)
					}
				default:
					t.Errorf("status %d", w.Code)
				}
			}
		})
	}
	for _, tab := range tabs {
		poll(c, tab, tab.Revision(), start)
	}
	close(done)
	readers.Wait()
}

func TestClaimsOfOneClientDoNotTouchThoseOfOthers(t *testing.T) {
	c := newCache(t, etagcache.Config{})
	tabs := versions(t, 2)
	poll(c, tabs[0], 10, start)
	handler := c.Handler()
	claim := func(revision int) string {
		return fmt.Sprintf("%q", fmt.Sprintf("%s.%d", tabs[1].Digest(), revision))
	}
	flood := func() {
		for i := range 2000 {
			if w := ask(handler, "/routes", claim(1_000_000+i), "203.0.113.9:1"); w.Code != http.StatusNotModified {
				t.Fatalf("claim %d: status %d before any poll, want 304", i, w.Code)
			}
		}
	}
	flood()
	honest := claim(500)
	if w := ask(handler, "/routes", honest, "192.0.2.1:1"); w.Code != http.StatusNotModified {
		t.Fatalf("status %d, want 304", w.Code)
	}
	flood()
	if got := len(c.Claims()); got > 10 {
		t.Errorf("%d claims remembered, want a few for each client", got)
	}
	again(c, at(11, start))
	if w := ask(handler, "/routes", honest, "192.0.2.1:1"); w.Code != http.StatusOK {
		t.Errorf("status %d for the refuted claim of an honest client, want 200", w.Code)
	}
	if w := ask(handler, "/routes", claim(501), "192.0.2.2:1"); w.Code != http.StatusNotModified {
		t.Errorf("status %d for a new claim, want 304", w.Code)
	}
}

func TestClaimsAreBounded(t *testing.T) {
	c := newCache(t, etagcache.Config{})
	tabs := versions(t, 2)
	poll(c, tabs[0], 10, start)
	handler := c.Handler()
	for i := range 3000 {
		etag := fmt.Sprintf("%q", fmt.Sprintf("%s.%d", tabs[1].Digest(), 100+i))
		ask(handler, "/routes", etag, fmt.Sprintf("10.0.%d.%d:1", i/200, i%200))
	}
	if got := len(c.Claims()); got > 256 {
		t.Errorf("%d claims remembered, want at most 256", got)
	}
}

func TestLatePollCompletionIsIgnored(t *testing.T) {
	c := newCache(t, etagcache.Config{})
	tab := versions(t, 1)[0]
	first, second := c.Begin(), c.Begin()
	second(tab.WithRevision(20), at(20, start))
	first(c.Current(), at(15, start))
	first(nil, table.Read{Held: true})
	if got := c.Status().ReadRevision; got != 20 {
		t.Errorf("read revision %d after a late completion, want 20", got)
	}
}

func TestStatusAndCurrent(t *testing.T) {
	c := newCache(t, etagcache.Config{})
	if c.Current() != nil || c.Status() != nil {
		t.Errorf("got %v, %+v before the first table", c.Current(), c.Status())
	}
	tab := versions(t, 1)[0]
	c.Restore(tab, start)
	want := &api.Table{ // it is unknown up to which revision it is complete
		Digest: tab.Digest(), Revision: 1, ReadRevision: 1, Routes: tab.Len(), Bytes: tab.Bytes(), Zones: []string{"a", "b"}, Time: tab.Time(), LastRead: start, Stale: true,
	}
	got := c.Status()
	if got.AgeSeconds <= 0 {
		t.Errorf("age %v", got.AgeSeconds)
	}
	got.AgeSeconds = 0
	if diff := cmp.Diff(want, got); c.Current() != tab || diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestConfigIsChecked(t *testing.T) {
	for name, cfg := range map[string]etagcache.Config{
		"max streams": {MaxStreams: -1},
	} {
		if c, err := etagcache.New(cfg); err == nil || c != nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%+v: %v, want an error about %s", cfg, err, name)
		}
	}
}

func TestMetrics(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	metrics := etagcache.NewMetrics(reg)
	c := newCache(t, etagcache.Config{Metrics: metrics})
	tab := versions(t, 2)[1]
	show(c, tab, table.Read{Oldest: 5, Newest: 7, At: start})
	w := ask(c.Handler(), "/routes", "", "192.0.2.1:1")
	ask(c.Handler(), "/routes", w.Header().Get("Etag"), "192.0.2.1:1")

	for name, check := range map[string]struct {
		got  prometheus.Collector
		want float64
	}{
		"200":       {metrics.Responses.WithLabelValues("200", "identity"), 1},
		"304":       {metrics.Responses.WithLabelValues("304", "identity"), 1},
		"sent":      {metrics.SentBytes.WithLabelValues("identity"), float64(tab.Bytes())},
		"routes":    {metrics.TableRoutes, 2},
		"bytes":     {metrics.TableBytes.WithLabelValues("identity"), float64(tab.Bytes())},
		"read":      {metrics.ReadRevision, 7},
		"complete":  {metrics.Complete, 5},
		"last read": {metrics.LastRead, float64(start.UnixMilli()) / 1000},
	} {
		if got := testutil.ToFloat64(check.got); got != check.want {
			t.Errorf("%s: got %v, want %v", name, got, check.want)
		}
	}
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	problems, err := promlint.NewWithMetricFamilies(families).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

// FuzzRequestHeaders sends arbitrary conditional headers. Whatever they are, the response is one of the matrix, and only a
// request that names this table or claims a newer one gets a 304.
func FuzzRequestHeaders(f *testing.F) {
	tab := versions(f, 1)[0]
	digest := tab.Digest().String()
	f.Add(`"`+digest+`.5+gzip"`, "gzip;q=0.5, *;q=0", "bytes=0-1")
	f.Add(`W/"`+digest+`", "x"`, "", "")
	f.Add(`*`, "zstd", "bytes=-1,5-")
	f.Add(`"`+strings.Repeat("0", 64)+`.99~4294967295+zstd"`, "identity;q=0", "x")
	c := newCache(f, etagcache.Config{})
	poll(c, tab, 5, start)
	handler := c.Handler()
	f.Fuzz(func(t *testing.T, etag, encoding, ranges string) {
		req := httptest.NewRequest(http.MethodGet, "/routes", nil)
		for name, value := range map[string]string{"If-None-Match": etag, "Accept-Encoding": encoding, "Range": ranges} {
			if value != "" {
				req.Header.Set(name, value)
			}
		}
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, req)
		switch w.Code {
		case http.StatusOK:
			if text := decode(t, w.Header().Get("Content-Encoding"), w.Body.Bytes()); text != string(tab.Text()) {
				t.Errorf("body %q", text)
			}
		case http.StatusNotModified:
			if !strings.Contains(etag, digest) && !strings.Contains(etag, "*") && !strings.Contains(etag, ".") {
				t.Errorf("304 to %q", etag)
			}
			if _, err := io.ReadAll(w.Body); err != nil || w.Body.Len() > 0 {
				t.Error("304 with a body")
			}
		case http.StatusPartialContent, http.StatusRequestedRangeNotSatisfiable:
			if ranges == "" {
				t.Errorf("status %d without Range", w.Code)
			}
		default:
			t.Errorf("status %d", w.Code)
		}
	})
}
