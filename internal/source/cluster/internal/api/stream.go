package api

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/routesrv/routesrv/internal/source/cluster/internal/decode"
	"github.com/routesrv/routesrv/kube"
)

// EventStream is the answer to a watch. The caller closes the body.
type EventStream struct {
	Path string // as requested, with query
	Body io.ReadCloser
}

// Watch opens a watch that begins after the revision since and that the server should end after a time. It lasts until
// ctx ends; ctx must derive from parent. If the cause of ctx is [context.DeadlineExceeded], the server was too slow.
// Anything but an event stream in JSON with status 200 is an error, whose reason [ReasonOf] returns.
func (c *Client) Watch(ctx, parent context.Context, r *Resource, since kube.Revision, lasts time.Duration) (*EventStream, error) {
	request := r.request("watch")
	q := url.Values{
		"watch": {"true"}, "allowWatchBookmarks": {"true"},
		"resourceVersion": {strconv.FormatUint(uint64(since), 10)}, "timeoutSeconds": {strconv.Itoa(int(lasts / time.Second))},
	}
	if r.selector != "" {
		q.Set("labelSelector", r.selector)
	}
	request.query = q.Encode()
	u := c.url(request)
	path := u.RequestURI()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), http.NoBody)
	if err != nil {
		return nil, Errorf(ReasonConnection, "request to %s: %w", path, err)
	}
	req.Header.Set("Accept", decode.MediaJSON) // events are few: only lists are worth a second encoding
	resp, err := c.streams.Do(req)
	if err != nil {
		if cause := context.Cause(ctx); parent.Err() == nil && errors.Is(cause, context.DeadlineExceeded) {
			return nil, Errorf(ReasonTimeout, "request to %s: %w", path, cause)
		}
		return nil, c.transportError(ctx, parent, path, err)
	}
	if resp.StatusCode != http.StatusOK {
		defer func() { _ = resp.Body.Close() }()
		return nil, c.refused(ctx, parent, resp, path, request.missing)
	}
	media, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if err == nil && media != decode.MediaJSON {
		err = fmt.Errorf("content type %q: want %s", media, decode.MediaJSON)
	}
	if err != nil {
		_ = resp.Body.Close()
		return nil, Errorf(ReasonBody, "answer to %s: %w", path, err)
	}
	return &EventStream{Path: path, Body: resp.Body}, nil
}
