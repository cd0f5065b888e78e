package server_test

import (
	"compress/gzip"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/routesrv/routesrv/app/server"
	"github.com/routesrv/routesrv/app/tracing"
)

// collector receives spans by OTLP over HTTP.
type collector struct {
	url string

	mu       sync.Mutex
	spans    []*tracepb.Span
	resource map[string]string
	wrong    []string
}

func newCollector(t *testing.T) *collector {
	c := &collector{}
	s := httptest.NewServer(c)
	t.Cleanup(s.Close)
	c.url = s.URL + "/v1/traces"
	return c
}

func (c *collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var data tracepb.TracesData
	zipped, err := gzip.NewReader(r.Body)
	if err == nil {
		var body []byte
		if body, err = io.ReadAll(zipped); err == nil {
			err = proto.Unmarshal(body, &data)
		}
	}
	if err != nil || r.Method != http.MethodPost || r.Header.Get("Content-Type") != "application/x-protobuf" || r.Header.Get("Authorization") != "Bearer x" {
		c.wrong = append(c.wrong, r.Method+" "+r.Header.Get("Content-Type"))
	}
	for _, rs := range data.ResourceSpans {
		c.resource = attributes(rs.Resource.Attributes)
		for _, ss := range rs.ScopeSpans {
			c.spans = append(c.spans, ss.Spans...)
		}
	}
}

func attributes(all []*commonpb.KeyValue) map[string]string {
	m := make(map[string]string)
	for _, kv := range all {
		if m[kv.Key] = kv.Value.GetStringValue(); m[kv.Key] == "" {
			m[kv.Key] = strings.TrimSpace(strings.TrimPrefix(kv.Value.String(), "int_value:"))
		}
	}
	return m
}

// named returns the spans of a name for which ok holds.
func (c *collector) named(name string, ok func(*tracepb.Span) bool) (found []*tracepb.Span) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.spans {
		if s.Name == name && ok(s) {
			found = append(found, s)
		}
	}
	return found
}

// traced starts a server that sends traces to the collector.
func traced(t *testing.T, c *collector, sample float64, change func(*server.Config)) *fixture {
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "Authorization=Bearer%20x")
	return start(t, ingresses("a")+service, func(cfg *server.Config) {
		var err error
		cfg.Tracing, err = tracing.New(t.Context(), tracing.Config{
			Endpoint: c.url, Sample: sample, Service: "routesrv", Version: "v1.2.3",
			Registry: cfg.Registry,
		})
		if err != nil {
			t.Fatal(err)
		}
		if cfg.MaxStreams = 4; change != nil {
			change(cfg)
		}
	})
}

// digestOf returns the digest of an ETag.
func digestOf(etag string) string { return etag[1:65] }

func TestAChangeCanBeFollowedFromItsReadToAClient(t *testing.T) {
	c := newCollector(t)
	f := traced(t, c, 0, nil)
	f.ready()
	first := f.get("/routes").header.Get("ETag")
	f.apply(ingress("b"))
	var second string
	f.eventually("new table", func() bool {
		second = f.get("/routes", "If-None-Match: "+first).header.Get("ETag")
		return digestOf(second) != digestOf(first)
	})
	for range 3 {
		f.get("/routes", "If-None-Match: "+second)
	}
	f.polled() // reads without a change
	if err := f.stop(); err != nil {
		t.Fatal(err)
	}
	if len(c.wrong) > 0 {
		t.Errorf("requests to the collector that are not as they should be: %q", c.wrong)
	}
	if c.resource["service.name"] != "routesrv" || c.resource["service.version"] != "v1.2.3" || c.resource["service.instance.id"] == "" {
		t.Errorf("attributes of the process: %v", c.resource)
	}
	for _, etag := range []string{first, second} {
		of := func(s *tracepb.Span) bool { return attributes(s.Attributes)["routesrv.digest"] == digestOf(etag) }
		publish, serve := c.named("publish", of), c.named("serve_routes", of)
		if len(publish) != 1 || len(serve) != 1 {
			t.Fatalf("%s: %d publish spans and %d serve_routes spans, want one of each", etag, len(publish), len(serve))
		}
		p := publish[0]
		below := func(s *tracepb.Span) bool {
			return slices.Equal(s.TraceId, p.TraceId) && slices.Equal(s.ParentSpanId, p.ParentSpanId)
		}
		polls := c.named("poll_routes", func(s *tracepb.Span) bool { return slices.Equal(s.SpanId, p.ParentSpanId) })
		if len(polls) != 1 || len(c.named("read", below)) != 1 || len(c.named("compile", below)) != 1 {
			t.Errorf("%s: the trace of the read has %d poll_routes, %d read, %d compile; want one of each", etag, len(polls),
				len(c.named("read", below)), len(c.named("compile", below)))
		} else if polls[0].StartTimeUnixNano > p.StartTimeUnixNano || polls[0].EndTimeUnixNano < p.EndTimeUnixNano || len(polls[0].ParentSpanId) > 0 {
			t.Errorf("%s: the read is not around what it published: %v, %v", etag, polls[0], p)
		}
		if l := serve[0].Links; len(l) != 1 || !slices.Equal(l[0].SpanId, p.SpanId) || !slices.Equal(l[0].TraceId, p.TraceId) {
			t.Errorf("%s: links of the answer %v, want one to %s", etag, l, hex.EncodeToString(p.SpanId))
		}
	}
	if n := len(c.named("poll_routes", func(*tracepb.Span) bool { return true })); n != 2 {
		t.Errorf("%d reads are traced, want the two that published", n)
	}
}

