package server

import (
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/http/pprof"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/routesrv/routesrv/engine"
	"github.com/routesrv/routesrv/guard"
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
	mux.Handle("POST /guard/accept", http.NewCrossOriginProtection().Handler(http.HandlerFunc(s.acceptHeld)))
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
	Guard      guardReport       `json:"guard"`
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

type guardReport struct {
	Held      bool          `json:"held"`
	Reason    guard.Code    `json:"reason,omitempty"`
	Detail    string        `json:"detail,omitempty"`
	Digest    string        `json:"digest,omitempty"`
	Revision  uint64        `json:"revision,omitempty"`
	Routes    int           `json:"routes,omitempty"`
	Since     time.Time     `json:"since,omitzero"`
	ReleaseAt time.Time     `json:"release_at,omitzero"` // zero: not by time
	Last      *guardRelease `json:"last_release,omitempty"`
}

type guardRelease struct {
	Digest   string     `json:"digest"`
	Reason   guard.Code `json:"reason"`
	At       time.Time  `json:"at"`
	Accepted bool       `json:"accepted"`
}

func reportGuard(g guard.State) guardReport {
	r := guardReport{Held: g.Held}
	if g.Held {
		r.Reason, r.Detail = g.Verdict.Reason, g.Verdict.Detail
		r.Digest, r.Revision, r.Routes = g.Digest.String(), g.Revision, g.Routes
		r.Since, r.ReleaseAt = g.Verdict.Since, g.Verdict.ReleaseAt
	}
	if l := g.Last; l != nil {
		r.Last = &guardRelease{l.Digest.String(), l.Reason, l.At, l.Accepted}
	}
	return r
}

func (s *Server) report() statusReport {
	r := statusReport{
		Version: s.cfg.Version, Started: s.started, Source: s.engine.Status(), Guard: reportGuard(s.engine.Guard()),
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
	writeJSON(w, http.StatusOK, s.report())
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
	writeJSON(w, http.StatusOK, problemsReport{len(problems), problems})
}

type errorReport struct {
	Error string `json:"error"`
}

// acceptHeld publishes the table that the guard holds back. Who can reach the loopback of the pod, by kubectl
// port-forward or exec, is an operator; nobody else is. The parameter digest names the table that the operator looked
// at, so that he cannot accept another by accident.
func (s *Server) acceptHeld(w http.ResponseWriter, r *http.Request) {
	if !fromLoopback(r) {
		writeJSON(w, http.StatusForbidden, errorReport{"only from the loopback interface: use kubectl port-forward or exec"})
		return
	}
	var digest table.Digest
	if text := r.FormValue("digest"); text != "" {
		var err error
		if digest, err = table.ParseDigest(text); err != nil {
			writeJSON(w, http.StatusBadRequest, errorReport{"digest: " + err.Error()})
			return
		}
	}
	t, err := s.engine.Accept(digest)
	switch {
	case errors.Is(err, guard.ErrNothingHeld), errors.Is(err, guard.ErrNotHeld):
		writeJSON(w, http.StatusConflict, errorReport{err.Error()})
	case err != nil:
		writeJSON(w, http.StatusInternalServerError, errorReport{err.Error()})
	default:
		s.log.Warn("held table accepted by an operator", "remote", r.RemoteAddr, "hash", t.Digest().String())
		writeJSON(w, http.StatusOK, map[string]any{"accepted": t.Digest(), "routes": t.Len()})
	}
}

// fromLoopback looks at the peer, and at the name under which we were asked: a page in the operator's browser whose name
// was made to resolve to the loopback address is not the operator.
func fromLoopback(r *http.Request) bool {
	peer, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil || !net.ParseIP(peer).IsLoopback() {
		return false
	}
	host, _, err := net.SplitHostPort(r.Host)
	if err != nil {
		host = strings.Trim(r.Host, "[]") // no port
	}
	return strings.EqualFold(host, "localhost") || net.ParseIP(host).IsLoopback()
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	body, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	w.Write(append(body, '\n'))
}
