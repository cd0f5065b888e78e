package server

import (
	"net/http"
	"net/http/pprof"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/routesrv/routesrv/engine"
	"github.com/routesrv/routesrv/httpserve"
	"github.com/routesrv/routesrv/poller"
	"github.com/routesrv/routesrv/table"
)

// supportHandler is what operators see.
func (s *Server) supportHandler() http.Handler {
	mux := http.NewServeMux()
	metrics := promhttp.HandlerFor(s.registry, promhttp.HandlerOpts{Registry: s.registry})
	mux.Handle("/metrics", metrics)
	mux.Handle("/metrics/", metrics)
	mux.HandleFunc("GET /status", s.serveStatus)
	mux.HandleFunc("GET /problems", s.serveProblems)
	mux.Handle("POST /guard/accept", httpserve.Accept(s.engine.Accept, s.log))
	if s.cfg.EnableProfile {
		mux.HandleFunc("/debug/pprof/", pprof.Index)
		mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
		mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
		mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	}
	return mux
}

// statusReport is the body of /status.
type statusReport struct {
	Version    string            `json:"version"`
	Started    time.Time         `json:"started"`
	Ready      bool              `json:"ready"`
	Table      *tableReport      `json:"table,omitempty"`
	Source     poller.Status     `json:"source"`
	Guard      httpserve.Guard   `json:"guard"`
	Problems   map[string]int    `json:"problems"` // by severity
	Checkpoint *checkpointReport `json:"checkpoint,omitempty"`
}

type tableReport struct {
	Digest       table.Digest `json:"digest"`
	Revision     uint64       `json:"revision"`
	ReadRevision uint64       `json:"read_revision"`
	Routes       int          `json:"routes"`
	Hosts        int          `json:"hosts"`
	Bytes        int          `json:"bytes"`
	Zones        []string     `json:"zones"`
	Time         time.Time    `json:"time"`
	LastRead     time.Time    `json:"last_read"`
	AgeSeconds   float64      `json:"age_seconds"` // since the last read
	Stale        bool         `json:"stale"`       // from a checkpoint, not confirmed by a read yet
}

func (s *Server) report() statusReport {
	r := statusReport{
		Version: s.cfg.Version, Started: s.started, Source: s.engine.Status(), Guard: httpserve.ReportGuard(s.engine.Guard()),
		Problems: map[string]int{"error": 0, "warning": 0, "info": 0},
	}
	for _, p := range s.engine.Problems() {
		r.Problems[p.Severity.String()]++
	}
	if t := s.cache.Current(); t != nil {
		c := s.cache.Status()
		r.Ready = true
		r.Table = &tableReport{
			Digest: t.Digest(), Revision: c.Revision, ReadRevision: c.ReadRevision, Routes: t.Len(), Hosts: len(t.Hosts()),
			Bytes: t.Bytes(), Zones: append([]string{}, t.Zones()...), Time: t.Time(), LastRead: c.LastRead,
			AgeSeconds: time.Since(c.LastRead).Seconds(), Stale: c.Stale,
		}
	}
	if s.checkpoint != nil {
		r.Checkpoint = s.checkpoint.report()
	}
	return r
}

func (s *Server) serveStatus(w http.ResponseWriter, _ *http.Request) {
	httpserve.WriteJSON(w, http.StatusOK, s.report())
}

// problemsReport is the body of /problems.
type problemsReport struct {
	Count    int              `json:"count"`
	Problems []engine.Problem `json:"problems"`
}

func (s *Server) serveProblems(w http.ResponseWriter, _ *http.Request) {
	problems := s.engine.Problems()
	if problems == nil {
		problems = []engine.Problem{}
	}
	httpserve.WriteJSON(w, http.StatusOK, problemsReport{len(problems), problems})
}
