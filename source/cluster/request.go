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

// routeGroupVersion is the API group of RouteGroups, and its version.
const routeGroupVersion = "zalando.org/v1"

const (
	mediaProtobuf  = "application/vnd.kubernetes.protobuf"
	mediaJSON      = "application/json"
	acceptBuiltIn  = mediaProtobuf + "," + mediaJSON
	discoveryPath  = "/apis/" + routeGroupVersion
	maxStatusBytes = 64 << 10 // of the body of a failure
)

// request is one GET.
type request struct {
	path    string
	query   string
	accept  string
	missing string // the permission it needs, for the error
}

// response is an answer with status 200. It is valid as long as the function that it was handed to.
type response struct {
	path   string  // as requested, with query
	media  string  // its content type without parameters, in lower case
	wire   []byte  // the whole body as it was sent if that is compressed, else nil
	body   *window // on the body, uncompressed; open makes it ready
	bodies *bodies
	limit  int64
}

// open makes the body ready to be read.
func (r *response) open() error {
	if r.wire == nil {
		return nil
	}
	return r.bodies.inflate(r.wire, r.limit)
}

// get makes a request and hands the answer to use. Anything but a complete answer with status 200 is an error. A body
// that is not compressed arrives while use reads it; that it is complete shows at its end only.
func (s *Source) get(parent context.Context, r request, use func(*response) error) error {
	ctx, cancel := context.WithTimeout(parent, s.cfg.Timeout)
	defer cancel()

	u := *s.base
	u.Path = strings.TrimSuffix(u.Path, "/") + r.path
	u.RawQuery = r.query
	path := u.RequestURI()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), http.NoBody)
	if err != nil {
		return fail(reasonConnection, "request to %s: %w", path, err)
	}
	req.Header.Set("Accept", r.accept)
	req.Header.Set("Accept-Encoding", "gzip")
	start := time.Now()
	resp, err := s.client.Do(req)
	if err != nil {
		return s.transportError(ctx, parent, path, err)
	}
	defer func() { _ = resp.Body.Close() }() // read to its end, or given up
	s.cfg.Logger.Debug("answer", slog.String("path", path), slog.Int("status", resp.StatusCode),
		slog.Duration("after", time.Since(start)))

	if resp.StatusCode != http.StatusOK {
		return s.refused(ctx, parent, resp, path, r.missing)
	}
	out := &response{path: path, body: &s.bodies.window, bodies: &s.bodies, limit: s.cfg.MaxBytes}
	defer s.bodies.release()
	err = s.receive(resp, out)
	if err == nil {
		err = use(out)
	}
	known, broken := (*failure)(nil), (*sourceError)(nil)
	switch {
	case err == nil, errors.As(err, &known):
		return err
	case errors.As(err, &broken) && out.wire == nil:
		return s.transportError(ctx, parent, path, fmt.Errorf("the body ends early: %w", broken.err))
	case errors.As(err, &broken):
		return fail(reasonBody, "answer to %s: gzip: %w", path, broken.err)
	default:
		return fail(reasonBody, "answer to %s: %w", path, err)
	}
}

