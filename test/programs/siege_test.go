package programs_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// sieges are what clients send who want to keep others from being answered. Each keeps its connections as long as it can, and renews
// those that are closed.
var sieges = map[string]string{
	"silence":                   "",
	"half of a header":          "GET /health HTTP/1.1\r\nHost: x\r\n",
	"a body that never comes":   "GET /health HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n",
	"chunks that never come":    "GET /health HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n",
	"half of a report":          "POST /clients HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n{",
	"answers that are not read": strings.Repeat("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n", 2000),
	"idle connections":          "GET /health HTTP/1.1\r\nHost: x\r\n\r\n",
}

// besiege opens connections to an address, sends a text on each, and renews those that the server closes, until the test ends. It
// returns when the siege stands: when every connection has been opened, or the kernel holds back the rest.
func besiege(t testing.TB, address string, connections int, text string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	t.Cleanup(func() { cancel(); all.Wait() })
	var opened sync.WaitGroup
	for range connections {
		opened.Add(1)
		first := sync.OnceFunc(opened.Done)
		all.Go(func() {
			defer first()
			for ctx.Err() == nil {
				conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
				if err != nil {
					first()
					continue
				}
				stop := context.AfterFunc(ctx, func() { conn.Close() })
				_ = conn.SetWriteDeadline(time.Now().Add(time.Second)) // nobody reads what one siege asks for
				_, _ = io.WriteString(conn, text)
				first()
				if text == sieges["answers that are not read"] {
					<-ctx.Done()
				}
				_, _ = io.Copy(io.Discard, conn) // until the server closes it
				stop()
				conn.Close()
			}
		})
	}
	opened.Wait()
}

// probes sends requests as a kubelet does, each on a connection of its own, and fails the test unless all are answered with the
// status: as for a kubelet, a probe has failed after three attempts. The limit of each is far below the time that a server waits for
// slow clients without knowing better.
func probes(t testing.TB, url string, status int) {
	t.Helper()
	const pause = 3 * time.Second
	kubelet := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 9)}} // not the address of those who besiege
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: kubelet.DialContext}, Timeout: 20 * time.Second}
	for i := range 10 {
		var resp *http.Response
		var err error
		for try := range 3 {
			if try > 0 {
				<-time.After(pause) // a kubelet waits for as long or longer
			}
			if resp, err = client.Get(url); err == nil {
				break
			}
		}
		if err != nil {
			t.Fatalf("probe %d: %v", i, err)
		}
		resp.Body.Close()
		if resp.StatusCode != status {
			t.Fatalf("probe %d: %s, want %d", i, resp.Status, status)
		}
	}
}
