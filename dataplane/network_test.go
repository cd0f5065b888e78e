package dataplane_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/routesrv/routesrv/dataplane"
	"github.com/routesrv/routesrv/table"
)

// rawServer is a TCP server that writes bytes and closes the connection.
type rawServer struct {
	net.Listener
	done sync.WaitGroup

	mu      sync.Mutex
	respond func(net.Conn)
	request *http.Request // the last
}

func newWire(t *testing.T) *rawServer {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &rawServer{Listener: listener}
	w.done.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			w.done.Go(func() { w.serve(conn) })
		}
	})
	t.Cleanup(func() {
		listener.Close()
		w.done.Wait()
	})
	return w
}

func (w *rawServer) serve(conn net.Conn) {
	defer conn.Close()
	request, err := http.ReadRequest(bufio.NewReader(conn))
	if err != nil {
		return
	}
	w.mu.Lock()
	w.request = request
	respond := w.respond
	w.mu.Unlock()
	respond(conn)
}

func (w *rawServer) answer(respond func(net.Conn)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.respond = respond
}

func (w *rawServer) bytes(b []byte) {
	w.answer(func(conn net.Conn) { _, _ = conn.Write(b) })
}

func (w *rawServer) named() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.request.Header.Get("If-None-Match")
}

func (w *rawServer) client(t *testing.T, change func(*dataplane.Config)) (*world, *dataplane.Client) {
	t.Helper()
	world := newWorld(t, 1)
	world.cfg.URLs = []string{"http://" + w.Addr().String()}
	world.cfg.Transport = nil
	if change != nil {
		change(&world.cfg)
	}
	return world, world.client()
}

// response returns the bytes that one of our servers sends. Without a length it is chunked.
func response(t *testing.T, tab *table.Table, encoding string, length bool) []byte {
	t.Helper()
	body := encode(encoding, tab.Text())
	suffix := "+" + encoding
	if encoding == "identity" {
		suffix = ""
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "HTTP/1.1 200 OK\r\nEtag: %s\r\nX-Count: %d\r\nX-Revision: %d\r\n", etagOf(tab, suffix), tab.Len(), tab.Revision())
	if suffix != "" {
		fmt.Fprintf(&b, "Content-Encoding: %s\r\n", encoding)
	}
	if length {
		fmt.Fprintf(&b, "Content-Length: %d\r\n\r\n%s", len(body), body)
	} else {
		half := len(body) / 2
		fmt.Fprintf(&b, "Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n%x\r\n%s\r\n0\r\n\r\n", half, body[:half], len(body)-half, body[half:])
	}
	return b.Bytes()
}

// TestCutAtEveryByte truncates the answer with a small table at every byte, headers included: wherever the cut is, the client
// keeps its table, in memory and on disk, and names it.
func TestCutAtEveryByte(t *testing.T) {
	first, second := newTable(t, 1, "a", "b"), newTable(t, 2, "a", "b", "c")
	for _, encoding := range []string{"identity", "gzip", "zstd"} {
		for _, length := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, length %v", encoding, length), func(t *testing.T) {
				t.Parallel()
				server := newWire(t)
				w, c := server.client(t, nil)
				server.bytes(response(t, first, encoding, length))
				mustPoll(t, c)
				name := c.Status().Applied.ETag
				file := readFile(t, fileOf(w.cfg))

				whole := response(t, second, encoding, length)
				for n := range whole {
					server.bytes(whole[:n])
					if err := c.Poll(t.Context()); err == nil {
						t.Fatalf("cut after %d of %d bytes: no error", n, len(whole))
					}
					if got := server.named(); got != name {
						t.Fatalf("cut after %d of %d bytes: the request named %s, want %s", n, len(whole), got, name)
					}
					if got := c.Current(); got.Digest() != first.Digest() {
						t.Fatalf("cut after %d of %d bytes: the client has\n%s", n, len(whole), got.Text())
					}
				}
				if got := readFile(t, fileOf(w.cfg)); !bytes.Equal(got, file) {
					t.Fatalf("the last-known-good file has changed:\n%s", got)
				}
				server.bytes(whole)
				mustPoll(t, c)
				if got := server.named(); got != name {
					t.Errorf("after the last cut the request named %s, want %s", got, name)
				}
				holds(t, c, second)
				fileHolds(t, fileOf(w.cfg), second)
			})
		}
	}
}

// TestFirstTableCutAtEveryByte is the same for a client without a table, and with connections that are reset.
func TestFirstTableCutAtEveryByte(t *testing.T) {
	server := newWire(t)
	w, c := server.client(t, nil)
	whole := response(t, newTable(t, 1, "a", "b"), "identity", true)
	for n := range whole {
		server.answer(func(conn net.Conn) {
			_, _ = conn.Write(whole[:n])
			_ = conn.(*net.TCPConn).SetLinger(0) // a reset instead of a normal end
		})
		if err := c.Poll(t.Context()); err == nil || c.Current() != nil || server.named() != "" {
			t.Fatalf("cut after %d bytes: error %v, table %v, named %q", n, err, c.Current(), server.named())
		}
	}
	fileHolds(t, fileOf(w.cfg), nil)
}

