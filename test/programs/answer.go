package programs

import (
	"context"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/routesrv/routesrv/app/httpserve"
)

// Answer is the answer to a request.
type Answer struct {
	Status int
	Header http.Header
	Body   string
}

// Fetch sends a GET, which may take ten seconds; a non-empty etag makes it conditional.
func Fetch(ctx context.Context, url, etag string) (Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return Answer{}, err
	}
	return Do(r, etag)
}

// Do sends a request; a non-empty etag makes it conditional. An error comes with what was received until then.
func Do(r *http.Request, etag string) (Answer, error) {
	if etag != "" {
		r.Header.Set("If-None-Match", etag)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return Answer{}, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return Answer{resp.StatusCode, resp.Header, string(body)}, err
}

// Control sends a request to the control socket of a state folder, and waits until there is one.
func Control(ctx context.Context, method, state, path string) (Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	transport := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		for {
			conn, err := httpserve.DialControl(ctx, state)
			if err == nil || ctx.Err() != nil {
				return conn, err
			}
			time.Sleep(time.Millisecond)
		}
	}}
	r, err := http.NewRequestWithContext(ctx, method, "http://pod"+path, nil)
	if err != nil {
		return Answer{}, err
	}
	resp, err := transport.RoundTrip(r)
	if err != nil {
		return Answer{}, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return Answer{resp.StatusCode, resp.Header, string(body)}, err
}
