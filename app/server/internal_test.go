package server

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/goleak"

	"github.com/routesrv/routesrv/etagcache"
	"github.com/routesrv/routesrv/table"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// countingWriter counts how a response is written.
type countingWriter struct {
	*httptest.ResponseRecorder
	writes, flushes int
}

func (w *countingWriter) Write(p []byte) (int, error) {
	w.writes++
	return w.ResponseRecorder.Write(p)
}

func (w *countingWriter) Flush() { w.flushes++ }

// The cache writes a body in large parts and flushes it to see whether it arrives. The wrapper that counts responses must not
// interfere.
func TestCountingAnswersLeavesTheWriterAsItIs(t *testing.T) {
	cache, err := etagcache.New(etagcache.Config{})
	if err != nil {
		t.Fatal(err)
	}
	tab, err := table.New([]table.Route{{ID: "a", Text: `a: Path("/` + strings.Repeat("x", 1<<19) + `") -> <shunt>;`}}, 1, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	cache.Publish(tab)
	c := newCompat(&Server{})
	ask := func(h http.Handler) *countingWriter {
		w := &countingWriter{ResponseRecorder: httptest.NewRecorder()}
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/routes", nil))
		return w
	}
	w, want := ask(c.observe(cache.Handler())), ask(cache.Handler())
	if w.writes != want.writes || w.flushes != 1 || w.Body.Len() != tab.Bytes() {
		t.Errorf("%d bytes in %d writes and %d flushes, want %d in %d and 1", w.Body.Len(), w.writes, w.flushes, tab.Bytes(), want.writes)
	}
	if got := testutil.ToFloat64(c.responses.WithLabelValues("200")); got != 1 {
		t.Errorf("%v answers counted", got)
	}
}