// receive looks at the header and reads the body if it is compressed.
func (s *Source) receive(resp *http.Response, out *response) (err error) {
	if out.media, err = mediaType(resp.Header.Get("Content-Type")); err != nil {
		return err
	}
	if n := resp.ContentLength; n > out.limit {
		return fmt.Errorf("%w: %d bytes, limit %d", errTooLarge, n, out.limit)
	}
	switch encoding := resp.Header.Get("Content-Encoding"); encoding {
	case "", "identity":
		s.bodies.window.reset(resp.Body, out.limit)
		return nil
	case "gzip":
	default:
		return fmt.Errorf("unknown content encoding %q", encoding)
	}
	wire, err := s.bodies.read(resp, out.limit)
	switch {
	case errors.Is(err, errTooLarge):
		return err
	case err != nil:
		return &sourceError{err} // of the network: wire is not set
	}
	out.wire = wire
	return nil
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

// discover reports whether the cluster has RouteGroups. If some are served it takes several calls until it reports that
// there are none any more; until then it fails.
func (s *Source) discover(ctx context.Context, served bool) (bool, error) {
	found, err := s.askDiscovery(ctx)
	e, missing := errors.AsType[*statusError](err)
	if missing = missing && e.code == http.StatusNotFound; missing {
		err = nil
	}
	if err != nil {
		err = &kube.ReadError{Verb: "get", Resource: discoveryPath, Err: err}
	} else if !found && served {
		err = s.confirm(ctx, !missing)
	}
	if err != nil {
		s.metrics.ReadErrors.WithLabelValues("discovery", string(reasonOf(err))).Inc()
		return false, err
	}
	s.absence = absence{}
	if missing && !s.warnedNoCRD {
		s.cfg.Logger.Warn(MessageNoCRD)
	}
	if found || missing {
		s.warnedNoCRD = missing
	}
	return found, nil
}

// getJSON gets the body of a small answer in JSON.
func (s *Source) getJSON(ctx context.Context, path string) (body []byte, err error) {
	err = s.get(ctx, request{
		path: path, accept: mediaJSON,
		missing: `the verb "get" on the non-resource URL "` + path + `", as the cluster role system:discovery does`,
	}, func(resp *response) error {
		if resp.media != mediaJSON {
			return fmt.Errorf("content type %q: want %s", resp.media, mediaJSON)
		}
		if err := resp.open(); err != nil {
			return err
		}
		rest, err := resp.body.all()
		body = bytes.Clone(rest)
		return err
	})
	return body, err
}

func (s *Source) askDiscovery(ctx context.Context) (bool, error) {
	body, err := s.getJSON(ctx, discoveryPath)
	if err != nil {
		return false, err
	}
	// Anything in between could answer 200 with some JSON; that must not take the RouteGroups away.
	var list struct {
		Kind         string `json:"kind"`
		GroupVersion string `json:"groupVersion"`
		Resources    []struct {
			Name string `json:"name"`
		} `json:"resources"`
	}
	if err := json.Unmarshal(body, &list); err != nil {
		return false, fail(reasonBody, "answer to %s: %w", discoveryPath, err)
	}
	switch {
	case list.Kind != "APIResourceList" || list.GroupVersion != routeGroupVersion:
		return false, fail(reasonBody, "answer to %s: it is a %.40q of the group version %.40q, want an APIResourceList of %s",
			discoveryPath, list.Kind, list.GroupVersion, routeGroupVersion)
	case list.Resources == nil:
		return false, fail(reasonBody, "answer to %s: no list of resources", discoveryPath)
	}
	for _, r := range list.Resources {
		if r.Name == "routegroups" {
			return true, nil
		}
	}
	return false, nil
}

// wireKept is how large the buffer for compressed bodies may stay between two reads.
const wireKept = 4 << 20

// bodies is the memory for the bodies of a Source, one at a time. Compressed bodies are a fifteenth of what is in them and
// are read as a whole, so that one which is that of the read before need not be inflated.
type bodies struct {
	wire   []byte
	window window
	source bytes.Reader
	zip    gzip.Reader
}

// read reads a whole compressed body. A body that ends before its Content-Length, its last chunk or its END_STREAM is an
// error of the transport; where there is none of these, its checksum shows it.
func (b *bodies) read(resp *http.Response, limit int64) ([]byte, error) {
	if n := resp.ContentLength; n > 0 {
		b.wire = slices.Grow(b.wire[:0], int(n)+1) // one more to see the end
	}
	var err error
	b.wire, err = readAll(b.wire[:0], resp.Body, limit)
	return b.wire, err
}

// inflate puts the window on what is in the compressed body. Checksum and length are verified at its end.
func (b *bodies) inflate(wire []byte, limit int64) error {
	b.source.Reset(wire)
	if err := b.zip.Reset(&b.source); err != nil {
		return &sourceError{err}
	}
	b.window.reset(&b.zip, limit)
	return nil
}

// release lets go of what is larger than what is worth keeping until the next request.
func (b *bodies) release() {
	b.source.Reset(nil)
	b.window.release()
	if cap(b.wire) > wireKept {
		b.wire = nil
	}
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
