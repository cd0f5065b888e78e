package sidecar_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/routesrv/routesrv/dataplane"
	"github.com/routesrv/routesrv/rollout"
)

// storing is a cache in front of a route server that answers everything from its store once it has a table: with 304 and only the
// ETag.
type storing struct {
	behind http.Handler
	etag   string
}

func (s *storing) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.URL.Path != "/routes":
		w.WriteHeader(http.StatusNotFound) // no streams
		return
	case s.etag != "":
		w.Header().Set("Etag", s.etag)
		w.Header().Set("Date", time.Now().UTC().Format(http.TimeFormat))
		w.WriteHeader(http.StatusNotModified)
		return
	}
	rec := httptest.NewRecorder()
	s.behind.ServeHTTP(rec, r)
	for name, values := range rec.Header() {
		w.Header()[name] = values
	}
	w.WriteHeader(rec.Code)
	_, _ = w.Write(rec.Body.Bytes())
	s.etag = rec.Header().Get("Etag")
}

func TestCacheInBetweenDoesNotKeepATableFresh(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, ingress("a"))
		w.runServer(w.options)
		w.network.Set("routesrv", &storing{behind: w.server.Handler()})
		cfg := w.config("Exec")
		cfg.Fetch.UpdateMode = dataplane.Poll
		cfg.FreshLimit = 5 * time.Minute
		p := w.run(cfg)
		p.expect("Exec", "routeserver", 5*time.Second)
		if got := p.get("/fresh"); got.Code != http.StatusOK {
			t.Fatalf("/fresh %d at first: %s", got.Code, got.Body)
		}
		time.Sleep(6 * time.Minute)
		got := p.get("/fresh")
		if got.Code != http.StatusServiceUnavailable || !strings.Contains(got.Body.String(), "last read of the source is too old") {
			t.Errorf("/fresh %d after six minutes of answers from a store: %s", got.Code, got.Body)
		}
		if s := p.status(); s.Fresh || !s.Ready || s.Fetch.Failures != 0 {
			t.Errorf("status %+v, want a table that is served and not fresh", s)
		}
		if read := p.get("/routes").Header().Get("X-Source-Read"); read == "" {
			t.Error("the proxy is not told when the source was read")
		} else if at, err := time.Parse(time.RFC3339, read); err != nil || time.Since(at) < 5*time.Minute {
			t.Errorf("the proxy is told %s (%v), want the time of the only read", read, err)
		}
	})
}

// TestComparisonWithAnAgedTableProvesNothing: the stored table agrees with the computed one for as long as nothing changes.
func TestComparisonWithAnAgedTableProvesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, ingress("a"))
		w.runServer(w.options)
		w.network.Set("routesrv", &storing{behind: w.server.Handler()})
		cfg := w.config("Pre")
		cfg.Fetch.UpdateMode = dataplane.Poll
		cfg.FreshLimit = time.Minute
		cfg.Cutover = rollout.CutoverConfig{CleanFor: 30 * time.Second, MinComparisons: 5}
		p := w.run(cfg)
		time.Sleep(50 * time.Second)
		if s := p.status(); s.Cutover == nil || !s.Cutover.Ready {
			t.Fatalf("cutover %+v while the table is fresh", s.Cutover)
		}
		time.Sleep(2 * time.Minute)
		if s := p.status(); s.Cutover.Ready || !strings.Contains(s.Cutover.Reason, "fetched table was read") {
			t.Errorf("cutover %+v, want that the fetched table proves nothing", s.Cutover)
		}
	})
}
