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
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/routesrv/routesrv/etagcache"
	"github.com/routesrv/routesrv/table"
)

// server is a cache behind a real listener with everything that the binary installs.
type server struct {
	cache    *etagcache.Cache
	metrics  *etagcache.Metrics
	http     *httptest.Server
	address  string
	accepted accepted
}

// accepted is a listener that remembers its connections by the address of the peer.
type accepted struct {
	net.Listener
	conns sync.Map // string to net.Conn
}

func (a *accepted) Accept() (net.Conn, error) {
	conn, err := a.Listener.Accept()
	if err == nil {
		a.conns.Store(conn.RemoteAddr().String(), conn)
	}
	return conn, err
}

func newServer(t testing.TB, tracked, useTLS bool) *server {
	t.Helper()
	s := &server{metrics: etagcache.NewMetrics(nil)}
	s.cache = newCache(t, etagcache.Config{Metrics: s.metrics})
	s.http = httptest.NewUnstartedServer(s.cache.Handler())
	if tracked {
		s.accepted.Listener = s.http.Listener
		s.http.Listener = s.cache.WrapListener(&s.accepted)
		s.cache.Track(s.http.Config)
	}
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

// cut resets the connection.
func (c *rawClient) cut() {
	conn := c.conn
	if tc, ok := conn.(*tls.Conn); ok {
		conn = tc.NetConn()
	}
	if err := conn.(*net.TCPConn).SetLinger(0); err != nil {
		c.t.Fatal(err)
	}
	_ = conn.Close()
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

func TestBrokenBodyIsNeverConfirmed(t *testing.T) {
	const (
		small = 500
		large = 1 << 20 // more than the kernel buffers hold
	)
	reset := func(c *rawClient) { c.cut() }
	closed := func(c *rawClient) { _ = c.conn.Close() } // with unread data, or before the last of it has arrived
	tests := []struct {
		name    string
		bytes   int
		read    float64 // share of the body that the client reads before it closes
		leave   func(*rawClient)
		tls     bool
		headers []string
	}{
		{name: "small body, reset at once", bytes: small, leave: reset},
		{name: "small body, closed at once", bytes: small, leave: closed},
		{name: "small body, half read, reset", bytes: small, read: 0.5, leave: reset},
		{name: "small body, half read, closed", bytes: small, read: 0.5, leave: closed},
		{name: "small body, but for one byte read, closed", bytes: small, read: 0.99, leave: closed},
		{name: "large body, reset at once", bytes: large, leave: reset},
		{name: "large body, half read, reset", bytes: large, read: 0.5, leave: reset},
		{name: "large body, half read, closed", bytes: large, read: 0.5, leave: closed},
		{name: "large body, nearly read, closed", bytes: large, read: 0.99, leave: closed},
		{name: "large body over TLS, half read, closed", bytes: large, read: 0.5, leave: closed, tls: true},
		{name: "small body over TLS, reset", bytes: 64 << 10, read: 0.1, leave: reset, tls: true},
		{name: "last body of its connection, half read, closed", bytes: small, read: 0.5, leave: closed, headers: []string{"Connection: close"}},
		{name: "last large body of its connection, nearly read, reset", bytes: large, read: 0.99, leave: reset, headers: []string{"Connection: close"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := newServer(t, true, test.tls)
			poll(s.cache, incompressible(t, test.bytes, 7), 7, start)

			c := s.dial(t)
			res := c.get("", test.headers...)
			etag := res.Header.Get("Etag")
			if _, err := io.CopyN(io.Discard, res.Body, int64(test.read*float64(res.ContentLength))); err != nil {
				t.Fatal(err)
			}
			client := c.conn.LocalAddr()
			test.leave(c)
			s.heardOf(t, client)

			status, again := s.fetch(t, etag)
			if status != http.StatusOK {
				t.Fatalf("got %d for the ETag of a body that broke off, want 200", status)
			}
			if again == etag {
				t.Fatalf("the body came again under the ETag %s that is known to be broken", etag)
			}
			if status, confirmed := s.fetch(t, again); status != http.StatusNotModified || confirmed != again {
				t.Errorf("got %d, %s for the whole body %s; want 304 and its ETag", status, confirmed, again)
			}
			// Another client behind the same address, with the first ETag: once more, not twice.
			if status, other := s.fetch(t, etag); status != http.StatusOK || other != again {
				t.Errorf("got %d, %s for the first ETag; want 200 and %s", status, other, again)
			}
			if got := testutil.ToFloat64(s.metrics.BrokenBodies); got != 1 {
				t.Errorf("%v broken bodies counted, want 1", got)
			}
		})
	}
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
			s := newServer(t, true, test.tls)
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

// A client on a busy machine may be interrupted between its announcement of a close and the close.
func TestWholeBodyIsConfirmedAfterALateClose(t *testing.T) {
	s := newServer(t, true, true)
	poll(s.cache, incompressible(t, 64<<10, 7), 7, start)
	c := s.dial(t)
	res := c.get("")
	if _, err := io.Copy(io.Discard, res.Body); err != nil {
		t.Fatal(err)
	}
	if err := c.conn.(*tls.Conn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	time.Sleep(100 * time.Millisecond) // the interruption
	_ = c.conn.(*tls.Conn).NetConn().Close()
	if status, _ := s.fetch(t, res.Header.Get("Etag")); status != http.StatusNotModified {
		t.Errorf("got %d for a body that arrived as a whole, want 304", status)
	}
	if got := testutil.ToFloat64(s.metrics.BrokenBodies); got != 0 {
		t.Errorf("%v broken bodies counted, want none", got)
	}
}

// A response of another handler on the same connection does not announce a close, and is not delayed.
func TestOtherHandlersOnTheSameConnectionAreNotHeldUp(t *testing.T) {
	c := newCache(t, etagcache.Config{})
	poll(c, incompressible(t, 500, 7), 7, start)
	mux := http.NewServeMux()
	mux.Handle("/routes", c.Handler())
	mux.HandleFunc("/health", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	srv := httptest.NewUnstartedServer(mux)
	srv.Listener = c.WrapListener(srv.Listener)
	c.Track(srv.Config)
	srv.StartTLS()
	defer srv.Close()
	client := srv.Client()
	began := time.Now()
	const rounds = 50
	for range rounds {
		for _, path := range []string{"/routes", "/health"} {
			res, err := client.Get(srv.URL + path)
			if err != nil {
				t.Fatal(err)
			}
			_, _ = io.Copy(io.Discard, res.Body)
			_ = res.Body.Close()
		}
	}
	if took := time.Since(began); took > rounds*time.Second {
		t.Errorf("%d requests to another handler took %v: each waited for a close", rounds, took)
	}
}

func TestRequestOnTheSameConnectionShowsThatTheBodyArrived(t *testing.T) {
	s := newServer(t, true, false)
	poll(s.cache, incompressible(t, 500, 7), 7, start)
	c := s.dial(t)
	etag := ""
	for i := range 3 {
		res := c.get(etag)
		if _, err := io.Copy(io.Discard, res.Body); err != nil {
			t.Fatal(err)
		}
		if want := map[bool]int{true: 200, false: 304}[i == 0]; res.StatusCode != want {
			t.Fatalf("request %d: got %d, want %d", i, res.StatusCode, want)
		}
		etag = res.Header.Get("Etag")
	}
	c.cut() // a later reset of the connection says nothing about the body
	if status, _ := s.fetch(t, etag); status != http.StatusNotModified {
		t.Errorf("got %d, want 304", status)
	}
}

func TestEveryBreakRotatesTheETag(t *testing.T) {
	s := newServer(t, true, false)
	poll(s.cache, incompressible(t, 500, 7), 7, start)
	etag := ""
	for n := range 4 {
		c := s.dial(t)
		res := c.get(etag)
		if res.StatusCode != http.StatusOK {
			t.Fatalf("attempt %d: got %d, want 200", n, res.StatusCode)
		}
		etag = res.Header.Get("Etag")
		want := fmt.Sprintf("~%d+gzip\"", n)
		if n > 0 && !strings.HasSuffix(etag, want) {
			t.Errorf("attempt %d: got %s, want the suffix %s", n, etag, want)
		}
		c.cut()
	}
}

func TestBrokenBodyOfAnUntrackedConnection(t *testing.T) {
	s := newServer(t, false, false)
	poll(s.cache, incompressible(t, 12<<20, 7), 7, start)
	c := s.dial(t)
	res := c.get("")
	c.cut()
	// Only the failing Write shows the cut, some time later: wait for it.
	for testutil.ToFloat64(s.metrics.BrokenBodies) == 0 {
		if err := t.Context().Err(); err != nil {
			t.Fatal(err)
		}
	}
	if status, _ := s.fetch(t, res.Header.Get("Etag")); status != http.StatusOK {
		t.Errorf("got %d, want 200", status)
	}
}

func TestDateOfABrokenBodyIsNotConfirmedUntilItArrived(t *testing.T) {
	s := newServer(t, true, false)
	poll(s.cache, incompressible(t, 500, 7), 7, start)
	c := s.dial(t)
	since := "If-Modified-Since: " + c.get("").Header.Get("Last-Modified")
	c.cut()
	if status, _ := s.fetch(t, "", since); status != http.StatusOK {
		t.Fatalf("got %d after a broken body, want 200", status)
	}
	if status, _ := s.fetch(t, "", since); status != http.StatusNotModified {
		t.Errorf("got %d after the whole body, want 304", status)
	}
}

func TestBrokenBodyDoesNotTouchOtherAddresses(t *testing.T) {
	s := newServer(t, true, false)
	poll(s.cache, incompressible(t, 500, 7), 7, start)
	c := s.dial(t)
	etag := c.get("").Header.Get("Etag")
	c.cut()
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
