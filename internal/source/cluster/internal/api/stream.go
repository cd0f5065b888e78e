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

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/routesrv/routesrv/internal/source/cluster/internal/decode"
	"github.com/routesrv/routesrv/kube"
)

// WatchOptions are the parameters of a watch.
type WatchOptions struct {
	Since   kube.Revision // resume after it; with Initial, the minimum revision of the initial objects
	Initial bool          // begin with all existing objects
	Seconds int64         // after which the server ends the stream
}

func (o WatchOptions) query(selector string) string {
	q := url.Values{"watch": {"true"}, "allowWatchBookmarks": {"true"}}
	if selector != "" {
		q.Set("labelSelector", selector)
	}
	if o.Since != 0 {
		q.Set("resourceVersion", strconv.FormatUint(uint64(o.Since), 10))
	}
	if o.Initial {
		q.Set("sendInitialEvents", "true")
		q.Set("resourceVersionMatch", string(metav1.ResourceVersionMatchNotOlderThan))
	}
	if o.Seconds > 0 {
		q.Set("timeoutSeconds", strconv.FormatInt(o.Seconds, 10))
	}
	return q.Encode()
}

// EventStream is the answer to a watch. The caller closes the body.
type EventStream struct {
	Path  string // as requested, with query
	Media string
	Body  io.ReadCloser
}

// Watch opens a watch that lasts until ctx ends; ctx must derive from parent. If the cause of ctx is
// [context.DeadlineExceeded], the server was too slow. Anything but an event stream with status 200 is an error,
// whose reason [ReasonOf] returns.
func (c *Client) Watch(ctx, parent context.Context, r *Resource, o WatchOptions) (*EventStream, error) {
	request := r.request("watch")
	request.query = o.query(r.selector)
	u := c.url(request)
	path := u.RequestURI()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), http.NoBody)
	if err != nil {
		return nil, Errorf(ReasonConnection, "request to %s: %w", path, err)
	}
	req.Header.Set("Accept", request.accept)
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
	if err == nil && media != decode.MediaJSON && (media != decode.MediaProtobuf || r.Custom()) {
		err = fmt.Errorf("content type %q: want %s or %s", media, decode.MediaProtobuf, decode.MediaJSON)
	}
	if err != nil {
		_ = resp.Body.Close()
		return nil, Errorf(ReasonBody, "answer to %s: %w", path, err)
	}
	return &EventStream{Path: path, Media: media, Body: resp.Body}, nil
}
