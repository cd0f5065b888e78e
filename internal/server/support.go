package server

import (
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/routesrv/routesrv/dataplane"
	"github.com/routesrv/routesrv/internal/httpserve"
	"github.com/routesrv/routesrv/poller"
	"github.com/routesrv/routesrv/publish"
	"github.com/routesrv/routesrv/table"
)

// acceptCommand accepts a held table, in the pod.
const acceptCommand = "routesrv accept"

// supportEndpoints returns the endpoints of the support listener and of the control socket, which serve operators.
func (s *Server) supportEndpoints() []httpserve.Endpoint {
	metrics := promhttp.HandlerFor(s.registry, promhttp.HandlerOpts{Registry: s.registry})
	get := []string{http.MethodGet, http.MethodHead}
	held := httpserve.NewHeldPage(heldTables{s}, acceptCommand)
	all := append(httpserve.Probes(http.HandlerFunc(s.health)), []httpserve.Endpoint{
		{Path: "/health", Handler: http.HandlerFunc(s.health),
			Does: "as on the main listener: for probes that have no client certificate"},
		{Path: "/metrics", Handler: metrics, Does: "Prometheus text, see [metrics.md](metrics.md)"},
		{Path: "/metrics/", Handler: metrics, Does: "the same"},
		{Path: "/status", Methods: get, Handler: http.HandlerFunc(s.serveStatus),
			Does: "JSON: table, source, upstream of a relay, guard, problems by severity, last-known-good file"},
		{Path: "/clients", Methods: get, Handler: http.HandlerFunc(s.serveClients),
			Does: "JSON: the [fleet](fleet.md), over all replicas: counts by state, replicas, relays, the last publishes, and each client with the table that it holds, the worst first; `?state=`, `kind=`, `id=`, `zone=`, `version=`, `node=` and `replica=` choose, `limit=` (1000) cuts, `local` asks this replica alone"},
		{Path: "/problems", Methods: get, Handler: http.HandlerFunc(s.serveProblems),
			Does: "JSON: every [problem](problems.md) with id, owner, route, reason, severity, message, text for the team, and " +
				"start time; `?namespace=`, `kind=`, `name=`, `reason=` and `severity=` filter"},
		{Path: "/guard/held", Methods: get, Handler: held,
			Does: "how the held table differs from the served one, by owner: text, JSON or a page by `Accept`, or by `?format=text`, `json` or `html`; 404 while nothing is held"},
	}...)
	all = append(all, s.questionEndpoints()...)
	all = append(all, s.console(held).Endpoints()...)
	if s.cfg.EnableProfile {
		all = append(all, httpserve.Profiles()...)
	}
	for i := range all {
		all[i].Listener = httpserve.SupportListener
	}
	return append(all, httpserve.AcceptEndpoints(s.tables.Accept, acceptCommand, s.log)...)
}

// statusReport is the body of /status.
type statusReport struct {
	Version       string                `json:"version"`
	Started       time.Time             `json:"started"`
	Ready         bool                  `json:"ready"`
	Table         *tableReport          `json:"table,omitempty"`
	Source        publish.Progress      `json:"source"`
	Upstream      *dataplane.Status     `json:"upstream,omitempty"` // only on a relay
	Guard         httpserve.GuardReport `json:"guard"`
	Decisions     []publish.Decision    `json:"decisions,omitempty"` // about held tables, newest first
	Problems      map[string]int        `json:"problems"`            // by severity
	LastKnownGood *publish.FileStatus   `json:"last_known_good,omitempty"`
}

type tableReport struct {
	Digest       table.Digest `json:"digest"`
	Revision     uint64       `json:"revision"`
	ReadRevision uint64       `json:"read_revision"`
	Routes       int          `json:"routes"`
	Bytes        int          `json:"bytes"`
	Zones        []string     `json:"zones"`
	Time         time.Time    `json:"time"`
	LastRead     time.Time    `json:"last_read,omitzero"`
	AgeSeconds   float64      `json:"age_seconds"` // since the last read
	Stale        bool         `json:"stale"`       // from a last-known-good file that no read has confirmed yet
}

func (s *Server) report() statusReport {
	r := statusReport{
		Version: s.cfg.Version, Started: s.started, Source: s.tables.Status(), Guard: httpserve.ReportGuard(s.publisher.State(), s.publisher.Kept()),
		Decisions: s.decisions.Last(publish.ShownDecisions),
		Problems:  map[string]int{"error": 0, "warning": 0, "info": 0},
	}
	for _, p := range s.problems() {
		r.Problems[p.Severity.String()]++
	}
	if t := s.cache.Current(); t != nil {
		c := s.cache.Status()
		r.Ready = true
		r.Table = &tableReport{
			Digest: t.Digest(), Revision: c.Revision, ReadRevision: c.ReadRevision, Routes: t.Len(),
			Bytes: t.Bytes(), Zones: append([]string{}, t.Zones()...), Time: t.Time(), LastRead: c.LastRead,
			AgeSeconds: time.Since(c.LastRead).Seconds(), Stale: c.Stale,
		}
	}
	r.LastKnownGood = s.publisher.File()
	if s.relay != nil {
		upstream := s.relay.Upstream()
		r.Upstream = &upstream
	}
	return r
}

// problems returns the problems of the objects. A relay knows none.
func (s *Server) problems() []poller.Problem {
	if s.compiler == nil {
		return nil
	}
	return s.compiler.Problems()
}

func (s *Server) serveStatus(w http.ResponseWriter, _ *http.Request) {
	httpserve.WriteJSON(w, http.StatusOK, s.report())
}

// heldTables implements the guard pages' view of the publisher.
type heldTables struct{ s *Server }

func (h heldTables) Held() (httpserve.Held, bool) {
	served, held, state := h.s.publisher.Comparison()
	return httpserve.Held{Served: served, Table: held, State: state, Kept: h.s.publisher.Kept(), Owner: h.s.owners()}, held != nil && state.Held
}
