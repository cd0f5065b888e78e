package dataplane

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/routesrv/routesrv/api"
	"github.com/routesrv/routesrv/table"
)

const (
	userAgent      = "routesrv-dataplane"
	acceptEncoding = "zstd, gzip"
)

// answer is a server's answer. Only the completeness of the transfer has been verified.
type answer struct {
	notModified bool
	etag        api.Entity
	decoder     *table.Decoder // holds the text of a full answer
	digest      table.Digest   // of the text, or of the table that the delta leads to
	ofDelta     bool           // the answer is a delta
	delta       *table.Delta   // nil unless the answer is a readable delta
	count       string         // X-Count; empty if there is none
	modified    time.Time      // when the server published this table; zero if unknown
	sourceRead  time.Time      // zero if the answer proves no time
	state       string
	origin      string
}

// NewTransport returns a transport whose waits and reads are all limited, without TLS settings and without a proxy.
func NewTransport() *http.Transport {
	return &http.Transport{
		DialContext:            (&net.Dialer{Timeout: 5 * time.Second, KeepAlive: 15 * time.Second}).DialContext,
		TLSHandshakeTimeout:    5 * time.Second,
		MaxResponseHeaderBytes: 64 << 10,
		MaxIdleConnsPerHost:    1,
		IdleConnTimeout:        90 * time.Second,
		ForceAttemptHTTP2:      true,
		DisableCompression:     true, // lengths and encodings are checked here
	}
}

// fetch makes the exchange and reads the whole body.
func (c *Client) fetch(ctx context.Context, s *server, zone string, seen tables, w want) (*answer, *Error) {
	header := http.Header{"Accept-Encoding": {acceptEncoding}}
	if w.delta {
		header.Set(api.HeaderAcceptIM, api.DeltaForm)
	}
	var names []string
	if w.named {
		names = seen.names()
	}
	u := s.url
	if zone != "" {
		u = u.JoinPath(url.PathEscape(zone))
	}
	resp, f := c.request(ctx, http.MethodGet, u, header, names, nil)
	if f != nil {
		return nil, f
	}
	defer resp.Body.Close()
	a := s.answerOf(resp, time.Now())
	b := body{resp: resp, limit: c.limit(), received: c.cfg.Metrics.received}
	switch {
	case a.notModified && len(names) == 0:
		return nil, failf(ReasonProtocol, "304 to a request that named no table")
	case a.notModified:
		return a, nil
	case w.delta && resp.StatusCode == http.StatusIMUsed:
		return a, readDelta(a, &b, seen)
	}
	if f = checkStatus(resp); f != nil {
		return nil, f
	}
	if f = c.readTable(ctx, a, &b, seen); f != nil {
		return nil, f
	}
	return a, nil
}

// Opinion is a server's answer to a question about a table.
type Opinion struct {
	// Keep means that a client with the table should keep it: the server has it, or it may be newer than the server's.
	Keep bool
	// Digest and Revision identify the table that it would send otherwise.
	Digest   table.Digest
	Revision uint64
}

// Ask asks the server in use whether it would send its table to a client that has another one. It is for a relay, whose clients
// name tables that it never had. It changes nothing, and does not wait for a poll. The error is an *Error, or that of ctx.
func (c *Client) Ask(ctx context.Context, digest table.Digest, revision uint64) (Opinion, error) {
	s := c.inUse()
	ctx, cancel := context.WithTimeout(ctx, min(c.cfg.Timeout, probeTimeout))
	defer cancel()
	names := []string{api.Tag{Digest: digest, Revision: revision}.String()}
	resp, f := c.request(ctx, http.MethodHead, s.url, http.Header{"Accept-Encoding": {"identity"}}, names, nil)
	var e api.Entity
	if f == nil {
		resp.Body.Close()
		if resp.StatusCode == http.StatusNotModified {
			return Opinion{Keep: true}, nil
		}
		if f = checkStatus(resp); f == nil {
			if e = api.ParseEntity(resp.Header.Get(api.HeaderETag)); !e.Known {
				f = failf(ReasonTag, "ETag %.200q has no digest", e.Text)
			}
		}
	}
	if f != nil {
		f.URL = s.name
		return Opinion{}, f
	}
	return Opinion{Digest: e.Tag.Digest, Revision: e.Tag.Revision}, nil
}

// reportTimeout limits the time for a report.
const reportTimeout = 3 * time.Second

