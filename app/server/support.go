package server

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/routesrv/routesrv/api"
	"github.com/routesrv/routesrv/app/console"
	"github.com/routesrv/routesrv/app/httpserve"
	"github.com/routesrv/routesrv/compile/rules"
	"github.com/routesrv/routesrv/fleet"
	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/poller"
	"github.com/routesrv/routesrv/publish"
)

// acceptCommand accepts a held table, in the pod.
const acceptCommand = "routesrv accept"

// supportEndpoints returns the endpoints of the support listener and of the control socket, which serve operators.
func (s *Server) supportEndpoints() []httpserve.Endpoint {
	metrics := promhttp.HandlerFor(s.registry, promhttp.HandlerOpts{Registry: s.registry})
	get := []string{http.MethodGet, http.MethodHead}
	held := httpserve.HeldPage(s.held, acceptCommand)
	all := append(httpserve.Probes(http.HandlerFunc(s.health)), []httpserve.Endpoint{
		{Path: "/health", Handler: http.HandlerFunc(s.health),
			Does: "as on the main listener, without a client certificate"},
		{Path: "/metrics", Handler: metrics, Does: "Prometheus text, see [metrics.md](metrics.md)"},
		{Path: "/metrics/", Handler: metrics, Does: "the same"},
		{Path: api.PathStatus, Methods: get, Handler: answers(func() any { return s.report() }),
			Does: "JSON: table, source, upstream of a relay, guard, problems by severity, last-known-good file"},
		{Path: api.PathClients, Methods: get, Handler: http.HandlerFunc(s.serveClients),
			Does: "JSON: the [fleet](../debug/fleet.md) of all replicas: counts, replicas, relays, the last tables and clients; its parameters, `limit=` (1000), and `local` for this replica alone"},
		{Path: api.PathProblems, Methods: get, Handler: http.HandlerFunc(s.serveProblems),
			Does: "JSON: [problems](problems.md), with their parameters"},
		{Path: api.PathHeld, Methods: get, Handler: held,
			Does: "how the held table differs from the served one, by owner. Text or JSON; 404 while nothing is held"},
	}...)
	if s.reviews != nil && s.reviews.trial != nil {
		all = append(all,
			httpserve.Endpoint{Path: api.PathTrialRoutes, Methods: get, Handler: s.reviews.trial, Condition: "with `--trial-proxy`",
				Does: "the table of the [trial proxy](../operate/before-a-change.md)"},
			httpserve.Endpoint{Path: api.PathTrialAlive, Methods: get, Handler: http.HandlerFunc(s.reviews.trial.ServeAlive), Condition: "with `--trial-proxy`",
				Does: "liveness probe of the trial proxy: 503 while its process has to be replaced"})
	}
	all = append(all, s.questionEndpoints()...)
	if s.history != nil {
		all = append(all, s.historyEndpoints()...)
	}
	all = append(all, s.console().Endpoints()...)
	if s.cfg.EnableProfile {
		all = append(all, httpserve.Profiles())
	}
	for i := range all {
		all[i].Listener = httpserve.SupportListener
	}
	if s.history != nil {
		all = append(all, s.steeringEndpoint())
	}
	return append(all, httpserve.AcceptEndpoint(s.tables.Accept, s.log))
}

// report returns the status.
func (s *Server) report() api.Status {
	r := api.Status{
		Version: s.cfg.Version, Started: s.started, Source: s.tables.Status(), Guard: s.publisher.Holding().Guard,
		Decisions: s.decisions.Last(), Problems: poller.CountBySeverity(s.problems()),
		Table: s.cache.Status(), LastKnownGood: s.publisher.File(), DyingClients: s.clients.Dying(), Canary: s.canary.status(),
	}
	if s.reviews != nil {
		r.Steering = s.steering()
		r.Takeovers = s.reviews.takeovers.last()
		if s.reviews.trial != nil {
			tried := s.reviews.trial.Status()
			r.Trial = &tried
		}
	}
	r.Warnings = s.warned(r.DyingClients)
	r.Ready = r.Table != nil
	if s.relay != nil {
		upstream := s.relay.Client.Status()
		r.Upstream = &upstream
	}
	return r
}

// problems returns the problems of the objects. A relay knows none.
func (s *Server) problems() []poller.Problem {
	if s.compiler == nil {
		return nil
	}
	return slices.Concat(s.compiler.Problems(), s.keptProblems(func(*publish.Kept) bool { return true }), s.canary.problems(time.Now()))
}

// held returns the table that the publisher holds back.
func (s *Server) held() (httpserve.Held, bool) {
	served, held, state := s.publisher.Comparison()
	return httpserve.Held{Served: served, Table: held, State: state.Guard, Owner: s.owners()}, held != nil && state.Held
}

// serveProblems lists the problems of objects, filtered by the query. An empty parameter selects problems without that value,
// such as problems without a namespace.
func (s *Server) serveProblems(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	chosen := func(parameter, value string) bool {
		return !query.Has(parameter) || slices.Contains(query[parameter], value)
	}
	problems := []api.Problem{}
	for _, p := range s.problems() {
		if chosen("namespace", p.Owner.Namespace) && chosen("kind", string(p.Owner.Kind)) && chosen("name", p.Owner.Name) &&
			chosen("reason", string(p.Reason)) && chosen("severity", p.Severity.String()) {
			problems = append(problems, p.Report())
		}
	}
	httpserve.WriteJSON(w, http.StatusOK, api.Problems{Count: len(problems), Problems: problems})
}

