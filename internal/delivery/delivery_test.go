package delivery_test

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"runtime"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/routesrv/routesrv/internal/delivery"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// key names the body of all tests: loopback is the address of all clients.
var key = delivery.Key{Client: netip.AddrFrom4([4]byte{127, 0, 0, 1}), Digest: [32]byte{1}, Encoding: 1}

// sender is a server that sends one body and keeps a ledger of it.
type sender struct {
	ledger *delivery.Ledger
	broken atomic.Int64
	ended  chan struct{} // one value for each body that was written
	http   *httptest.Server
}

func newSender(t *testing.T, size int, useTLS bool) *sender {
	t.Helper()
	s := &sender{ended: make(chan struct{}, 16)}
	s.ledger = delivery.New(func() { s.broken.Add(1) })
	body := bytes.Repeat([]byte("x"), size)
	s.http = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b := s.ledger.Begin(r, key, s.ledger.Rotation(key))
		w.Header().Set("Content-Length", strconv.Itoa(size)) // a last chunk would come after End
		n, err := w.Write(body)
		if err == nil {
			err = http.NewResponseController(w).Flush()
		}
		b.End(r.Context(), err == nil && n == len(body))
		s.ended <- struct{}{}
	}))
	s.http.Listener = delivery.WrapListener(s.http.Listener)
	delivery.Track(s.http.Config)
	if useTLS {
		s.http.StartTLS()
	} else {
		s.http.Start()
	}
	t.Cleanup(s.http.Close)
	return s
}

// client reads as much of each body as it wants.
type client struct {
	t    *testing.T
	conn net.Conn
	br   *bufio.Reader
}

func (s *sender) dial(t *testing.T) *client {
	t.Helper()
	var conn net.Conn
	var err error
	address := s.http.Listener.Addr().String()
	if s.http.TLS != nil {
		conn, err = tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true}) // of a test server
	} else {
		conn, err = net.Dial("tcp", address)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return &client{t: t, conn: conn, br: bufio.NewReaderSize(conn, 16)}
}

// ask sends a request and reads a share of the body.
func (c *client) ask(share float64, header string) {
	c.t.Helper()
	if _, err := io.WriteString(c.conn, "GET / HTTP/1.1\r\nHost: x\r\n"+header+"\r\n"); err != nil {
		c.t.Fatal(err)
	}
	res, err := http.ReadResponse(c.br, nil)
	if err != nil {
		c.t.Fatal(err)
	}
	if share == 1 {
		_, err = io.Copy(io.Discard, res.Body)
	} else {
		_, err = io.CopyN(io.Discard, res.Body, int64(share*1000))
	}
	if err != nil {
		c.t.Fatal(err)
	}
}

// reset closes the connection with a reset.
func (c *client) reset() {
	conn := c.conn
	if over, ok := conn.(*tls.Conn); ok {
		conn = over.NetConn()
	}
	if err := conn.(*net.TCPConn).SetLinger(0); err != nil {
		c.t.Fatal(err)
	}
	_ = conn.Close()
}

// await waits for something that only the kernel finds out.
func await(t *testing.T, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !done(); runtime.Gosched() {
		if time.Now().After(end) {
			t.Fatalf("%s was not noticed", what)
		}
	}
}

func TestBodyThatBrokeOffHasNotArrived(t *testing.T) {
	for name, test := range map[string]struct {
		size   int
		tls    bool
		header string
	}{
		"small":                         {size: 10_000},
		"large":                         {size: 8 << 20},
		"over TLS":                      {size: 64 << 10, tls: true},
		"the last one of a connection":  {size: 10_000, header: "Connection: close\r\n"},
		"large, the last of connection": {size: 8 << 20, header: "Connection: close\r\n"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSender(t, test.size, test.tls)
			for n := range uint32(3) {
				if got := s.ledger.Rotation(key); got != n {
					t.Fatalf("rotation %d, want %d", got, n)
				}
				c := s.dial(t)
				c.ask(0.5, test.header)
				c.reset()
				<-s.ended
				// The server's goroutine or a question finds out.
				await(t, "the reset", func() bool { return !s.ledger.Arrived(key, n) && s.broken.Load() == int64(n)+1 })
				if s.ledger.Whole(key) {
					t.Error("the last body is whole")
				}
			}
			c := s.dial(t)
			c.ask(1, test.header)
			_ = c.conn.Close()
			<-s.ended
			if !s.ledger.Arrived(key, 3) {
				t.Error("the body that was read has not arrived")
			}
			await(t, "the end of the connection", func() bool { return s.ledger.Whole(key) })
			if got := s.broken.Load(); got != 3 {
				t.Errorf("%d bodies broke off, want 3", got)
			}
		})
	}
}

func TestBodyThatWasReadHasArrived(t *testing.T) {
	for _, useTLS := range []bool{false, true} {
		for _, header := range []string{"", "Connection: close\r\n"} {
			s := newSender(t, 512<<10, useTLS)
			for range 5 {
				c := s.dial(t)
				c.ask(1, header)
				if header == "" {
					c.ask(1, header) // which says that the previous one arrived
					<-s.ended
				}
				_ = c.conn.Close()
				<-s.ended
				if !s.ledger.Arrived(key, 0) || !s.ledger.Whole(key) {
					t.Errorf("TLS %t, %q: has not arrived", useTLS, header)
				}
			}
			if got := s.broken.Load(); got != 0 {
				t.Errorf("TLS %t, %q: %d bodies broke off", useTLS, header, got)
			}
		}
	}
}

// TestOtherBodiesAreNotTouched: a break concerns one body at one address.
func TestOtherBodiesAreNotTouched(t *testing.T) {
	l := delivery.New(func() {})
	l.Break(key, 4)
	if l.Rotation(key) != 5 || l.Arrived(key, 4) || !l.Arrived(key, 5) {
		t.Errorf("rotation %d after 4 broke off", l.Rotation(key))
	}
	l.Break(key, 2) // a late report of an older break
	if l.Rotation(key) != 5 {
		t.Errorf("rotation %d after 4 and 2 broke off", l.Rotation(key))
	}
	client, digest, encoding := key, key, key
	client.Client = netip.AddrFrom4([4]byte{127, 0, 0, 2})
	digest.Digest = [32]byte{2}
	encoding.Encoding = 2
	for _, other := range []delivery.Key{client, digest, encoding} {
		if l.Rotation(other) != 0 || !l.Arrived(other, 0) || !l.Whole(other) {
			t.Errorf("%+v broke off, too", other)
		}
	}
}
