package main

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"time"
)

const (
	attackers = 16 // connections
	addresses = 32 // of the attackers: a server limits the clients of one
)

// flood sends 2,000 requests a second until ctx ends: for invented zones, with the ETags of invented tables, and with reports of
// invented clients.
func flood(ctx context.Context, url string) {
	for range attackers {
		go func() {
			transport := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
				from := &net.TCPAddr{IP: net.IPv4(127, 0, 66, byte(1+rand.IntN(addresses)))}
				return (&net.Dialer{LocalAddr: from}).DialContext(ctx, network, address)
			}}
			client := &http.Client{Transport: transport, Timeout: 10 * time.Second}
			for tick := time.Tick(attackers * time.Second / 2000); ctx.Err() == nil; <-tick {
				resp, err := client.Do(invented(ctx, url))
				if err == nil {
					_, _ = io.Copy(io.Discard, resp.Body)
					resp.Body.Close()
				}
			}
		}()
	}
}

// invented returns one of the requests.
func invented(ctx context.Context, url string) *http.Request {
	method, path, body, n := http.MethodHead, "/routes", "", rand.Uint64()
	header := make(http.Header)
	switch n % 4 {
	case 0:
		path += fmt.Sprintf("/zone-%d", n)
	case 1:
		header.Set("If-None-Match", fmt.Sprintf(`"%064x.%d"`, n, uint64(1)<<62+n>>4))
	default:
		method, path, body = http.MethodPost, "/clients", `{"rejected":"`+strings.Repeat("no ", 80)+`"}`
		header.Set("Routesrv-Client", fmt.Sprintf("kind=sidecar;id=%0160d;zone=z%d;version=v%d;mode=Exec;interval=100", n, n, n))
	}
	r, err := http.NewRequestWithContext(ctx, method, url+path, strings.NewReader(body))
	if err != nil {
		panic(err) // the URL is valid
	}
	r.Header = header
	return r
}
