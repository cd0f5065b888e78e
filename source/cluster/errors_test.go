package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/routesrv/routesrv/kube"
)

// serving makes a client of a server that answers everything with f, and the resource of a kind.
func serving(t *testing.T, kind kube.Kind, f http.HandlerFunc) (*client, *resource) {
	t.Helper()
	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	cfg := Config{URL: server.URL}.withDefaults()
	c, err := newClient(cfg)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range cfg.resources() {
		if r.Kind == kind {
			return c, &r
		}
	}
	t.Fatalf("no resource of kind %s", kind)
	return nil, nil
}

// refusal gives the error of a list that is answered with a status.
func refusal(t *testing.T, status int, header http.Header, body string) error {
	t.Helper()
	c, r := serving(t, kube.KindService, func(w http.ResponseWriter, _ *http.Request) {
		for name, values := range header {
			w.Header()[name] = values
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	})
	err := c.get(t.Context(), r.List(0), func(*response) error {
		t.Errorf("an answer with the status %d is used", status)
		return nil
	})
	if err == nil {
		t.Fatalf("an answer with the status %d is no error", status)
	}
	return err
}

// TestRefusalsSayWhatIsWrong: an operator reads what to do, and the code tells what a repetition is worth.
func TestRefusalsSayWhatIsWrong(t *testing.T) {
	const tooNew = `{"kind":"Status","apiVersion":"v1","message":"Timeout: Too large resource version: 9, current: 7"}`
	const tooNewByCause = `{"kind":"Status","apiVersion":"v1","message":"x","details":{"causes":[{"reason":"a"},{"reason":"ResourceVersionTooLarge"}]}}`
	for name, tt := range map[string]struct {
		status int
		body   string
		text   string // of the error
		reason reason
		says   string // of what the functions say: down, gone, too new, not found, consistent
	}{
		"401":          {401, "", "unauthorized: request to /api/v1/services failed, status: 401, 401 Unauthorized (the API server does not accept the credentials)", reasonForbidden, ""},
		"403":          {403, `{"kind":"Status","message":"no\n way"}`, `forbidden: request to /api/v1/services failed, status: 403, 403 Forbidden: no way (grant the verb "list" on "services" in API group "")`, reasonForbidden, ""},
		"404":          {404, "404 page not found", "resource not found: /api/v1/services: 404 page not found", reasonNotFound, "not found"},
		"400":          {400, "", "request to /api/v1/services failed, status: 400, 400 Bad Request", reasonStatus, ""},
		"422":          {422, "", "request to /api/v1/services failed, status: 422, 422 Unprocessable Entity", reasonStatus, ""},
		"410":          {410, "", "request to /api/v1/services failed, status: 410, 410 Gone", reasonStatus, "gone consistent"},
		"429":          {429, "", "request to /api/v1/services failed, status: 429, 429 Too Many Requests", reasonStatus, "down"},
		"499":          {499, "", "request to /api/v1/services failed, status: 499, 499 ", reasonStatus, ""},
		"500":          {500, "", "request to /api/v1/services failed, status: 500, 500 Internal Server Error", reasonStatus, "down"},
		"504":          {504, "", "request to /api/v1/services failed, status: 504, 504 Gateway Timeout", reasonStatus, "down"},
		"504, new":     {504, tooNew, "request to /api/v1/services failed, status: 504, 504 Gateway Timeout: Timeout: Too large resource version: 9, current: 7", reasonStatus, "down too-new consistent"},
		"504, a cause": {504, tooNewByCause, "request to /api/v1/services failed, status: 504, 504 Gateway Timeout: x", reasonStatus, "down too-new consistent"},
		"500, new":     {500, tooNew, "request to /api/v1/services failed, status: 500, 500 Internal Server Error: Timeout: Too large resource version: 9, current: 7", reasonStatus, "down"},
		"a redirect":   {304, "", "request to /api/v1/services failed, status: 304, 304 Not Modified", reasonStatus, ""},
	} {
		err := refusal(t, tt.status, nil, tt.body)
		if got := err.Error(); got != tt.text {
			t.Errorf("%s: %q, want %q", name, got, tt.text)
		}
		if got := reasonOf(err); got != tt.reason || statusCode(err) != tt.status || retryAfter(err) != 0 {
			t.Errorf("%s: reason %s, status %d, retry after %v", name, got, statusCode(err), retryAfter(err))
		}
		var says []string
		for _, f := range []struct {
			name string
			is   func(error) bool
		}{{"down", isDown}, {"gone", isGone}, {"too-new", isTooNew}, {"not found", isNotFound}, {"consistent", needsConsistent}} {
			if f.is(fmt.Errorf("read: %w", err)) {
				says = append(says, f.name)
			}
		}
		if got := strings.Join(says, " "); got != tt.says {
			t.Errorf("%s: is %q, want %q", name, got, tt.says)
		}
	}
	for err, down := range map[error]bool{
		failf(reasonConnection, "x"): true, failf(reasonTimeout, "x"): true, failf(reasonCanceled, "x"): true,
		failf(reasonBody, "x"): false, failf(reasonStale, "x"): false, nil: false, errors.New("no reason is known"): true,
	} {
		if isDown(err) != down {
			t.Errorf("%v: down is %v", err, !down)
		}
	}
	if !needsConsistent(fmt.Errorf("list: %w", errNoRevision)) || needsConsistent(errors.New("another")) {
		t.Error("a list without a revision does not need a consistent one")
	}
}

func TestRetryAfterIsBounded(t *testing.T) {
	for header, want := range map[string]time.Duration{
		"1": time.Second, "3600": time.Hour, "3601": time.Hour, "99999999": time.Hour, "0": 0, "-1": 0, "x": 0,
		"Wed, 21 Oct 2099 07:28:00 GMT": 0,
	} {
		if got := retryAfter(refusal(t, 429, http.Header{"Retry-After": {header}}, "")); got != want {
			t.Errorf("Retry-After %q is %v, want %v", header, got, want)
		}
	}
	if retryAfter(errors.New("x")) != 0 || statusCode(errors.New("x")) != 0 {
		t.Error("an error without an answer has a status")
	}
}

// A message of a server is one line of bounded length, however it is cut.
func TestMessagesOfServersAreShort(t *testing.T) {
	long := strings.Repeat("ä", maxMessage)
	for in, want := range map[string]string{
		"a\n\tb  c": "a b c", "a\xffb": "a\ufffdb", long[:maxMessage]: long[:maxMessage], long: long[:maxMessage] + "…",
		"x" + long: "x" + long[:maxMessage-2] + "…",
	} {
		if got := oneLine(in); got != want {
			t.Errorf("%.30q… is %d bytes, want %d: %.20q", in, len(got), len(want), got)
		}
	}
	err := refusal(t, 500, nil, `{"kind":"Status","message":"`+long+`"}`)
	if n := len(err.Error()); n > maxMessage+200 || !strings.HasSuffix(err.Error(), "…") {
		t.Errorf("the error has %d bytes: %.100s", n, err)
	}
}

// TestWatchTakesStreamsOnly: what is answered with another status or in another form is no stream.
func TestWatchTakesStreamsOnly(t *testing.T) {
	const json, protobuf = "application/json", "application/vnd.kubernetes.protobuf;stream=watch"
	for _, tt := range []struct {
		kind   kube.Kind
		status int
		media  string
		want   reason // empty for a stream
	}{
		{kube.KindService, 200, json, ""}, {kube.KindService, 200, protobuf, reasonBody}, {kube.KindRouteGroup, 200, json + "; charset=utf-8", ""},
		{kube.KindRouteGroup, 200, protobuf, reasonBody}, {kube.KindService, 200, "text/html", reasonBody}, {kube.KindService, 200, ";", reasonBody},
		{kube.KindService, 410, json, reasonStatus}, {kube.KindService, 403, json, reasonForbidden}, {kube.KindService, 201, json, reasonStatus},
	} {
		c, r := serving(t, tt.kind, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", tt.media)
			w.WriteHeader(tt.status)
			_, _ = io.WriteString(w, "all of it")
		})
		s, err := c.Watch(t.Context(), t.Context(), r, 7, time.Minute)
		if (err == nil) != (tt.want == "") || err != nil && reasonOf(err) != tt.want {
			t.Errorf("%+v: %v", tt, err)
		}
		if err != nil {
			if strings.Contains(err.Error(), "forbidden") && !strings.Contains(err.Error(), `the verb "watch"`) {
				t.Errorf("%v: want the permission that is missing", err)
			}
			continue
		}
		if !strings.HasSuffix(s.Path, "?allowWatchBookmarks=true&resourceVersion=7&timeoutSeconds=60&watch=true") {
			t.Errorf("stream at %s", s.Path)
		}
		if body, err := io.ReadAll(s.Body); err != nil || string(body) != "all of it" {
			t.Errorf("the body is %q, %v", body, err)
		}
		if err := s.Body.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestWhoEndedARequest: the caller, its deadline, or nobody, so that the network is to blame.
func TestWhoEndedARequest(t *testing.T) {
	c, r := serving(t, kube.KindService, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	slow, stop := context.WithCancelCause(t.Context())
	stop(context.DeadlineExceeded)
	left, leave := context.WithCancelCause(t.Context())
	leave(errors.New("gone"))
	for name, tt := range map[string]struct {
		ctx, parent context.Context
		want        reason
	}{
		"the caller": {ended, ended, reasonCanceled}, "a slow server": {slow, t.Context(), reasonTimeout},
		"a slow server, and the caller": {slow, ended, reasonCanceled}, "another cause": {left, t.Context(), reasonTimeout},
	} {
		_, err := c.Watch(tt.ctx, tt.parent, r, 7, time.Minute)
		if reasonOf(err) != tt.want || strings.Contains(err.Error(), "http://") {
			t.Errorf("%s: reason %s of %v, want %s", name, reasonOf(err), err, tt.want)
		}
	}
	if err := c.get(ended, r.List(0), nil); reasonOf(err) != reasonCanceled || !errors.Is(err, context.Canceled) {
		t.Errorf("a list: %v", err)
	}
	gone := httptest.NewServer(nil)
	gone.Close()
	cfg := Config{URL: gone.URL}.withDefaults()
	dead, err := newClient(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := dead.get(t.Context(), r.List(0), nil); reasonOf(err) != reasonConnection {
		t.Errorf("nobody listens: %v", err)
	}
	if _, err := dead.Watch(t.Context(), t.Context(), r, 7, time.Minute); reasonOf(err) != reasonConnection {
		t.Errorf("nobody listens: %v", err)
	}
}
