// Package abuse has clients that behave as badly as possible, and a test of what a route server promises meanwhile: it answers
// well-behaved clients as fast as before, and its memory stays within its limit.
package abuse

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Attack is a kind of bad behaviour. Start opens its connections, and continues until ctx ends; n is the number of clients. It
// returns when the attack is at its height, with a function that waits for its end. It ignores errors: a good server cuts
// attackers off.
type Attack struct {
	Name  string
	Count int // of clients, at full size
	Start func(ctx context.Context, address string, n int) (wait func())
	// Memory is how much memory each client may cost the server, in bytes.
	Memory int
}

// Attacks returns all attacks.
func Attacks() []Attack {
	const connection = 100 << 10 // buffers of a connection and of its goroutines
	return []Attack{
		{"headers that never end", 500, slowHeaders, connection},
		{"connections that do nothing", 2000, idle, connection},
		{"readers of full tables at 100 bytes a second", 500, slowReaders, 2 * connection},
		{"streams that nobody reads", 500, deafStreams, 2 * connection},
		{"zones that nobody has", 10_000, zones, 0},
		{"headers of a megabyte", 64, giantHeaders, connection},
		{"tags of tables that never were", 2000, madeUpTags, 0},
		{"requests that are garbage", 500, garbage, connection},
		// A server tracks at most 20,000 clients, in 26 MB.
		{"reports of clients that never were", 20_000, madeUpClients, 1 << 10},
	}
}

// crowd runs n clients, and waits until each has called ready or ended.
func crowd(n int, client func(i int, ready func())) (wait func()) {
	var all, starting sync.WaitGroup
	starting.Add(n)
	for i := range n {
		all.Go(func() {
			ready := sync.OnceFunc(starting.Done)
			defer ready()
			client(i, ready)
		})
	}
	starting.Wait()
	return all.Wait
}

// hosts is the number of addresses of the attackers. The well-behaved client has none of them.
const hosts = 4

// dialer connects from the address of one of the attackers.
func dialer() *net.Dialer {
	return &net.Dialer{Timeout: 30 * time.Second, LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 66, byte(1+rand.IntN(hosts)))}}
}

// dial opens a connection that ends with ctx.
func dial(ctx context.Context, address string) (net.Conn, func(), error) {
	conn, err := dialer().DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, nil, err
	}
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	return conn, func() {
		stop()
		conn.Close()
	}, nil
}

// pause waits, and returns false if ctx has ended.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// slowHeaders sends a header byte by byte, and starts again when it is cut off.
func slowHeaders(ctx context.Context, address string, n int) func() {
	return crowd(n, func(_ int, ready func()) {
		for ctx.Err() == nil {
			conn, end, err := dial(ctx, address)
			if err != nil {
				ready()
				if !pause(ctx, time.Second) {
					return
				}
				continue
			}
			text := "GET /routes HTTP/1.1\r\nHost: a\r\nX-Slow: " + strings.Repeat("x", 10_000)
			for i := 0; i < len(text); i++ {
				if _, err := conn.Write([]byte{text[i]}); err != nil {
					break
				}
				if ready(); i > 40 && !pause(ctx, time.Second) {
					break
				}
			}
			end()
		}
	})
}

// idle sends one request and then keeps the connection open.
func idle(ctx context.Context, address string, n int) func() {
	return crowd(n, func(_ int, ready func()) {
		conn, end, err := dial(ctx, address)
		if err != nil {
			return
		}
		defer end()
		fmt.Fprintf(conn, "GET /health HTTP/1.1\r\nHost: a\r\n\r\n")
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			return
		}
		resp.Body.Close()
		ready()
		<-ctx.Done()
	})
}

// slowReaders request the whole table and read 100 bytes of it per second.
func slowReaders(ctx context.Context, address string, n int) func() {
	return readers(ctx, address, n, "/routes", func(conn net.Conn) bool {
		buffer := make([]byte, 100)
		if _, err := conn.Read(buffer); err != nil {
			return false
		}
		return pause(ctx, time.Second)
	})
}

// deafStreams open a stream and read nothing from it.
func deafStreams(ctx context.Context, address string, n int) func() {
	return readers(ctx, address, n, "/routes/watch", func(net.Conn) bool {
		<-ctx.Done()
		return false
	})
}