// TestSampledTracesHaveWhatChangesNothing: and no name of a host or an object.
func TestSampledTracesHaveWhatChangesNothing(t *testing.T) {
	c := newCollector(t)
	f := traced(t, c, 1, func(cfg *server.Config) { cfg.StateDir = t.TempDir() })
	f.ready()
	etag := f.get("/routes").header.Get("ETag")
	f.get("/routes", "If-None-Match: "+etag)
	f.polled()
	f.breakSource(true)
	f.logged("failed to fetch routes")
	if err := f.stop(); err != nil {
		t.Fatal(err)
	}
	if n := len(c.named("serve_routes", func(s *tracepb.Span) bool {
		return attributes(s.Attributes)["http.response.status_code"] == "304" && len(s.Links) == 0
	})); n != 1 {
		t.Errorf("%d answers 304 without a link, want one", n)
	}
	for _, result := range []string{"changed", "unchanged", "error"} {
		found := c.named("poll_routes", func(s *tracepb.Span) bool { return attributes(s.Attributes)["routesrv.result"] == result })
		if len(found) == 0 {
			t.Errorf("no read with the result %s", result)
			continue
		}
		if failed := found[0].Status.GetCode() == tracepb.Status_STATUS_CODE_ERROR; failed != (result == "error") {
			t.Errorf("a read with the result %s has the status %v", result, found[0].Status)
		}
	}
	for _, s := range c.spans {
		if text := s.String(); strings.Contains(text, "example.org") || strings.Contains(text, "127.0.0.1") || strings.Contains(text, "shop") {
			t.Errorf("a span names a host or an object: %s", text)
		}
	}
}

// TestPublicationsWithoutAReadAreTraced: from a last-known-good file, in a relay, and on its stream.
func TestPublicationsWithoutAReadAreTraced(t *testing.T) {
	dir := t.TempDir()
	root := start(t, ingresses("a")+service, func(cfg *server.Config) { cfg.StateDir, cfg.MaxStreams = dir, 4 })
	root.ready()
	c := newCollector(t)
	relay := traced(t, c, 0, func(cfg *server.Config) { cfg.Source, cfg.Upstream.URLs = nil, []string{"http://" + root.main} })
	relay.ready()
	etag := relay.get("/routes").header.Get("ETag")
	if err := relay.stop(); err != nil {
		t.Fatal(err)
	}
	of := func(s *tracepb.Span) bool { return attributes(s.Attributes)["routesrv.digest"] == digestOf(etag) }
	if p, s := c.named("publish", of), c.named("serve_routes", of); len(p) != 1 || len(s) != 1 || len(s[0].Links) != 1 || len(p[0].ParentSpanId) > 0 {
		t.Errorf("relay: publish %v, serve_routes %v; want one of each with a link", p, s)
	}
	if err := root.stop(); err != nil {
		t.Fatal(err)
	}
	c = newCollector(t)
	again := traced(t, c, 0, func(cfg *server.Config) { cfg.StateDir = dir })
	again.ready()
	if err := again.stop(); err != nil {
		t.Fatal(err)
	}
	if p := c.named("publish", of); len(p) != 1 || attributes(p[0].Attributes)["routesrv.cause"] != "last_known_good" {
		t.Errorf("restart: publish %v, want one from the last-known-good file", p)
	}
}
