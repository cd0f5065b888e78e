package main

import (
	"bufio"
	"compress/gzip"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
)

// TestHTTPAtTheEdges: requests that ordinary clients rarely send. The answers are those of RFC 9110.
func TestHTTPAtTheEdges(t *testing.T) {
	url, stop := serveHere(t, "--manifests", shop)
	defer stop()
	_, table := awaitTable(t, url+"/routes")
	host := strings.TrimPrefix(url, "http://")
	for _, c := range []struct {
		name, request string
		method        string
		status        int
		body          string // of the answer; "gzip" for the table
	}{
		{"an empty body in chunks", "GET /routes HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "GET", 200, table},
		{"an empty body in chunks, with HEAD", "HEAD /routes HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "HEAD", 200, ""},
		{"a body in chunks", "GET /routes HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n", "GET", 400, "this path takes no request body\n"},
		{"a body", "GET /routes HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\nx", "GET", 400, "this path takes no request body\n"},
		{"HEAD with a range", "HEAD /routes HTTP/1.1\r\nHost: x\r\nRange: bytes=0-3\r\n\r\n", "HEAD", 200, ""},
		{"a range", "GET /routes HTTP/1.1\r\nHost: x\r\nRange: bytes=0-3\r\n\r\n", "GET", 206, table[:4]},
		{"ranges with an encoding", "GET /routes HTTP/1.1\r\nHost: x\r\nRange: bytes=0-3,10-13\r\nAccept-Encoding: gzip\r\n\r\n", "GET", 200, "gzip"},
	} {
		conn, err := net.Dial("tcp", host)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(conn, c.request); err != nil {
			t.Fatal(err)
		}
		resp, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: c.method})
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		var from io.Reader = resp.Body
		want := c.body
		if want == "gzip" {
			want = table
			if from, err = gzip.NewReader(resp.Body); err != nil {
				t.Fatalf("%s: %v", c.name, err)
			}
		}
		body, err := io.ReadAll(from)
		if resp.StatusCode != c.status || string(body) != want || err != nil {
			t.Errorf("%s: status %d, %d bytes %.80q, error %v; want status %d, %d bytes", c.name, resp.StatusCode, len(body), body, err, c.status, len(want))
		}
		conn.Close()
	}
}
