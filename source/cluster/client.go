package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/klauspost/compress/gzip"

	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/source/cluster/internal/decode"
)

// maxStatusBytes is how many bytes of an error answer's body are read.
const maxStatusBytes = 64 << 10

// client makes the requests to one cluster. Requests for lists and small answers share their memory, so only one of
// them may run at a time; watches may be requested at any time.
type client struct {
	cfg     Config
	lists   *http.Client
	streams *http.Client
	base    *url.URL
	wire    bytes.Buffer // a compressed body
	zip     gzip.Reader
	walker  decode.Walker
}

// newClient reads the files that the configuration names, and makes no request. The configuration must have its
// defaults filled in.
func newClient(cfg Config) (*client, error) {
	lists, base, err := cfg.connect(true)
	if err != nil {
		return nil, err
	}
	streams, _, err := cfg.connect(false)
	if err != nil {
		return nil, err
	}
	return &client{cfg: cfg, lists: lists, streams: streams, base: base}, nil
}

// request is one GET.
type request struct {
	path    string
	query   string
	accept  string
	missing string // the required permission, for the error text
}

// response is an answer with status 200. It is valid until the function that receives it returns.
type response struct {
	Path  string // as requested, with query
	Media string // content type without parameters, in lower case
	wire  []byte // the whole body as sent if it is compressed, else nil

	client *client
	body   limited
}

// open returns the body, decompressed. Checksum and length are verified at its end.
func (r *response) open() (io.Reader, error) {
	if r.wire == nil {
		return &r.body, nil
	}
	zip := &r.client.zip
	if err := zip.Reset(bytes.NewReader(r.wire)); err != nil {
		return nil, &sourceError{err}
	}
	r.body = limited{source: zip, limit: r.body.limit}
	return &r.body, nil
}

// list calls item for each item of the list that the body is, and returns its revision: see [decode.Walker.List].
func (r *response) list(kind kube.Kind, item func([]byte)) (kube.Revision, error) {
	body, err := r.open()
	if err != nil {
		return 0, err
	}
	return r.client.walker.List(r.Media, body, kind, item)
}

// send makes a request, and returns the answer with the path and query that were requested.
func (c *client) send(ctx, parent context.Context, through *http.Client, r request, encoding string) (*http.Response, string, error) {
	u := *c.base
	u.Path = strings.TrimSuffix(u.Path, "/") + r.path
	u.RawQuery = r.query
	path := u.RequestURI()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), http.NoBody)
	if err != nil {
		return nil, path, failf(reasonConnection, "request to %s: %w", path, err)
	}
	req.Header.Set("Accept", r.accept)
	if encoding != "" {
		req.Header.Set("Accept-Encoding", encoding)
	}
	resp, err := through.Do(req)
	if err != nil {
		return nil, path, c.transportError(ctx, parent, path, err)
	}
	return resp, path, nil
}

// get makes a request and passes the answer to use. Anything but a complete answer with status 200 is an error, whose reason
// [reasonOf] returns. An uncompressed body arrives while use reads it, so only its end proves that it is complete.
func (c *client) get(parent context.Context, r request, use func(*response) error) error {
	ctx, cancel := context.WithTimeout(parent, c.cfg.Timeout)
	defer cancel()

	start := time.Now()
	resp, path, err := c.send(ctx, parent, c.lists, r, "gzip")
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }() // the body was read to its end or is no longer needed
	c.cfg.Logger.Debug("answer", slog.String("path", path), slog.Int("status", resp.StatusCode),
		slog.Duration("after", time.Since(start)))

	if resp.StatusCode != http.StatusOK {
		return c.refused(ctx, parent, resp, path, r.missing)
	}
	out := &response{Path: path, client: c, body: limited{source: resp.Body, limit: c.cfg.MaxBytes}}
	err = c.receive(resp, out)
	if err == nil {
		err = use(out)
	}
	known, broken := (*failure)(nil), (*sourceError)(nil)
	switch {
	case err == nil, errors.As(err, &known):
		return err
	case errors.As(err, &broken) && out.wire == nil:
		return c.transportError(ctx, parent, path, fmt.Errorf("the body ends early: %w", broken.err))
	case errors.As(err, &broken):
		return failf(reasonBody, "answer to %s: gzip: %w", path, broken.err)
	default:
		return failf(reasonBody, "answer to %s: %w", path, err)
	}
}