// readers request a path with small buffers, and continue as next says. A reader that is cut off asks again.
func readers(ctx context.Context, address string, n int, path string, next func(net.Conn) bool) func() {
	return crowd(n, func(_ int, ready func()) {
		for ctx.Err() == nil {
			conn, end, err := dial(ctx, address)
			if err == nil {
				if tcp, ok := conn.(*net.TCPConn); ok {
					tcp.SetReadBuffer(4096)
				}
				_, err = fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: a\r\nAccept-Encoding: identity\r\nAccept: */*\r\n\r\n", path)
				if err == nil {
					_, err = io.ReadFull(conn, make([]byte, 12)) // the answer has begun
				}
				ready()
				for err == nil && next(conn) {
				}
				end()
			}
			ready()
			if !pause(ctx, time.Second) {
				return
			}
		}
	})
}

// rate is how many requests per second the attackers send together, where requests are the attack: enough to be felt, but not so
// many that the test measures the machine.
const rate = 2000

// flood makes requests with numbers from 1 on, rate of them per second, from 16 connections. It is at its height after n/10.
func flood(ctx context.Context, n int, request func(client *http.Client, i int64)) func() {
	client, end := newClient(16, dialer())
	var next atomic.Int64
	wait := crowd(16, func(_ int, ready func()) {
		for ctx.Err() == nil {
			i := next.Add(1)
			request(client, i)
			if i >= int64(n)/10 {
				ready()
			}
			pause(ctx, 16*time.Second/rate)
		}
	})
	return func() {
		wait()
		end()
	}
}

// zones requests tables of unknown zones, with a new name each time.
func zones(ctx context.Context, address string, n int) func() {
	return flood(ctx, n, func(client *http.Client, i int64) {
		ask(ctx, client, http.MethodHead, fmt.Sprintf("http://%s/routes/zone-%d-%d", address, i, rand.Uint64()), nil)
	})
}

// giant is how many headers of a megabyte the attackers send per second together, which fills a link of one gigabit. At full
// speed on loopback the attackers, not the server, would keep the machine busy, and every other process on it would wait.
const giant = 120

// giantHeaders sends headers of a megabyte repeatedly.
func giantHeaders(ctx context.Context, address string, n int) func() {
	return crowd(n, func(_ int, ready func()) {
		for ctx.Err() == nil {
			conn, end, err := dial(ctx, address)
			if err == nil {
				fmt.Fprintf(conn, "GET /routes HTTP/1.1\r\nHost: a\r\nX-Giant: %s\r\n\r\n", strings.Repeat("x", 1<<20))
				end()
			}
			ready()
			if !pause(ctx, time.Duration(n)*time.Second/giant) {
				return
			}
		}
	})
}

// madeUpTags names invented tables with high revisions: each causes a read of the source.
func madeUpTags(ctx context.Context, address string, n int) func() {
	return flood(ctx, n, func(client *http.Client, i int64) {
		tag := fmt.Sprintf(`"%064x.%d"`, rand.Uint64(), uint64(1)<<62+uint64(i))
		ask(ctx, client, http.MethodHead, "http://"+address+"/routes", http.Header{"If-None-Match": {tag}})
	})
}

// madeUpClients reports for invented clients, each with a new id of maximum length. Some bodies are too long, and some are
// compression bombs.
func madeUpClients(ctx context.Context, address string, n int) func() {
	bodies := []string{`{"rejected":"` + strings.Repeat("no ", 200) + `"}`, `{"clients":{"` + strings.Repeat("x", 1<<20), `{}`, "\x1f\x8b" + strings.Repeat("\x00", 1<<10)}
	return flood(ctx, n, func(client *http.Client, i int64) {
		kind := []string{"sidecar", "relay", "no kind"}[i%3]
		header := http.Header{"Routesrv-Client": {fmt.Sprintf("kind=%s;id=%0160d-%x;zone=z%d;version=v%d;mode=Exec;interval=100", kind, i, rand.Uint64(), i, i)}}
		if i%4 == 3 {
			header.Set("Content-Encoding", "gzip")
		}
		send(ctx, client, http.MethodPost, "http://"+address+"/clients", header, bodies[i%4])
	})
}

// garbage sends bytes that are not requests, and incomplete requests.
func garbage(ctx context.Context, address string, n int) func() {
	texts := []string{
		"\x16\x03\x01\x02\x00", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "GET /routes HTTP/1.1\r\n\r\n", "\x00\x00\x00", "GET  HTTP/9.9\r\n\r\n",
		"POST /routes HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999\r\n\r\nx", "GET /routes HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n",
		"GET /routes/%2e%2e/%2e%2e/etc/passwd HTTP/1.1\r\nHost: a\r\n\r\n", "GET /routes/watch HTTP/1.1\r\nHost: a\r\nLast-Event-ID: " + strings.Repeat("9", 5000) + "\r\n\r\n",
		"GET /routes HTTP/1.1\r\nHost: a\r\nRange: bytes=" + strings.Repeat("0-1,", 2000) + "\r\n\r\n",
	}
	return crowd(n, func(i int, ready func()) {
		for ; ctx.Err() == nil; i++ {
			conn, end, err := dial(ctx, address)
			if err == nil {
				conn.Write([]byte(texts[i%len(texts)]))
				conn.SetReadDeadline(time.Now().Add(200 * time.Millisecond))
				conn.Read(make([]byte, 100))
				end()
			}
			ready()
			if !pause(ctx, rand.N(2*time.Second)) { // not all at once: that would be a burst that loads the machine, not the server
				return
			}
		}
	})
}

// newClient returns a client with few connections of its own, from the dialer's address.
func newClient(connections int, d *net.Dialer) (client *http.Client, end func()) {
	transport := &http.Transport{
		DialContext: d.DialContext, MaxIdleConnsPerHost: connections, MaxConnsPerHost: connections, DisableCompression: true,
	}
	return &http.Client{Transport: transport, Timeout: time.Minute}, transport.CloseIdleConnections
}

// get sends a GET request and reads the answer.
func get(ctx context.Context, client *http.Client, url string, header http.Header) (*http.Response, int64, error) {
	return ask(ctx, client, http.MethodGet, url, header)
}

// ask sends a request of any method. With HEAD the attackers avoid costs that only they would have.
func ask(ctx context.Context, client *http.Client, method, url string, header http.Header) (*http.Response, int64, error) {
	return send(ctx, client, method, url, header, "")
}

// send is ask with a body.
func send(ctx context.Context, client *http.Client, method, url string, header http.Header, body string) (*http.Response, int64, error) {
	r, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return nil, 0, err
	}
	if header != nil {
		r.Header = header
	}
	resp, err := client.Do(r)
	if err != nil {
		return nil, 0, err
	}
	defer resp.Body.Close()
	n, err := io.Copy(io.Discard, resp.Body)
	return resp, n, err
}
