package sidecar

import (
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/routesrv/routesrv/httpserve"
	"github.com/routesrv/routesrv/shadowdiff/page"
)

// Handler is what the proxy sees: /routes, /routes/{zone}, /health and /fresh.
func (s *Sidecar) Handler() http.Handler { return s.main.Handler }

// SupportHandler is what operators see: /health, /fresh, /status, /problems, /shadow, /metrics and /guard/accept.
func (s *Sidecar) SupportHandler() http.Handler { return s.support.Handler }

func (s *Sidecar) mainHandler() http.Handler {
	mux := http.NewServeMux()
	routes := s.afterBoot(s.cache.Handler())
	mux.Handle("/routes", routes)
	mux.Handle("/routes/", routes)
	mux.HandleFunc("/health", s.serveHealth)
	mux.HandleFunc("GET /fresh", s.serveFresh)
	return mux
}

func (s *Sidecar) supportHandler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /metrics", s.serveMetrics)
	mux.HandleFunc("/health", s.serveHealth)
	mux.HandleFunc("GET /fresh", s.serveFresh)
	mux.HandleFunc("GET /status", func(w http.ResponseWriter, _ *http.Request) {
		httpserve.WriteJSON(w, http.StatusOK, s.status())
	})
	mux.HandleFunc("GET /problems", s.serveProblems)
	mux.Handle("GET /shadow", page.Handler(s.conductor.shadowView))
	mux.Handle("POST /guard/accept", httpserve.Accept(s.conductor.accept, s.log))
	return mux
}

// serveMetrics gives the series of the sidecar, and those of the engine while one is running.
func (s *Sidecar) serveMetrics(w http.ResponseWriter, r *http.Request) {
	all := prometheus.Gatherers{s.registry}
	if p := s.conductor.selfNow.Load(); p != nil {
		all = append(all, p.registry)
	}
	promhttp.HandlerFor(all, promhttp.HandlerOpts{}).ServeHTTP(w, r)
}

// afterBoot lets requests wait for the first table: a proxy that is answered with 404 while it starts gives up.
func (s *Sidecar) afterBoot(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-s.conductor.booted:
		default:
			timer := time.NewTimer(bootWait) // the conductor may not be running
			defer timer.Stop()
			select {
			case <-s.conductor.booted:
			case <-timer.C:
			case <-r.Context().Done():
			}
		}
		next.ServeHTTP(w, r)
	})
}

// serveHealth answers whether there is a table. It never takes that back.
func (s *Sidecar) serveHealth(w http.ResponseWriter, _ *http.Request) {
	if s.cache.Current() == nil {
		http.Error(w, "there is no table yet", http.StatusServiceUnavailable)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// serveFresh answers whether the source of the table was read lately. It is for alerts and not for probes: an old table
// is better than none.
func (s *Sidecar) serveFresh(w http.ResponseWriter, _ *http.Request) {
	r := s.fresh()
	status := http.StatusOK
	if !r.Fresh {
		status = http.StatusServiceUnavailable
	}
	httpserve.WriteJSON(w, status, r)
}

// serveProblems lists what is wrong with objects, while a table is computed.
func (s *Sidecar) serveProblems(w http.ResponseWriter, _ *http.Request) {
	problems := []any{}
	if p := s.conductor.selfNow.Load(); p != nil {
		for _, problem := range p.engine.Problems() {
			problems = append(problems, problem)
		}
	}
	httpserve.WriteJSON(w, http.StatusOK, map[string]any{"count": len(problems), "problems": problems})
}
