// Package api connects to the API of one cluster. It defines the configuration, the requests, their limits and their
// errors. It knows the kinds that are read, but nothing of earlier answers.
//
// Lists use HTTP/1.1, which costs less; watches share an HTTP/2 connection if the server supports it.
//
// Caveat: client-go writes to klog when a token file cannot be read.
package api

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/klauspost/compress/gzip"

	"github.com/routesrv/routesrv/internal/source/cluster/internal/decode"
	"github.com/routesrv/routesrv/kube"
)

// maxStatusBytes is how many bytes of an error answer's body are read.
const maxStatusBytes = 64 << 10

// Client makes the requests to one cluster. Requests for lists and small answers share their memory, so only one of
// them may run at a time; watches may be requested at any time.
type Client struct {
	cfg     Config
	lists   *http.Client
	streams *http.Client
	base    *url.URL
	bodies  bodies
	walker  decode.Walker
}

// NewClient reads the files that the configuration names, and makes no request. The configuration must have its
// defaults filled in.
func NewClient(cfg Config) (*Client, error) {
	lists, base, err := cfg.connect(true)
	if err != nil {
		return nil, err
	}
	streams, _, err := cfg.connect(false)
	if err != nil {
		return nil, err
	}
	return &Client{cfg: cfg, lists: lists, streams: streams, base: base}, nil
}

// Request is one GET.
type Request struct {
	path    string
	query   string
	accept  string
	missing string // the required permission, for the error text
}

// Response is an answer with status 200. It is valid until the function that receives it returns.
type Response struct {
	Path  string // as requested, with query
	Media string // content type without parameters, in lower case
	Wire  []byte // the whole body as sent if it is compressed, else nil

	client *Client
	body   limited
}

// Open returns the body, decompressed. Checksum and length are verified at its end.
func (r *Response) Open() (io.Reader, error) {
	if r.Wire == nil {
		return &r.body, nil
	}
	zip := &r.client.bodies.zip
	if err := zip.Reset(bytes.NewReader(r.Wire)); err != nil {
		return nil, &sourceError{err}
	}
	r.body.source = zip
	return &r.body, nil
}

// List calls item for each item of the list that the body is, and returns its revision: see [decode.Walker.List].
func (r *Response) List(t decode.Type, item func([]byte)) (kube.Revision, error) {
	body, err := r.Open()
	if err != nil {
		return 0, err
	}
	return r.client.walker.List(r.Media, body, t, item)
}

// url returns the URL of a request.
func (c *Client) url(r Request) *url.URL {
	u := *c.base
	u.Path = strings.TrimSuffix(u.Path, "/") + r.path
	u.RawQuery = r.query
	return &u
}

// Get makes a request and passes the answer to use. Anything but a complete answer with status 200 is an error, whose
// reason [ReasonOf] returns. An uncompressed body arrives while use reads it, so only its end proves that it is
// complete.
func (c *Client) Get(parent context.Context, r Request, use func(*Response) error) error {
	ctx, cancel := context.WithTimeout(parent, c.cfg.Timeout)
	defer cancel()

	u := c.url(r)
	path := u.RequestURI()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), http.NoBody)
	if err != nil {
		return Errorf(ReasonConnection, "request to %s: %w", path, err)
	}
	req.Header.Set("Accept", r.accept)
	req.Header.Set("Accept-Encoding", "gzip")
	start := time.Now()
	resp, err := c.lists.Do(req)
	if err != nil {
		return c.transportError(ctx, parent, path, err)
	}
	defer func() { _ = resp.Body.Close() }() // the body was read to its end or is no longer needed
	c.cfg.Logger.Debug("answer", slog.String("path", path), slog.Int("status", resp.StatusCode),
		slog.Duration("after", time.Since(start)))

	if resp.StatusCode != http.StatusOK {
		return c.refused(ctx, parent, resp, path, r.missing)
	}
	out := &Response{Path: path, client: c, body: limited{source: resp.Body, limit: c.cfg.MaxBytes}}
	err = c.receive(resp, out)
	if err == nil {
		err = use(out)
	}
	known, broken := (*failure)(nil), (*sourceError)(nil)
	switch {
	case err == nil, errors.As(err, &known):
		return err
	case errors.As(err, &broken) && out.Wire == nil:
		return c.transportError(ctx, parent, path, fmt.Errorf("the body ends early: %w", broken.err))
	case errors.As(err, &broken):
		return Errorf(ReasonBody, "answer to %s: gzip: %w", path, broken.err)
	default:
		return Errorf(ReasonBody, "answer to %s: %w", path, err)
	}
}

// receive checks the header and reads the body if it is compressed.
func (c *Client) receive(resp *http.Response, out *Response) (err error) {
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
		wire, err := c.bodies.read(resp, c.cfg.MaxBytes)
		if err == nil {
			out.Wire = wire // else it stays nil: a network error
		}
		return err
	default:
		return fmt.Errorf("unknown content encoding %q", encoding)
	}
}

// refused returns the error for an answer with a status other than 200.
func (c *Client) refused(ctx, parent context.Context, resp *http.Response, path, missing string) error {
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