// keptAnswer is the answer to replicas that ask which objects are kept. It is made once for each list.
type keptAnswer struct {
	mu   sync.Mutex
	list []*publish.Kept
	body []byte
}

// serveKept answers /kept. The objects have only the annotations and the label that the compiler reads: all others are withheld
// here.
func (s *Server) serveKept(w http.ResponseWriter, _ *http.Request) {
	if s.compiler == nil {
		http.Error(w, "a relay knows only tables", http.StatusNotFound)
		return
	}
	a := &s.kept
	a.mu.Lock()
	defer a.mu.Unlock()
	if list := s.publisher.List(); a.body == nil || !reflect.DeepEqual(list, a.list) {
		a.list = list
		shown := make([]*publish.Kept, len(list))
		for i, k := range list {
			shown[i] = s.bare(k)
		}
		body, err := json.Marshal(shown)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		a.body = append(body, '\n')
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(a.body)
}

// serveKeptNames answers /kept/names.
func (s *Server) serveKeptNames(w http.ResponseWriter, _ *http.Request) {
	names := []*publish.Kept{}
	for _, k := range append(publish.Accidents(s.publisher.List()), s.publisher.Soaking()...) {
		name := *k
		name.Version, name.DefaultFilters = kube.Version{}, nil
		names = append(names, &name)
	}
	httpserve.WriteJSON(w, http.StatusOK, names)
}

// bare returns a kept object without what the compiler does not read.
func (s *Server) bare(k *publish.Kept) *publish.Kept {
	less := *k
	if o := k.Object(); o != nil {
		less.Version = kube.VersionOf(o.WithMeta(s.bareMeta(*o.Metadata())))
	}
	return &less
}

// bareMeta returns metadata without what the compiler does not read.
func (s *Server) bareMeta(m kube.Meta) kube.Meta {
	m.Annotations = slices.DeleteFunc(slices.Clone(m.Annotations), func(p kube.Pair) bool { return !s.cfg.Compile.Reads(p.Key) })
	m.Labels = slices.DeleteFunc(slices.Clone(m.Labels), func(p kube.Pair) bool { return p.Key != s.cfg.Compile.ApplicationLabel })
	return m
}

// eventProblems returns what teams are told by Events: the problems of their objects, and takeovers. Objects that were deleted cannot have
// Events.
func (s *Server) eventProblems() []poller.Problem {
	all := append(s.compiler.Problems(), s.keptProblems(func(k *publish.Kept) bool { return !k.Deleted })...)
	return slices.Concat(all, s.reviews.takeovers.problems(), s.canary.problems(time.Time{}))
}

// keptProblems returns the kept objects of some kind as problems.
func (s *Server) keptProblems(wanted func(*publish.Kept) bool) (all []poller.Problem) {
	for _, k := range s.publisher.Kept() {
		if !k.Pending && wanted(k) {
			_, advice := k.Keeper()
			all = append(all, poller.Problem{Since: k.Since, Problem: rules.Problem{
				Owner: k.Ref, Reason: rules.Kept, Severity: rules.Warning,
				Message: fmt.Sprintf("served %s, %s waits: %s%s", k.Served(), k.Waits(), k.Detail, endOf(k)), Do: advice,
			}})
		}
	}
	return all
}

// endsSoon is how long before the end of a freeze or pin teams are told.
const endsSoon = 10 * time.Minute

// endOf returns when a freeze or pin that ends soon expires, so that the team of the object gets an Event about it.
func endOf(k *publish.Kept) string {
	if k.Until.IsZero() || k.Reason != publish.ReasonFreeze && k.Reason != publish.ReasonPin || time.Until(k.Until) > endsSoon {
		return ""
	}
	return ", until " + k.Until.Format(time.RFC3339)
}

// consoleClients is how many clients a page considers at most, the worst first.
const consoleClients = 5000

// console builds the pages of this server.
func (s *Server) console() *console.Console {
	cfg := console.Config{
		Name: s.clients.name, Version: s.cfg.Version, Relay: s.cfg.Source == nil, State: s.consoleState, AcceptCommand: acceptCommand,
		Logger: s.log,
		Fleet: func(ctx context.Context, q fleet.Query) (fleet.Clients, error) {
			q.Limit = consoleClients
			return *s.clients.merged(ctx, q), nil
		},
	}
	if s.compiler != nil {
		cfg.Problems = s.compiler.Problems
		cfg.History = func(n int) []api.HistoryEntry {
			return s.history.Entries(time.Time{}, n, func(*api.HistoryEntry) bool { return true })
		}
	}
	return console.New(cfg)
}

// consoleState returns the status for the pages, and the data behind the served table.
func (s *Server) consoleState() console.Server {
	state := console.Server{Status: s.report(), Origin: cmp.Or(s.cfg.Origin, "cluster")}
	if state.Upstream != nil {
		var servers []string
		for _, one := range state.Upstream.Servers {
			servers = append(servers, one.URL)
		}
		state.Origin = strings.Join(servers, ", ")
	}
	if served := s.publisher.Served(); served != nil {
		state.Since, state.Newest = served.Committed, s.newestChange()
	}
	return state
}

// newestChange returns the first object of the newest change in the history; nil if it has none.
func (s *Server) newestChange() *console.Change {
	if s.history == nil {
		return nil
	}
	for _, e := range s.history.Entries(time.Time{}, 1, func(e *api.HistoryEntry) bool { return len(e.Changes) > 0 }) {
		return &console.Change{At: e.At, Object: e.Changes[0].Ref, By: managerOf(e.Changes[0].By)}
	}
	return nil
}
