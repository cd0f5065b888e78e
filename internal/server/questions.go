package server

import (
	"bytes"
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/routesrv/routesrv/internal/api"
	"github.com/routesrv/routesrv/internal/httpserve"
)

// Limits of questions that search the table: an answer costs some ten milliseconds of CPU, and proxies come first.
const (
	maxQuestions    = 2               // at the same time
	questionWait    = 5 * time.Second // for a free slot
	maxQuestionText = 8 << 10         // bytes of a query
)

// questions limits how many questions are answered concurrently.
type questions struct {
	turns    httpserve.Turns
	duration *prometheus.HistogramVec
}

func newQuestions(reg prometheus.Registerer) *questions {
	q := &questions{turns: httpserve.NewTurns(maxQuestions), duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "routesrv_query_duration_seconds", Help: "Time to answer /explain, /match and /takeovers.",
		Buckets: []float64{.001, .005, .01, .025, .05, .1, .25, .5, 1, 2.5},
	}, []string{"path"})}
	reg.MustRegister(q.duration)
	return q
}

// limited answers 414 if the query is too long, and 503 if no slot becomes free in time.
func (q *questions) limited(path string, answer http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if len(r.URL.RawQuery) > maxQuestionText {
			http.Error(w, "the query is too long", http.StatusRequestURITooLong)
			return
		}
		done, ok := q.turn(r.Context(), path)
		if !ok {
			w.Header().Set("Retry-After", "5")
			http.Error(w, "too many questions at a time", http.StatusServiceUnavailable)
			return
		}
		defer done()
		answer(w, r)
	}
}

// turn waits for a slot to answer a question, and reports whether it got one. The caller must call done afterwards.
func (q *questions) turn(ctx context.Context, path string) (done func(), ok bool) {
	end, ok := q.turns.Wait(ctx, questionWait)
	if !ok {
		return nil, false
	}
	start := time.Now()
	return func() {
		q.duration.WithLabelValues(path).Observe(time.Since(start).Seconds())
		end()
	}, true
}

// wantsJSON chooses the form of the answer: text for people, unless the request asks for JSON.
func wantsJSON(r *http.Request) bool {
	switch r.URL.Query().Get("format") {
	case "json":
		return true
	case "text":
		return false
	}
	return strings.Contains(r.Header.Get("Accept"), "application/json")
}

// writeAnswer writes an answer as text or JSON.
func writeAnswer(w http.ResponseWriter, r *http.Request, status int, asJSON func(*bytes.Buffer) error, asText func(*bytes.Buffer) error) {
	var body bytes.Buffer
	write, media := asText, "text/plain; charset=utf-8"
	if wantsJSON(r) {
		write, media = asJSON, "application/json"
	}
	if err := write(&body); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", media)
	w.Header().Set("Vary", "Accept")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = w.Write(body.Bytes()) // ignore clients that are gone
}

// questionEndpoints returns /match and, unless the server is a relay, /explain and /takeovers.
func (s *Server) questionEndpoints() []httpserve.Endpoint {
	get := []string{http.MethodGet, http.MethodHead}
	all := []httpserve.Endpoint{{
		Path: api.PathMatch, Methods: get, Handler: s.questions.limited(api.PathMatch, s.serveMatch),
		Does: "which route a request reaches: `url=`, and as for [routesrv match](../debug/explain.md) `method=`, `header=` (may be " +
			"repeated), `from=`, `at=`, `normalize-host=`, `ignore-trailing-slash=`, `rfc-patch-path=`. Text or JSON; " +
			"404 if no route matches",
	}}
	if s.compiler == nil {
		return all
	}
	return append(all, httpserve.Endpoint{
		Path: api.PathExplain, Methods: get, Handler: s.questions.limited(api.PathExplain, s.serveExplain),
		Does: "what happened to an object: `kind=`, `namespace=` and `name=`, or `route=`, or `host=`, as for [routesrv explain](../debug/explain.md). " +
			"Text or JSON; 404 if it does not exist, and on a relay",
	}, s.takeoverEndpoint())
}
