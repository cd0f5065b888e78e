package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/routesrv/routesrv/kube"
)

const (
	mediaProtobuf  = "application/vnd.kubernetes.protobuf"
	mediaJSON      = "application/json"
	acceptBuiltIn  = mediaProtobuf + "," + mediaJSON
	discoveryPath  = "/apis/zalando.org/v1"
	maxStatusBytes = 64 << 10 // of the body of a failure
)

// request is one GET.
type request struct {
	path    string
	query   string
	accept  string
	missing string // the permission it needs, for the error
}

// response is a complete body. It is valid until the next request.
type response struct {
	path  string // as requested, with query
	media string // its content type without parameters, in lower case
	wire  []byte // the body as it was sent
	gzip  bool   // whether wire is compressed
}

// get makes a request and reads the whole answer. Anything but a complete answer with status 200 is an error.
func (s *Source) get(parent context.Context, r request) (*response, error) {
	ctx, cancel := context.WithTimeout(parent, s.cfg.Timeout)
	defer cancel()

	u := *s.base
	u.Path = strings.TrimSuffix(u.Path, "/") + r.path
	u.RawQuery = r.query
	path := u.RequestURI()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), http.NoBody)
	if err != nil {
		return nil, fail(reasonConnection, "request to %s: %w", path, err)
	}
	req.Header.Set("Accept", r.accept)
	req.Header.Set("Accept-Encoding", "gzip")
	start := time.Now()
	resp, err := s.client.Do(req)
	if err != nil {
		return nil, s.transportError(ctx, parent, path, err)
	}
	defer func() { _ = resp.Body.Close() }() // read to its end, or given up
	s.cfg.Logger.Debug("answer", slog.String("path", path), slog.Int("status", resp.StatusCode),
		slog.Duration("after", time.Since(start)))

	if resp.StatusCode != http.StatusOK {
		return nil, s.refused(ctx, parent, resp, path, r.missing)
	}
	out := &response{path: path}
	switch encoding := resp.Header.Get("Content-Encoding"); encoding {
	case "", "identity":
	case "gzip":
		out.gzip = true
	default:
		return nil, fail(reasonBody, "answer to %s: unknown content encoding %q", path, encoding)
	}
	if out.media, err = mediaType(resp.Header.Get("Content-Type")); err != nil {
		return nil, fail(reasonBody, "answer to %s: %w", path, err)
	}
	out.wire, err = s.bodies.read(resp, s.cfg.MaxBytes)
	switch {
	case errors.Is(err, errTooLarge):
		return nil, fail(reasonBody, "answer to %s: %w", path, err)
	case err != nil:
		return nil, s.transportError(ctx, parent, path, fmt.Errorf("the body ends early: %w", err))
	}
	return out, nil
}

// refused makes the error of an answer with another status than 200.
func (s *Source) refused(ctx, parent context.Context, resp *http.Response, path, missing string) error {
	r := io.Reader(resp.Body)
	if resp.Header.Get("Content-Encoding") == "gzip" {
		zip, err := gzip.NewReader(r)
		if err != nil {
			return newStatusError(resp.StatusCode, path, missing, nil)
		}
		r = zip
	}
	body, err := io.ReadAll(io.LimitReader(r, maxStatusBytes)) // half a message is better than none
	if err != nil && ctx.Err() != nil {
		return s.transportError(ctx, parent, path, err)
	}
	return newStatusError(resp.StatusCode, path, missing, body)
}

// mediaType returns the type that the body is to be decoded by. A server that says nothing, or no more than that it is
// text, is taken for one that speaks JSON.
func mediaType(header string) (string, error) {
	if header == "" {
		return mediaJSON, nil
	}
	t, _, err := mime.ParseMediaType(header)
	switch {
	case err != nil:
		return "", fmt.Errorf("content type %q: %w", header, err)
	case t == mediaProtobuf, t == mediaJSON:
		return t, nil
	case t == "text/plain":
		return mediaJSON, nil
	default:
		return "", fmt.Errorf("content type %q: want %s or %s", header, mediaProtobuf, mediaJSON)
	}
}

// discover reports whether the cluster has RouteGroups.
func (s *Source) discover(ctx context.Context) (bool, error) {
	found, err := s.askDiscovery(ctx)
	if e, ok := errors.AsType[*statusError](err); ok && e.code == http.StatusNotFound {
		if !s.warnedNoCRD {
			s.cfg.Logger.Warn(MessageNoCRD)
		}
		s.warnedNoCRD = true
		return false, nil
	}
	if err != nil {
		s.metrics.ReadErrors.WithLabelValues("discovery", string(reasonOf(err))).Inc()
		return false, &kube.ReadError{Verb: "get", Resource: discoveryPath, Err: err}
	}
	if found {
		s.warnedNoCRD = false
	}
	return found, nil
}