// TestServersThatDoNotFinish checks the deadline of an exchange with servers that keep the connection open.
func TestServersThatDoNotFinish(t *testing.T) {
	tab := newTable(t, 1, "a", "b")
	whole := response(t, tab, "identity", true)
	drip := func(conn net.Conn, b []byte) {
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for i := range b {
			if _, err := conn.Write(b[i : i+1]); err != nil {
				return
			}
			<-tick.C
		}
	}
	headers := bytes.Index(whole, []byte("\r\n\r\n")) + 4
	for name, respond := range map[string]func(net.Conn){
		"no byte":                func(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) },
		"half a body":            func(conn net.Conn) { _, _ = conn.Write(whole[:len(whole)-5]); _, _ = io.Copy(io.Discard, conn) },
		"headers byte by byte":   func(conn net.Conn) { drip(conn, whole) },
		"body byte by byte":      func(conn net.Conn) { _, _ = conn.Write(whole[:headers]); drip(conn, whole[headers:]) },
		"chunks without an end":  func(conn net.Conn) { endless(conn, "Transfer-Encoding: chunked\r\n", "1\r\n/\r\n") },
		"headers without an end": func(conn net.Conn) { endless(conn, "", "X-A: b\r\n") },
		"100 without an end":     func(conn net.Conn) { forever(conn, "HTTP/1.1 100 Continue\r\n\r\n") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := newWire(t)
			_, c := server.client(t, func(cfg *dataplane.Config) { cfg.Timeout = 300 * time.Millisecond })
			server.answer(respond)
			start := time.Now()
			err := c.Poll(t.Context())
			if err == nil || c.Current() != nil {
				t.Fatalf("error %v, table %v", err, c.Current())
			}
			if took := time.Since(start); took > time.Minute {
				t.Errorf("the exchange took %v, the deadline is 300ms", took)
			}
			server.bytes(whole)
			for begun := time.Now(); c.Poll(t.Context()) != nil; { // a busy machine may take longer than the deadline
				if time.Since(begun) > time.Minute {
					t.Fatal("no table of a server that is fine again")
				}
			}
			holds(t, c, tab)
		})
	}
}

// endless writes a response with the header, and repeats the rest for ever.
func endless(conn net.Conn, header, rest string) {
	etag := `Etag: "` + strings.Repeat("0", 64) + "\"\r\n"
	head := "HTTP/1.1 200 OK\r\n" + etag + header
	if header != "" {
		head += "\r\n"
	}
	_, _ = io.WriteString(conn, head)
	forever(conn, rest)
}

func forever(conn net.Conn, s string) {
	b := []byte(strings.Repeat(s, 100))
	for {
		if _, err := conn.Write(b); err != nil {
			return
		}
	}
}

// TestGarbageOnTheWire sends what no HTTP server sends.
func TestGarbageOnTheWire(t *testing.T) {
	for name, garbage := range map[string]string{
		"nothing":          "",
		"TLS":              "\x15\x03\x01\x00\x02\x02\x28",
		"SSH":              "SSH-2.0-OpenSSH_9.9\r\n",
		"status":           "HTTP/1.1 2oo OK\r\n\r\n",
		"negative length":  "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
		"two lengths":      "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\na",
		"bad chunk":        "HTTP/1.1 200 OK\r\nEtag: \"" + strings.Repeat("0", 64) + "\"\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
		"no length at all": "HTTP/1.0 200 OK\r\n\r\na: * -> <shunt>;",
	} {
		t.Run(name, func(t *testing.T) {
			server := newWire(t)
			_, c := server.client(t, nil)
			server.bytes([]byte(garbage))
			if err := c.Poll(t.Context()); err == nil || c.Current() != nil {
				t.Fatalf("error %v, table %v", err, c.Current())
			}
		})
	}
}

func TestTLSWithHTTP2(t *testing.T) {
	first, second := newTable(t, 1, "a", "b"), newTable(t, 2, "a", "b", "c")
	routes := &routeServer{}
	server := httptest.NewUnstartedServer(routes)
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	w := newWorld(t, 1)
	w.cfg.URLs, w.cfg.Transport = []string{server.URL}, server.Client().Transport
	c := w.client()

	routes.set(first)
	mustPoll(t, c)
	holds(t, c, first)
	if got := routes.last(t).ProtoMajor; got != 2 {
		t.Errorf("HTTP/%d, want 2", got)
	}
	routes.fail(func(rw http.ResponseWriter, r *http.Request) {
		body := encode("zstd", second.Text())
		rw.Header().Set("Etag", etagOf(second, "+zstd"))
		rw.Header().Set("Content-Encoding", "zstd")
		_, _ = rw.Write(body[:len(body)-1])
		_ = http.NewResponseController(rw).Flush()
		panic(http.ErrAbortHandler)
	})
	failPoll(t, c, dataplane.ReasonLength)
	holds(t, c, first)
	routes.set(second)
	mustPoll(t, c)
	holds(t, c, second)
}
