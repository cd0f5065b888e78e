package programs

import (
	"context"
	"io"
	"net/http"
	"time"
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
