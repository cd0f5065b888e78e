package tables

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/routesrv/routesrv/api"
	"github.com/routesrv/routesrv/eskip"
)

// restarts is how often to read pages again because the table changed; restartDelay grows with the attempts.
const (
	restarts     = 5
	restartDelay = 200 * time.Millisecond
)

// maxMessage is how many bytes of an answer other than a table go into the error.
const maxMessage = 200

// remote is a table at a URL.
type remote struct {
	reader *Reader
	url    *url.URL
}

func (r *Reader) loadURL(ctx context.Context, place string) (*Table, error) {
	u, err := url.Parse(place)
	if err != nil {
		return nil, fmt.Errorf("not a URL: %w", err)
	}
	if u.Host == "" {
		return nil, fmt.Errorf("%s: the URL has no host", u.Redacted())
	}
	ctx, cancel := context.WithTimeout(ctx, r.cfg.Timeout)
	defer cancel()
	t, err := (&remote{r, u}).load(ctx)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", u.Redacted(), withoutURL(err))
	}
	t.Name = u.Redacted()
	return t, nil
}

// withoutURL strips the method and the URL from a client error, because the caller already names the place.
func withoutURL(err error) error {
	if u, ok := errors.AsType[*url.Error](err); ok {
		if u.Timeout() {
			return errors.New("no complete answer in time")
		}
		return u.Err
	}
	return err
}

// errChanged reports that a Skipper has a new table, so the pages already read belong to the old one.
var errChanged = errors.New("the table changed while its pages were read")

func (s *remote) load(ctx context.Context) (*Table, error) {
	for attempt := 1; ; attempt++ {
		t, err := s.once(ctx)
		if !errors.Is(err, errChanged) {
			return t, err
		}
		if attempt > restarts {
			return nil, fmt.Errorf("%w, %d times", err, attempt)
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(time.Duration(attempt) * restartDelay):
		}
	}
}

// once reads the table, or all of its pages from one version.
func (s *remote) once(ctx context.Context) (*Table, error) {
	first, err := s.get(ctx, 0, "", s.reader.cfg.MaxBytes)
	switch {
	case err != nil:
		return nil, err
	case first.timestamp == "":
		return whole(first)
	}
	return s.pages(ctx, first)
}

// httpAnswer is a table, or a page of one.
type httpAnswer struct {
	text      []byte
	header    http.Header
	timestamp string // X-Timestamp, which only a Skipper sends
	count     int    // X-Count, -1 if there is none
}

// get requests one page. A route server ignores the query parameters and answers with the whole table.
func (s *remote) get(ctx context.Context, offset int, timestamp string, limit int64) (*httpAnswer, error) {
	u := *s.url
	q := u.Query()
	q.Set("nopretty", "true")
	q.Set("offset", strconv.Itoa(offset))
	q.Set("limit", strconv.Itoa(s.reader.cfg.PageSize))
	if timestamp != "" {
		q.Set("timestamp", timestamp)
	}
	u.RawQuery = q.Encode()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "text/plain")
	req.Header.Set("User-Agent", api.AgentTool)
	// Because this request sets no Accept-Encoding, the transport requests gzip and decompresses the answer.
	resp, err := s.reader.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }() // the body was read to its end or is no longer needed
	if resp.StatusCode != http.StatusOK {
		return nil, refused(resp, timestamp != "")
	}
	a := &httpAnswer{header: resp.Header, timestamp: resp.Header.Get("X-Timestamp"), count: -1}
	if a.text, err = readAll(resp.Body, limit); err != nil {
		return nil, fmt.Errorf("read the answer: %w", err)
	}
	if kind := resp.Header.Get("Content-Type"); strings.HasPrefix(kind, "text/html") || strings.HasPrefix(kind, "application/json") {
		return nil, fmt.Errorf("the answer is %s, not routes", kind)
	}
	if c := resp.Header.Get(api.HeaderCount); c != "" {
		if a.count, err = strconv.Atoi(c); err != nil || a.count < 0 {
			return nil, fmt.Errorf("header X-Count: %q is not a number of routes", c)
		}
	}
	return a, nil
}

func refused(resp *http.Response, paged bool) error {
	text, _ := io.ReadAll(io.LimitReader(resp.Body, maxMessage)) // a partial message is better than none
	line, _, _ := strings.Cut(strings.TrimSpace(string(text)), "\n")
	if paged && resp.StatusCode == http.StatusBadRequest && line == "invalid timestamp" {
		return errChanged
	}
	msg := "answer " + resp.Status
	if line != "" {
		msg += fmt.Sprintf(": %q", line)
	}
	switch {
	case resp.StatusCode == http.StatusNotFound:
		msg += " (no routes at this path, or a route server that has no table yet)"
	case resp.StatusCode < http.StatusBadRequest:
		msg += " (redirects are not followed)"
	}
	return errors.New(msg)
}

func whole(a *httpAnswer) (*Table, error) {
	if e := api.ParseEntity(a.header.Get(api.HeaderETag)); e.Known && e.Tag.Digest != sha256.Sum256(a.text) {
		return nil, errors.New("the text does not match the digest in the ETag: it was truncated or changed in transit")
	}
	t := &Table{}
	err := t.parse("answer", string(a.text))
	if err != nil {
		return nil, err
	}
	if n := len(t.Routes) + t.Unread; a.count >= 0 && a.count != n {
		return nil, fmt.Errorf("%d routes, but X-Count is %d", n, a.count)
	}
	if rev := a.header.Get(api.HeaderRevision); rev != "" {
		if t.Revision, err = strconv.ParseUint(rev, 10, 64); err != nil {
			return nil, fmt.Errorf("header X-Revision: %q is not a revision", rev)
		}
	}
	return t, nil
}

func (s *remote) pages(ctx context.Context, first *httpAnswer) (*Table, error) {
	if first.count < 0 {
		return nil, errors.New("X-Timestamp without X-Count: the number of pages is unknown")
	}
	routes, left := make([]*eskip.Route, 0, min(first.count, 1<<20)), s.reader.cfg.MaxBytes
	for page := first; ; {
		more, err := parse(fmt.Sprintf("page at %d", len(routes)), string(page.text))
		if err != nil {
			return nil, err
		}
		routes = append(routes, more...)
		left -= int64(len(page.text))
		switch {
		case len(routes) == first.count:
			return &Table{Routes: routes}, nil
		case len(routes) > first.count:
			return nil, fmt.Errorf("%d routes, but X-Count is %d", len(routes), first.count)
		case len(bytes.TrimSpace(page.text)) == 0:
			return nil, fmt.Errorf("an empty page after %d of %d routes", len(routes), first.count)
		}
		if page, err = s.get(ctx, len(routes), first.timestamp, left); err != nil {
			return nil, err
		}
		if page.timestamp != first.timestamp || page.count != first.count {
			return nil, errChanged
		}
	}
}
