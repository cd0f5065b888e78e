package etagcache_test

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/routesrv/routesrv/etagcache"
	"github.com/routesrv/routesrv/table"
)

// server is a cache behind a real listener with everything that the binary installs.
type server struct {
	cache   *etagcache.Cache
	metrics *etagcache.Metrics
	http    *httptest.Server
	address string
}

// smallBuffers is a listener whose connections have a small kernel buffer: see [httpserve.Connections].
type smallBuffers struct{ net.Listener }

func (l smallBuffers) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err == nil {
		err = conn.(*net.TCPConn).SetWriteBuffer(256 << 10)
	}
	return conn, err
}

func newServer(t testing.TB, useTLS bool) *server {
	t.Helper()
	s := &server{metrics: etagcache.NewMetrics(nil)}
	s.cache = newCache(t, etagcache.Config{Metrics: s.metrics})
	s.http = httptest.NewUnstartedServer(s.cache.Handler())
	s.http.Listener = smallBuffers{s.http.Listener}
	if useTLS {
		s.http.StartTLS()
	} else {
		s.http.Start()
	}
	s.address = s.http.Listener.Addr().String()
	t.Cleanup(s.http.Close)
	return s
}

// incompressible makes a table of about the given number of bytes, whose encodings are hardly smaller.
func incompressible(t testing.TB, bytes int, revision uint64) *table.Table {
	t.Helper()
	rng := rand.New(rand.NewPCG(1, 2))
	var routes []table.Route
	for size := 0; size < bytes; {
		id := fmt.Sprintf("r%016x%016x", rng.Uint64(), rng.Uint64())
		text := fmt.Sprintf("%s: Path(\"/%016x%016x%016x\") -> <shunt>;", id, rng.Uint64(), rng.Uint64(), rng.Uint64())
		routes = append(routes, table.Route{ID: id, Text: text})
		size += len(text) + 1
	}
	tab, err := table.New(routes, revision, start)
	if err != nil {
		t.Fatal(err)
	}
	return tab
}

// rawClient is a connection from which a test reads as much as it wants.
type rawClient struct {
	t    testing.TB
	conn net.Conn
	br   *bufio.Reader
}

func (s *server) dial(t testing.TB) *rawClient {
	t.Helper()
	var conn net.Conn
	var err error
	if s.http.TLS != nil {
		conn, err = tls.Dial("tcp", s.address, &tls.Config{InsecureSkipVerify: true})
	} else {
		conn, err = net.Dial("tcp", s.address)
	}
	if err != nil {
		t.Fatal(err)
	}
	return &rawClient{t: t, conn: conn, br: bufio.NewReaderSize(conn, 16)}
}

// get sends a request and reads the head of the response.
func (c *rawClient) get(etag string, headers ...string) *http.Response {
	c.t.Helper()
	req := "GET /routes HTTP/1.1\r\nHost: x\r\nAccept-Encoding: gzip\r\n"
	if etag != "" {
		req += "If-None-Match: " + etag + "\r\n"
	}
	for _, h := range headers {
		req += h + "\r\n"
	}
	if _, err := io.WriteString(c.conn, req+"\r\n"); err != nil {
		c.t.Fatal(err)
	}
	res, err := http.ReadResponse(c.br, nil)
	if err != nil {
		c.t.Fatal(err)
	}
	return res
}

// tcp returns the connection below TLS.
func (c *rawClient) tcp() *net.TCPConn {
	if tc, ok := c.conn.(*tls.Conn); ok {
		return tc.NetConn().(*net.TCPConn)
	}
	return c.conn.(*net.TCPConn)
}

// cut resets the connection.
func (c *rawClient) cut() {
	if err := c.tcp().SetLinger(0); err != nil {
		c.t.Fatal(err)
	}
	_ = c.tcp().Close()
}

// fetch sends a request on a new connection, reads everything and closes the connection normally.
func (s *server) fetch(t testing.TB, etag string, headers ...string) (status int, newTag string) {
	t.Helper()
	c := s.dial(t)
	defer c.conn.Close()
	res := c.get(etag, headers...)
	if _, err := io.Copy(io.Discard, res.Body); err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, res.Header.Get("Etag")
}