func (s *Source) askDiscovery(ctx context.Context) (bool, error) {
	resp, err := s.get(ctx, request{
		path: discoveryPath, accept: mediaJSON,
		missing: `the verb "get" on the non-resource URL "` + discoveryPath + `", as the cluster role system:discovery does`,
	})
	if err != nil {
		return false, err
	}
	body, err := s.bodies.plainOf(resp, s.cfg.MaxBytes)
	if err != nil {
		return false, err
	}
	if resp.media != mediaJSON {
		return false, fail(reasonBody, "answer to %s: content type %q: want %s", resp.path, resp.media, mediaJSON)
	}
	var list struct {
		Resources *json.RawMessage `json:"resources"`
	}
	if err := json.Unmarshal(body, &list); err != nil {
		return false, fail(reasonBody, "answer to %s: %w", resp.path, err)
	}
	if list.Resources == nil {
		// Anything in between could answer 200 with some JSON; that must not take the RouteGroups away.
		return false, fail(reasonBody, "answer to %s: no list of resources", resp.path)
	}
	var resources []struct {
		Name string `json:"name"`
	}
	if err := json.Unmarshal(*list.Resources, &resources); err != nil {
		return false, fail(reasonBody, "answer to %s: %w", resp.path, err)
	}
	for _, r := range resources {
		if r.Name == "routegroups" {
			return true, nil
		}
	}
	return false, nil
}

var errTooLarge = errors.New("the body is too large")

// bodies are the buffers of a Source, kept from list to list and read to read.
type bodies struct {
	wire, plain []byte
	largest     int // capacity that was needed since the last trim
	source      bytes.Reader
	zip         gzip.Reader
}

// read reads the whole body. A body that ends before its Content-Length, its last chunk or its END_STREAM is an error of
// the transport; where there is none of these, the form of the list shows it.
func (b *bodies) read(resp *http.Response, limit int64) ([]byte, error) {
	if n := resp.ContentLength; n > 0 {
		if n > limit {
			return nil, fmt.Errorf("%w: %d bytes, limit %d", errTooLarge, n, limit)
		}
		b.wire = slices.Grow(b.wire[:0], int(n)+1) // one more to see the end
	}
	var err error
	b.wire, err = readAll(b.wire[:0], resp.Body, limit)
	b.largest = max(b.largest, len(b.wire))
	return b.wire, err
}

// plainOf returns the body, uncompressed. Checksum and length of the compressed form are verified.
func (b *bodies) plainOf(r *response, limit int64) ([]byte, error) {
	if !r.gzip {
		return r.wire, nil
	}
	b.source.Reset(r.wire)
	if err := b.zip.Reset(&b.source); err != nil {
		return nil, fail(reasonBody, "answer to %s: gzip: %w", r.path, err)
	}
	var err error
	b.plain, err = readAll(b.plain[:0], &b.zip, limit)
	b.largest = max(b.largest, len(b.plain))
	switch {
	case errors.Is(err, errTooLarge):
		return nil, fail(reasonBody, "answer to %s: %w", r.path, err)
	case err != nil:
		return nil, fail(reasonBody, "answer to %s: gzip: %w", r.path, err)
	}
	return b.plain, nil
}

// trim lets go of buffers that are far larger than what the last read needed.
func (b *bodies) trim() {
	const small = 1 << 20
	if n := 2*b.largest + small; cap(b.wire) > n || cap(b.plain) > n {
		b.wire, b.plain = nil, nil
	}
	b.largest = 0
}

// readAll appends all that r has to buf and fails beyond the limit.
func readAll(buf []byte, r io.Reader, limit int64) ([]byte, error) {
	for {
		if len(buf) == cap(buf) {
			buf = slices.Grow(buf, max(64<<10, cap(buf)/2))
		}
		n, err := r.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		switch {
		case int64(len(buf)) > limit:
			return buf, fmt.Errorf("%w: more than %d bytes", errTooLarge, limit)
		case errors.Is(err, io.EOF):
			return buf, nil
		case err != nil:
			return buf, err
		}
	}
}

// listQuery is the query of a list that must not be older than since; 0 is a consistent list.
func listQuery(selector string, since kube.Revision) string {
	q := url.Values{}
	if selector != "" {
		q.Set("labelSelector", selector)
	}
	if since != 0 {
		q.Set("resourceVersion", strconv.FormatUint(uint64(since), 10))
		q.Set("resourceVersionMatch", "NotOlderThan")
	}
	return q.Encode()
}
