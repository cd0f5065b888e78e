package tables_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/routesrv/routesrv/eskip"
	"github.com/routesrv/routesrv/source/tables"
)

func load(t *testing.T, r *tables.Reader, place string) (*tables.Table, error) {
	t.Helper()
	return r.Load(t.Context(), place)
}

func TestRouteServerIsReadWhole(t *testing.T) {
	for _, c := range []struct{ revision, suffix string }{{"", ""}, {"4711", ""}, {"4711", "~2"}, {"", "~1"}} {
		s := newRouteServer(document(3000))
		s.revision, s.suffix = c.revision, c.suffix
		got, err := load(t, reader(t, tables.Config{}), serve(t, s)+"/routes")
		if err != nil {
			t.Fatalf("%+v: %v", c, err)
		}
		if !eskip.EqLists(got.Routes, eskip.MustParse(document(3000))) || fmt.Sprint(got.Revision) != "0"+c.revision && fmt.Sprint(got.Revision) != c.revision {
			t.Errorf("%+v: %d routes, revision %d", c, len(got.Routes), got.Revision)
		}
	}
}

func TestSkipperIsReadByPages(t *testing.T) {
	for _, n := range []int{0, 1, 99, 100, 101, 250} {
		s := &skipper{routes: eskip.MustParse(document(n)), timestamp: 100}
		got, err := load(t, reader(t, tables.Config{PageSize: 100}), serve(t, s)+"/routes")
		if err != nil {
			t.Fatal(err)
		}
		if !eskip.EqLists(got.Routes, s.routes) || got.Revision != 0 {
			t.Errorf("%d routes, want %d", len(got.Routes), n)
		}
		if n == 250 {
			if diff := cmp.Diff([]string{"0", "100", "200"}, s.log); diff != "" {
				t.Errorf("offsets: %s", diff)
			}
		}
	}
}

func TestPagesOfAnotherVersionAreReadAgain(t *testing.T) {
	for _, ignore := range []bool{false, true} {
		s := &skipper{routes: eskip.MustParse(document(150)), timestamp: 100, changes: 2, ignore: ignore}
		got, err := load(t, reader(t, tables.Config{PageSize: 100}), serve(t, s))
		if err != nil {
			t.Fatal(err)
		}
		if !eskip.EqLists(got.Routes, eskip.MustParse(document(152))) {
			t.Errorf("%d routes, want 152", len(got.Routes))
		}
		if diff := cmp.Diff([]string{"0", "100", "0", "100", "0", "100"}, s.log); diff != "" {
			t.Errorf("offsets: %s", diff)
		}
	}
}

func TestSkipperThatNeverRestsIsGivenUp(t *testing.T) {
	s := &skipper{routes: eskip.MustParse(document(150)), timestamp: 100, changes: 1000}
	_, err := load(t, reader(t, tables.Config{PageSize: 100}), serve(t, s))
	if err == nil || !strings.Contains(err.Error(), "the table changed while its pages were read, 6 times") {
		t.Error(err)
	}
	s.changes, s.log = 1000, nil
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := reader(t, tables.Config{PageSize: 100}).Load(ctx, serve(t, s)); err == nil {
		t.Error("no error when the time is over")
	}
}