// more is the size of a table whose bodies exceed what the kernel buffers, so that writing one fails if the client leaves.
const more = 4 << 20

// breakOff reads a share of a body and leaves. It returns the response once the server has noticed.
func (s *server) breakOff(t testing.TB, share float64, leave func(*rawClient), etag string, headers ...string) *http.Response {
	t.Helper()
	before := testutil.ToFloat64(s.metrics.BrokenBodies)
	c := s.dial(t)
	if err := c.tcp().SetReadBuffer(64 << 10); err != nil { // or the kernel takes most of the body
		t.Fatal(err)
	}
	res := c.get(etag, headers...)
	if res.StatusCode != http.StatusOK {
		t.Fatalf("got %d for %s, want 200", res.StatusCode, etag)
	}
	if _, err := io.CopyN(io.Discard, res.Body, int64(share*float64(res.ContentLength))); err != nil {
		t.Fatal(err)
	}
	leave(c)
	for end := time.Now().Add(time.Minute); testutil.ToFloat64(s.metrics.BrokenBodies) == before; runtime.Gosched() {
		if time.Now().After(end) {
			t.Fatal("the server did not notice")
		}
	}
	return res
}

func TestWholeBodiesAreConfirmed(t *testing.T) {
	for _, test := range []struct {
		name    string
		bytes   int
		tls     bool
		headers []string
	}{
		{name: "small", bytes: 500},
		{name: "large", bytes: 1 << 20},
		{name: "over TLS", bytes: 512 << 10, tls: true},
		{name: "on a connection that ends", bytes: 512 << 10, headers: []string{"Connection: close"}},
		{name: "over TLS, on a connection that ends", bytes: 512 << 10, tls: true, headers: []string{"Connection: close"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := newServer(t, test.tls)
			poll(s.cache, incompressible(t, test.bytes, 7), 7, start)
			for range 10 {
				_, etag := s.fetch(t, "", test.headers...)
				if status, _ := s.fetch(t, etag); status != http.StatusNotModified {
					t.Fatalf("got %d for a body that arrived as a whole, want 304", status)
				}
			}
			if got := testutil.ToFloat64(s.metrics.BrokenBodies); got != 0 {
				t.Errorf("%v broken bodies counted, want none", got)
			}
		})
	}
}

func TestEveryBreakRotatesTheETag(t *testing.T) {
	s := newServer(t, false)
	poll(s.cache, incompressible(t, more, 7), 7, start)
	etag := ""
	for n := range 4 {
		etag = s.breakOff(t, 0, (*rawClient).cut, etag).Header.Get("Etag")
		want := fmt.Sprintf("~%d+gzip\"", n)
		if n > 0 && !strings.HasSuffix(etag, want) {
			t.Errorf("attempt %d: got %s, want the suffix %s", n, etag, want)
		}
	}
}

func TestDateOfABrokenBodyIsNotConfirmed(t *testing.T) {
	s := newServer(t, false)
	poll(s.cache, incompressible(t, more, 7), 7, start)
	since := "If-Modified-Since: " + s.breakOff(t, 0, (*rawClient).cut, "").Header.Get("Last-Modified")
	if status, _ := s.fetch(t, "", since); status != http.StatusOK {
		t.Fatalf("got %d, want 200", status)
	}
}

func TestBrokenBodyDoesNotTouchOtherAddresses(t *testing.T) {
	s := newServer(t, false)
	poll(s.cache, incompressible(t, more, 7), 7, start)
	etag := s.breakOff(t, 0, (*rawClient).cut, "").Header.Get("Etag")
	if status, _ := s.fetch(t, etag); status != http.StatusOK {
		t.Fatalf("got %d from the address with the broken body, want 200", status)
	}
	req := httptest.NewRequest(http.MethodGet, "/routes", nil) // from 192.0.2.1
	req.Header.Set("If-None-Match", etag)
	req.Header.Set("Accept-Encoding", "gzip")
	w := httptest.NewRecorder()
	s.cache.Handler().ServeHTTP(w, req)
	if w.Code != http.StatusNotModified {
		t.Errorf("got %d from another address, want 304", w.Code)
	}
}