// receive checks the header and reads the body if it is compressed: compressed bodies are about a fifteenth of the size, and a
// body equal to the previous one need not be decompressed. A body that ends before its Content-Length, its last chunk or its
// END_STREAM is a transport error; without any of these, the checksum of the body detects it.
func (c *client) receive(resp *http.Response, out *response) (err error) {
	if out.Media, err = mediaType(resp.Header.Get("Content-Type")); err != nil {
		return err
	}
	if n := resp.ContentLength; n > c.cfg.MaxBytes {
		return fmt.Errorf("%w: %d bytes, limit %d", decode.ErrTooLarge, n, c.cfg.MaxBytes)
	}
	switch encoding := resp.Header.Get("Content-Encoding"); encoding {
	case "", "identity":
		return nil
	case "gzip":
		if c.wire.Cap() > wireKept {
			c.wire = bytes.Buffer{}
		}
		c.wire.Reset()
		if _, err = c.wire.ReadFrom(&out.body); err == nil {
			out.wire = c.wire.Bytes() // else it stays nil: a network error
		}
		return err
	default:
		return fmt.Errorf("unknown content encoding %q", encoding)
	}
}

// refused returns the error for an answer with a status other than 200.
func (c *client) refused(ctx, parent context.Context, resp *http.Response, path, missing string) error {
	r := io.Reader(resp.Body)
	if resp.Header.Get("Content-Encoding") == "gzip" {
		zip, err := gzip.NewReader(r)
		if err != nil {
			return newStatusError(resp, path, missing, nil)
		}
		r = zip
	}
	body, err := io.ReadAll(io.LimitReader(r, maxStatusBytes)) // a partial message is better than none
	if err != nil && ctx.Err() != nil {
		return c.transportError(ctx, parent, path, err)
	}
	return newStatusError(resp, path, missing, body)
}

// eventStream is the answer to a watch. The caller closes the body.
type eventStream struct {
	Path string // as requested, with query
	Body io.ReadCloser
}

// Watch opens a watch that begins after the revision since and that the server should end after a time. It lasts until
// ctx ends; ctx must derive from parent. If the cause of ctx is [context.DeadlineExceeded], the server was too slow.
// Anything but an event stream in JSON with status 200 is an error, whose reason [reasonOf] returns.
func (c *client) Watch(ctx, parent context.Context, r *resource, since kube.Revision, lasts time.Duration) (*eventStream, error) {
	request := r.request("watch")
	q := url.Values{
		"watch": {"true"}, "allowWatchBookmarks": {"true"},
		"resourceVersion": {strconv.FormatUint(uint64(since), 10)}, "timeoutSeconds": {strconv.Itoa(int(lasts / time.Second))},
	}
	if r.selector != "" {
		q.Set("labelSelector", r.selector)
	}
	request.query = q.Encode()
	request.accept = decode.MediaJSON // events are few: only lists are worth a second encoding
	resp, path, err := c.send(ctx, parent, c.streams, request, "")
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		defer func() { _ = resp.Body.Close() }()
		return nil, c.refused(ctx, parent, resp, path, request.missing)
	}
	media, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if err == nil && media != decode.MediaJSON {
		err = fmt.Errorf("content type %q: must be %s", media, decode.MediaJSON)
	}
	if err != nil {
		_ = resp.Body.Close()
		return nil, failf(reasonBody, "answer to %s: %w", path, err)
	}
	return &eventStream{Path: path, Body: resp.Body}, nil
}

// mediaType returns the media type for decoding the body. A missing content type or text/plain counts as JSON.
func mediaType(header string) (string, error) {
	if header == "" {
		return decode.MediaJSON, nil
	}
	t, _, err := mime.ParseMediaType(header)
	switch {
	case err != nil:
		return "", fmt.Errorf("content type %q: %w", header, err)
	case t == decode.MediaProtobuf, t == decode.MediaJSON:
		return t, nil
	case t == "text/plain":
		return decode.MediaJSON, nil
	default:
		return "", fmt.Errorf("content type %q: must be %s or %s", header, decode.MediaProtobuf, decode.MediaJSON)
	}
}

// wireKept is the largest buffer for compressed bodies that is kept between two reads.
const wireKept = 4 << 20

// sourceError is an error of the reader of a body: the network, or the decompressor.
type sourceError struct{ err error }

func (e *sourceError) Error() string { return e.err.Error() }
func (e *sourceError) Unwrap() error { return e.err }

// limited is a body that fails beyond a limit, and marks the errors of its source.
type limited struct {
	source      io.Reader
	limit, read int64
}

// Read implements [io.Reader].
func (l *limited) Read(p []byte) (int, error) {
	n, err := l.source.Read(p)
	l.read += int64(n)
	switch {
	case l.read > l.limit:
		return 0, fmt.Errorf("%w: more than %d bytes", decode.ErrTooLarge, l.limit)
	case err != nil && !errors.Is(err, io.EOF):
		return n, &sourceError{err}
	}
	return n, err
}