func TestAnswersThatAreNoTableAreErrors(t *testing.T) {
	answer := func(status int, body string, header ...string) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			for i := 0; i < len(header); i += 2 {
				w.Header().Set(header[i], header[i+1])
			}
			w.WriteHeader(status)
			fmt.Fprint(w, body)
		})
	}
	cut := newRouteServer(document(10))
	cut.cut = func(s string) string { return s[:strings.LastIndexByte(s, '\n')] }
	other := newRouteServer(document(10))
	other.cut = func(s string) string { return strings.Replace(s, "/3", "/4", 1) }
	miscounted := newRouteServer(document(10))
	miscounted.change = func(h http.Header) { h.Set("X-Count", "11"); h.Set("Etag", `"not of ours"`) }
	short := &skipper{routes: eskip.MustParse(document(10)), timestamp: 1, change: func(_ int, h http.Header) { h.Set("X-Count", "20") }}
	long := &skipper{routes: eskip.MustParse(document(10)), timestamp: 1, change: func(_ int, h http.Header) { h.Set("X-Count", "5") }}
	uncounted := &skipper{routes: eskip.MustParse(document(10)), timestamp: 1, change: func(_ int, h http.Header) { h.Del("X-Count") }}
	for _, c := range []struct {
		name string
		h    http.Handler
		want string
	}{
		{"not found", answer(404, ""), "answer 404 Not Found (no routes at this path, or a route server that has no table yet)"},
		{"error with a text", answer(503, "nothing yet\nand more"), `answer 503 Service Unavailable: "nothing yet"`},
		{"error with control characters", answer(500, "\x1b[2J"), `answer 500 Internal Server Error: "\x1b[2J"`},
		{"a page", answer(200, "<html>", "Content-Type", "text/html"), "the answer is text/html, not routes"},
		{"no routes", answer(200, "a: Foo() ->\n #"), "answer:2:2: parse failed after token ->"},
		{"unchanged though nobody asked", answer(304, ""), "answer 304 Not Modified"},
		{"cut at a line", cut, "the text does not match the digest in the ETag"},
		{"changed on its way", other, "the text does not match the digest in the ETag"},
		{"wrong count", miscounted, "10 routes, but X-Count is 11"},
		{"count that is none", answer(200, "", "X-Count", "-1"), `header X-Count: "-1" is not a number of routes`},
		{"revision that is none", answer(200, "", "X-Revision", "x"), `header X-Revision: "x" is not a revision`},
		{"too few on the pages", short, "an empty page after 10 of 20 routes"},
		{"too many on the pages", long, "10 routes, but X-Count is 5"},
		{"pages without a count", uncounted, "X-Timestamp without X-Count"},
		{"page that does not parse", answer(200, "a: #", "X-Timestamp", "1", "X-Count", "1"), "page at 0:1:4: parse failed"},
		{"invalid timestamp on the first page", answer(400, "invalid timestamp"), `answer 400 Bad Request: "invalid timestamp"`},
		{"too large", newRouteServer(document(2000)), "larger than 50000 bytes"},
		{"redirect", http.RedirectHandler("/elsewhere", http.StatusFound), "(redirects are not followed)"},
	} {
		t.Run(c.name, func(t *testing.T) {
			url := serve(t, c.h) + "/routes"
			_, err := load(t, reader(t, tables.Config{MaxBytes: 50_000}), url)
			if err == nil || !strings.HasPrefix(err.Error(), url+": ") || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %s: … %s", err, url, c.want)
			}
		})
	}
}

func TestSlowAnswerIsGivenUp(t *testing.T) {
	done := make(chan struct{})
	for _, h := range []http.HandlerFunc{
		func(http.ResponseWriter, *http.Request) { <-done },
		func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, "a: *")
			_ = http.NewResponseController(w).Flush()
			<-done
		},
	} {
		s := httptest.NewServer(h)
		t.Cleanup(s.Close)
		start := time.Now()
		if _, err := load(t, reader(t, tables.Config{Timeout: 50 * time.Millisecond}), s.URL); err == nil || time.Since(start) > 5*time.Second {
			t.Errorf("error %v after %v", err, time.Since(start))
		}
	}
	close(done) // so that the servers can be closed
}

func TestPasswordIsNotShown(t *testing.T) {
	s := httptest.NewServer(http.NotFoundHandler())
	s.Close() // nobody listens
	place := strings.Replace(s.URL, "http://", "http://user:secret@", 1)
	_, err := load(t, reader(t, tables.Config{}), place)
	if err == nil || strings.Contains(err.Error(), "secret") || !strings.Contains(err.Error(), "connection refused") {
		t.Error(err)
	}
}

func TestCancelledLoadSaysSo(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := reader(t, tables.Config{}).Load(ctx, serve(t, newRouteServer(document(1)))); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
