package etagcache_test

import (
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/routesrv/routesrv/etagcache"
	"github.com/routesrv/routesrv/table"
)

// askDelta sends the request of a client that holds the text of the tables that it names.
func askDelta(h http.Handler, path, encoding string, held ...string) *httptest.ResponseRecorder {
	req := httptest.NewRequest(http.MethodGet, path, nil)
	req.Header.Set("A-IM", "feed, eskip-delta;q=1")
	req.Header.Set("Accept-Encoding", encoding)
	req.Header.Set("If-None-Match", strings.Join(held, ", "))
	w := httptest.NewRecorder()
	h.ServeHTTP(w, req)
	return w
}

// applied returns the table that a client has after the response.
func applied(t testing.TB, held *table.Table, w *httptest.ResponseRecorder) string {
	t.Helper()
	switch w.Code {
	case http.StatusNotModified:
		return string(held.Text())
	case http.StatusOK:
		return decode(t, w.Header().Get("Content-Encoding"), w.Body.Bytes())
	case http.StatusIMUsed:
		d, err := table.ReadDelta(strings.NewReader(decode(t, w.Header().Get("Content-Encoding"), w.Body.Bytes())), math.MaxInt64)
		if err != nil {
			t.Fatal(err)
		}
		next, err := held.Apply(d, start, 1<<30)
		if err != nil {
			t.Fatal(err)
		}
		if got := w.Header().Get("Etag"); !strings.HasPrefix(got, `"`+next.Digest().String()) {
			t.Fatalf("the delta leads to %s, the ETag is %s", next.Digest(), got)
		}
		return string(next.Text())
	default:
		t.Fatalf("status %d", w.Code)
		return ""
	}
}

// zoned is a route with three endpoints in zone a, so the zone has a different text.
func zoned(id string, version int) string {
	return fmt.Sprintf(`%s: Path("/%d") -> <"http://10.0.0.1?zone=a", "http://10.0.0.2?zone=a", "http://10.0.0.3?zone=a", "http://10.0.0.4?zone=b">;`, id, version)
}

// many is the number of routes of a table that is worth a delta.
const many = 400

// manyRoutes is such a table. The text of the first routes depends on the revision.
func manyRoutes(t testing.TB, changed int, revision uint64) *table.Table {
	t.Helper()
	routes := make([]table.Route, many)
	for i := range routes {
		v := 0
		if i < changed {
			v = int(revision)
		}
		id := fmt.Sprintf("r%04d", i)
		text := zoned(id, v)
		routes[i] = table.Route{ID: id, Text: text}
	}
	tab, err := table.New(routes, revision, start)
	if err != nil {
		t.Fatal(err)
	}
	return tab
}

