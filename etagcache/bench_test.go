package etagcache_test

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/routesrv/routesrv/etagcache"
	"github.com/routesrv/routesrv/table"
)

// The size of a large fleet's table.
const (
	benchRoutes = 124_000
	benchZones  = 3
)

// benchTable makes a table like that of a large cluster: 124,000 routes, 46 MB, deterministic. Two thirds of the routes have
// endpoints in three zones; teams are random, so it compresses less well than a real table.
var benchTable = sync.OnceValue(func() *table.Table { return benchTableOf(benchRoutes) })

// benchTableOf is benchTable with n routes.
func benchTableOf(n int) *table.Table {
	rng := rand.New(rand.NewPCG(1, 2))
	routes := make([]table.Route, n)
	for i := range routes {
		ns, name := rng.IntN(400), i/6
		id := fmt.Sprintf("kube_team_%d__service_%05d__www_%05d_example_org___api_v%d__backend_%d", ns, name, name, i%6, i%3)
		host := fmt.Sprintf("^(www-%05d[.]example[.]org[.]?(:[0-9]+)?)$", name)
		text := fmt.Sprintf("%s: Host(/%s/) && PathSubtree(\"/api/v%d\") -> annotate(\"team\", \"%d\") -> ", id, host, i%6, ns)
		if i%3 == 0 {
			text += "<shunt>;"
		} else {
			text += "<roundRobin"
			for zone := range benchZones {
				for e := range 1 + i/6%2*2 { // one or three per zone, the same for all routes of a service
					text += fmt.Sprintf(", \"http://10.%d.%d.%d:8080?zone=eu-central-1%c\"", zone, name%256, (name>>4+e*7)%256, 'a'+zone)
				}
			}
			text += ">;"
		}
		routes[i] = table.Route{ID: id, Text: text, Hosts: host}
	}
	t, err := table.New(routes, 7, start)
	if err != nil {
		panic(err)
	}
	return t
}

func benchServer(b *testing.B, connections int) (*server, *http.Client) {
	s := newServer(b, false)
	poll(s.cache, benchTable(), 7, start)
	transport := &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: connections}
	b.Cleanup(transport.CloseIdleConnections)
	return s, &http.Client{Transport: transport}
}

// load sends requests over many connections at once.
func load(b *testing.B, s *server, client *http.Client, connections int, etag string, status int) {
	b.SetParallelism(connections) // times GOMAXPROCS; the transport opens only as many as it needs
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			req, err := http.NewRequest(http.MethodGet, s.http.URL+"/routes", nil)
			if err != nil {
				b.Error(err)
				return
			}
			req.Header.Set("Accept-Encoding", "gzip")
			if etag != "" {
				req.Header.Set("If-None-Match", etag)
			}
			res, err := client.Do(req)
			if err != nil {
				b.Error(err)
				return
			}
			if _, err := io.Copy(io.Discard, res.Body); err != nil || res.StatusCode != status {
				b.Errorf("status %d, %v", res.StatusCode, err)
			}
			_ = res.Body.Close()
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "responses/s")
}

// BenchmarkNotModified is 304 over loopback, 64 connections, client and server in one process.
func BenchmarkNotModified(b *testing.B) {
	s, client := benchServer(b, 64)
	_, etag := s.fetch(b, "")
	b.ReportAllocs()
	b.ResetTimer()
	load(b, s, client, 32, etag, http.StatusNotModified)
}

// BenchmarkFullGzip is the whole table over loopback, 16 connections.
func BenchmarkFullGzip(b *testing.B) {
	s, client := benchServer(b, 16)
	res, err := client.Head(s.http.URL + "/routes")
	if err != nil {
		b.Fatal(err)
	}
	_ = res.Body.Close()
	b.ResetTimer()
	load(b, s, client, 8, "", http.StatusOK)
}

// BenchmarkNotModifiedHandler is the handler alone.
func BenchmarkNotModifiedHandler(b *testing.B) {
	c := newCache(b, etagcache.Config{})
	tab := versions(b, 1)[0]
	poll(c, tab, 7, start)
	handler := c.Handler()
	req := httptest.NewRequest(http.MethodGet, "/routes", nil)
	req.Header.Set("Accept-Encoding", "gzip")
	req.Header.Set("If-None-Match", `"`+tab.Digest().String()+`.7+gzip"`)
	w := discard{make(http.Header)}
	b.ReportAllocs()
	for b.Loop() {
		handler.ServeHTTP(w, req)
	}
}

type discard struct{ header http.Header }

func (d discard) Header() http.Header         { return d.header }
func (d discard) Write(p []byte) (int, error) { return len(p), nil }
func (d discard) WriteHeader(int)             {}

// BenchmarkPublish is the work from a table to its three bodies.
func BenchmarkPublish(b *testing.B) {
	tab := benchTable()
	first := tab.Routes().Blocks()[0].Routes()[0]
	rest, err := tab.Routes().With(nil, []string{first.ID})
	if err != nil {
		b.Fatal(err)
	}
	other := table.Of(rest, 8, start)
	c := newCache(b, etagcache.Config{})
	b.ReportAllocs()
	for b.Loop() {
		c.Publish(tab)
		tab, other = other, tab
	}
	for _, encoding := range []string{"identity", "gzip", "zstd"} {
		req := httptest.NewRequest(http.MethodHead, "/routes", nil)
		req.Header.Set("Accept-Encoding", encoding)
		w := httptest.NewRecorder()
		c.Handler().ServeHTTP(w, req)
		var size float64
		if _, err := fmt.Sscan(w.Header().Get("Content-Length"), &size); err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(size/1e6, encoding+"-MB")
	}
}

// BenchmarkZone is the first request for a zone: deriving its table, gzip and zstd.
func BenchmarkZone(b *testing.B) {
	tab := benchTable()
	for b.Loop() {
		b.StopTimer()
		c := newCache(b, etagcache.Config{})
		c.Publish(tab)
		b.StartTimer()
		ask(c.Handler(), "/routes/eu-central-1a", `"`+tab.Digest().String()+`"`, "192.0.2.1:1")
	}
}