// Report sends a report of this client, JSON, to the server in use, and returns the rank in the answer, or -1 without one.
func (c *Client) Report(ctx context.Context, body []byte) (rank int, err error) {
	s := c.inUse()
	ctx, cancel := context.WithTimeout(ctx, min(c.cfg.Timeout, reportTimeout))
	defer cancel()
	header := http.Header{"Content-Type": {"application/json"}}
	resp, f := c.request(ctx, http.MethodPost, s.url.JoinPath("..", api.ReportPath), header, nil, bytes.NewReader(body))
	if f != nil {
		return -1, fmt.Errorf("report to %s: %w", s.name, f.Err)
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 4<<10)) // so that the connection can be reused
	if resp.StatusCode != http.StatusNoContent && resp.StatusCode != http.StatusOK {
		return -1, fmt.Errorf("report to %s: status %d", s.name, resp.StatusCode)
	}
	if n, err := strconv.ParseUint(resp.Header.Get(api.HeaderRank), 10, 16); err == nil {
		return int(n), nil
	}
	return -1, nil
}

// request sends a request that names tables, with the client's identity. The body may be nil.
func (c *Client) request(ctx context.Context, method string, u *url.URL, header http.Header, names []string, body io.Reader) (*http.Response, *Error) {
	req, err := http.NewRequestWithContext(ctx, method, u.String(), body)
	if err != nil {
		return nil, failf(ReasonConnect, "%w", err)
	}
	req.Header = header
	req.Header.Set("User-Agent", userAgent)
	if identity := c.cfg.Identity(); identity != "" {
		req.Header[api.HeaderClient] = []string{identity}
	}
	if len(names) > 0 {
		req.Header.Set(api.HeaderIfNoneMatch, strings.Join(names, ", "))
	}
	resp, err := c.http.Do(req)
	if err != nil {
		if cause, ok := errors.AsType[*url.Error](err); ok {
			err = cause.Err // without the URL, which may contain a password and which the caller adds
		}
		return nil, failf(transferReason(err, ReasonConnect), "%w", err)
	}
	return resp, nil
}

// answerOf returns the headers of a response as an answer. It records what they reveal about the server.
func (s *server) answerOf(resp *http.Response, received time.Time) *answer {
	a := &answer{
		notModified: resp.StatusCode == http.StatusNotModified,
		etag:        api.ParseEntity(resp.Header.Get(api.HeaderETag)),
		count:       resp.Header.Get(api.HeaderCount),
		state:       api.ParseState(resp.Header.Get(api.HeaderTableState)),
		origin:      s.name,
	}
	modified, err := http.ParseTime(resp.Header.Get("Last-Modified"))
	a.modified = credible(modified, err, received)
	a.sourceRead = s.evidence(resp, a.etag, received)
	if a.notModified || resp.StatusCode == http.StatusOK {
		s.otherKind = resp.Header.Get(api.HeaderRevision) == ""
	}
	return a
}

// readTable reads an answer with the status 200 into a, and checks that its body is complete and matches the ETag.
func (c *Client) readTable(ctx context.Context, a *answer, b *body, seen tables) (f *Error) {
	if !a.etag.Known {
		return failf(ReasonTag, "ETag %.200q has no digest", b.resp.Header.Get(api.HeaderETag))
	}
	a.decoder = c.decoder(seen, b.limit)
	if a.digest, f = b.table(a.decoder); f != nil {
		return f
	}
	if err := ctx.Err(); err != nil {
		return failf(ReasonTimeout, "%w", err) // a transport may ignore the deadline
	}
	if a.digest != a.etag.Tag.Digest {
		return failf(ReasonDigest, "text has digest %s, ETag says %s", a.digest, a.etag.Text)
	}
	return nil
}

// checkStatus returns an error for every status except 200.
func checkStatus(resp *http.Response) *Error {
	var f *Error
	switch status := resp.StatusCode; {
	case status == http.StatusOK:
		return nil
	case status == http.StatusNotFound:
		f = failf(ReasonNotReady, "status 404: no table yet")
	case status >= 300 && status < 400:
		f = failf(ReasonRedirect, "status %d: redirects are not followed", status)
	default:
		f = failf(ReasonStatus, "status %d", status)
	}
	f.retryAfter = retryAfter(resp)
	return f
}

// retryAfter returns the advice of the answer; 0 if there is none, or if it is a date.
func retryAfter(resp *http.Response) time.Duration {
	seconds, _ := strconv.ParseUint(resp.Header.Get("Retry-After"), 10, 32)
	return time.Duration(seconds) * time.Second
}