func TestDeltaAnswer(t *testing.T) {
	c := newCache(t, etagcache.Config{})
	first, second := manyRoutes(t, 0, 5), manyRoutes(t, 1, 6)
	poll(c, first, 5, start)
	handler := c.Handler()
	tag := func(tab *table.Table, end string) string {
		return fmt.Sprintf(`"%s.%d%s"`, tab.Digest(), tab.Revision(), end)
	}
	if w := ask(handler, "/routes/a", "", "192.0.2.1:1"); w.Code != http.StatusOK { // so that the zone is known
		t.Fatal(w.Code)
	}
	poll(c, second, 6, start.Add(time.Minute))

	w := askDelta(handler, "/routes", "gzip", tag(first, "+zstd"))
	for name, want := range map[string]string{
		"Etag": tag(second, "+gzip"), "Im": "eskip-delta", "Delta-Base": tag(first, "+zstd"), "Content-Type": "application/json",
		"Content-Encoding": "gzip", "Content-Length": fmt.Sprint(w.Body.Len()), "X-Count": fmt.Sprint(many), "X-Revision": "6",
		"Vary": "Accept-Encoding, A-IM", "X-Source-Read": "2026-11-21T04:16:45.678Z", "Last-Modified": "Sat, 21 Nov 2026 04:15:45 GMT",
	} {
		if got := w.Header().Get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if w.Code != http.StatusIMUsed || applied(t, first, w) != string(second.Text()) {
		t.Errorf("status %d, body %s", w.Code, w.Body)
	}
	if w := askDelta(handler, "/routes", "", `"other"`, tag(manyRoutes(t, 3, 4), ""), tag(first, "")); w.Header().Get("Delta-Base") != tag(first, "") {
		t.Errorf("status %d with base %s, want the one of three that is known", w.Code, w.Header().Get("Delta-Base"))
	}
	for _, tt := range []struct {
		name, path, held string
		want             int
	}{
		{"an unknown base", "/routes", tag(manyRoutes(t, 3, 4), ""), http.StatusOK},
		{"a base of another zone", "/routes", tag(first.Zone("a"), ""), http.StatusOK},
		{"the full table as base of a zone", "/routes/a", tag(first, ""), http.StatusOK},
		{"a base of the zone", "/routes/a", tag(first.Zone("a"), ""), http.StatusIMUsed},
		{"nothing", "/routes", "", http.StatusOK},
		{"any", "/routes", "*", http.StatusNotModified},
	} {
		if w := askDelta(handler, tt.path, "gzip", tt.held); w.Code != tt.want {
			t.Errorf("%s: status %d, want %d", tt.name, w.Code, tt.want)
		}
	}
	if w := ask(handler, "/routes", tag(first, ""), "192.0.2.1:1"); w.Code != http.StatusOK || w.Header().Get("Im") != "" {
		t.Errorf("status %d to a client that did not ask for deltas", w.Code)
	}
	req := httptest.NewRequest(http.MethodHead, "/routes", nil)
	req.Header.Set("A-IM", "eskip-delta")
	req.Header.Set("If-None-Match", tag(first, ""))
	head := httptest.NewRecorder()
	handler.ServeHTTP(head, req)
	if head.Code != http.StatusIMUsed || head.Body.Len() != 0 || head.Header().Get("Content-Length") == "" {
		t.Errorf("HEAD: status %d, %d bytes, headers %v", head.Code, head.Body.Len(), head.Header())
	}
}

func TestDeltaIsNeverLargerThanTheTable(t *testing.T) {
	for _, changed := range []int{1, 20, 180, 220, many} {
		c := newCache(t, etagcache.Config{})
		first, second := manyRoutes(t, 0, 5), manyRoutes(t, changed, 6)
		poll(c, first, 5, start)
		poll(c, second, 6, start)
		for _, encoding := range []string{"", "gzip", "zstd"} {
			w := askDelta(c.Handler(), "/routes", encoding, fmt.Sprintf(`"%s.5"`, first.Digest()))
			if w.Code == http.StatusIMUsed && w.Body.Len() > second.Bytes() {
				t.Errorf("%d changed, %s: delta of %d bytes, table of %d", changed, encoding, w.Body.Len(), second.Bytes())
			}
			if applied(t, first, w) != string(second.Text()) {
				t.Errorf("%d changed, %s: wrong table", changed, encoding)
			}
			if changed == 1 && w.Code != http.StatusIMUsed || changed == many && w.Code != http.StatusOK {
				t.Errorf("%d changed, %s: status %d", changed, encoding, w.Code)
			}
		}
	}
}

func TestDeltasGoBack64Versions(t *testing.T) {
	c := newCache(t, etagcache.Config{})
	var tags []string
	for i := range uint64(200) {
		tab := manyRoutes(t, 1, i+1)
		poll(c, tab, i+1, start)
		tags = append(tags, fmt.Sprintf(`"%s.%d"`, tab.Digest(), i+1))
	}
	for _, back := range []int{1, 2, 63, 64, 65, 100} {
		want := http.StatusIMUsed
		if back > 64 {
			want = http.StatusOK
		}
		if w := askDelta(c.Handler(), "/routes", "gzip", tags[len(tags)-1-back]); w.Code != want {
			t.Errorf("%d versions back: status %d, want %d", back, w.Code, want)
		}
	}
}

func TestTextThatHasNoDeltaIsSentAsAWhole(t *testing.T) {
	c := newCache(t, etagcache.Config{})
	first := parseTable(t, `a: * -> <shunt>;`, 5, start)
	second := parseTable(t, "a: * -> <shunt>; b: Path(\"/\xff\") -> <shunt>;", 6, start)
	poll(c, first, 5, start)
	poll(c, second, 6, start)
	w := askDelta(c.Handler(), "/routes", "", fmt.Sprintf(`"%s.5"`, first.Digest()))
	if w.Code != http.StatusOK || w.Body.String() != string(second.Text()) {
		t.Errorf("status %d, body %q", w.Code, w.Body)
	}
}
