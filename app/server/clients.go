package server

import (
	"cmp"
	"context"
	"net/http"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/routesrv/routesrv/api"
	"github.com/routesrv/routesrv/app/httpserve"
	"github.com/routesrv/routesrv/dataplane"
	"github.com/routesrv/routesrv/etagcache"
	"github.com/routesrv/routesrv/fleet"
	"github.com/routesrv/routesrv/rollout"
	"github.com/routesrv/routesrv/table"
)

// clients tracks the clients of the server.
type clients struct {
	*fleet.Registry
	name   string
	peers  func(context.Context) []fleet.Answer // nil without peers
	locals *questions                           // of peers: separate, so that two replicas never wait for each other

	mu      sync.Mutex     // guards these
	order   *rollout.Order // of the data planes in Pre and Exec; nil if a replica did not answer
	ordered time.Time      // when they were collected
}

// newClients creates the registry. The cache must be set before the first request, not before this call.
func (s *Server) newClients() {
	name := cmp.Or(s.cfg.Name, replicaName(cmp.Or(s.cfg.SupportAddress, s.cfg.Address)))
	s.clients = &clients{
		Registry: fleet.New(fleet.Config{
			Name: name, Relay: s.cfg.Source == nil, Metrics: fleet.NewMetrics(s.registry),
			Order: func(d table.Digest) uint64 { return s.cache.Order(d) }, CanaryOrder: func(d table.Digest) uint64 { return s.canary.cache.Order(d) },
		}),
		name: name, peers: s.cfg.PeerClients, locals: &questions{make(httpserve.Turns, maxQuestions), s.questions.duration},
	}
}

// replicaName returns the name of the host, which is the name of the pod unless the pod shares the network of its node. A listener other
// than the default is part of the name, because several replicas can share a host.
func replicaName(listener string) string {
	host, _ := os.Hostname() // without it, the name is the listener alone
	switch {
	case listener == DefaultSupportAddress:
		return host
	case strings.HasPrefix(listener, ":"):
		return host + listener
	}
	return host + "/" + listener
}

// Saw is called by the caches.
func (c *clients) Saw(seen etagcache.Seen, canary bool) {
	r := seen.Request
	if !api.IsClient(r.UserAgent()) {
		return
	}
	c.Registry.Saw(fleet.Sighting{
		Identity: r.Header.Get(api.HeaderClient), UserAgent: r.UserAgent(), Address: addressOf(r), Zone: seen.Zone,
		Holds: fleet.Name{Digest: seen.Digest, Revision: seen.Revision}, Ahead: seen.Ahead, Canary: canary,
		Stream: seen.Stream,
	})
}

// addressOf returns the address of the peer of a connection. It ignores headers that name another address.
func addressOf(r *http.Request) netip.Addr {
	ap, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.IPv6Unspecified()
	}
	return ap.Addr().Unmap().WithZone("")
}

// serveReport records the report of a client.
func (s *Server) serveReport(w http.ResponseWriter, r *http.Request) {
	identity := r.Header.Get(api.HeaderClient)
	client, ok := fleet.ParseIdentity(identity)
	if !ok {
		http.Error(w, "the header "+api.HeaderClient+" must have kind, id or pod, and interval", http.StatusBadRequest)
		return
	}
	report, err := fleet.ReadReport(http.MaxBytesReader(w, r.Body, fleet.MaxReport+1))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	report.Canary = s.canary != nil && strings.HasPrefix(r.URL.Path, api.PathCanary)
	if !s.clients.Reported(identity, addressOf(r), report) {
		w.Header().Set("Retry-After", "60")
		http.Error(w, "too many clients are known, or too many of them from this address", http.StatusServiceUnavailable)
		return
	}
	if report.WantsRank {
		if order := s.order(r.Context()); order != nil {
			w.Header().Set(api.HeaderRank, strconv.Itoa(order.Rank(cmp.Or(client.Node, client.ID))))
		}
	}
	w.WriteHeader(http.StatusNoContent)
}

// order returns the order of the data planes of the fleet in Pre and Exec, for their ranks; nil while it is unknown: until every client
// has had the time to report after a start of this server, and while a replica does not answer; a relay knows only its own clients. It is
// collected once for all reports of ten seconds. It comes from unauthenticated reports: a forged name can keep a data plane in Pre, and a
// wrong rank moves one to Exec before its turn, which the cutover check permits.
func (s *Server) order(ctx context.Context) *rollout.Order {
	if s.cfg.Source == nil || time.Since(s.started) < 3*fleet.ReportEvery {
		return nil
	}
	c := s.clients
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Since(c.ordered) >= fleet.ReportEvery {
		// A client that leaves early must not make the next one query the peers again.
		c.order, c.ordered = orderOf(c.merged(context.WithoutCancel(ctx), fleet.Query{Kind: fleet.Sidecar})), time.Now()
	}
	return c.order
}

// orderOf returns the order of the data planes in Pre and Exec; nil if clients of a replica are missing.
func orderOf(v *fleet.Clients) *rollout.Order {
	for _, r := range v.Replicas {
		if r.Error != "" {
			return nil
		}
	}
	var nodes []string
	for _, c := range v.Clients {
		if c.State != fleet.Silent && (c.Mode == rollout.Pre.String() || c.Mode == rollout.Exec.String()) {
			nodes = append(nodes, cmp.Or(c.Node, c.ID))
		}
	}
	return rollout.NewOrder(nodes)
}

// serveClients answers with the clients of this replica and its peers, or, to a peer, with the clients of this replica only.
func (s *Server) serveClients(w http.ResponseWriter, r *http.Request) {
	query, err := fleet.ParseQuery(r.URL.Query())
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	turns, view := s.questions, func() *fleet.Clients { return s.clients.merged(r.Context(), query) }
	if r.URL.Query().Has("local") {
		turns, view = s.clients.locals, func() *fleet.Clients { return fleet.Merge(s.clients.Clients(), nil, query) }
	}
	turns.limited(api.PathClients, func(w http.ResponseWriter, _ *http.Request) { httpserve.WriteJSON(w, http.StatusOK, view()) })(w, r)
}

// merged queries the peers, and collects the clients of this replica meanwhile.
func (c *clients) merged(ctx context.Context, q fleet.Query) *fleet.Clients {
	var answers []fleet.Answer
	var asking sync.WaitGroup
	if c.peers != nil {
		asking.Go(func() { answers = c.peers(ctx) })
	}
	own := c.Clients()
	asking.Wait()
	return fleet.Merge(own, answers, q)
}

// reportUp, on a relay, reports to the server above until ctx ends: the table it holds, and a summary of its clients.
func (s *Server) reportUp(ctx context.Context) {
	reporter := &fleet.Reporter{
		Logger: s.log,
		Send: func(ctx context.Context, body []byte) error {
			_, err := s.relay.Report(ctx, body)
			return err
		},
		Collect: func(now time.Time) (fleet.Report, bool) {
			counts := s.clients.Counts()
			r := fleet.Report{Clients: &counts}
			upstream := s.relay.Client.Status()
			if a := upstream.Applied; a != nil {
				r.Holds = fleet.Name{Digest: a.Digest, Revision: a.Revision}
				r.HoldsAgo = max(0, now.Sub(a.Committed).Seconds())
			}
			r.Rejected = dataplane.Rejected(&upstream)
			return r, true
		},
	}
	reporter.Run(ctx)
}

// identity returns the name that a relay reports about itself.
func (s *Server) identity() string {
	return fleet.Identity{
		Kind: fleet.RelayKind, ID: s.clients.name, Version: s.cfg.Version, Interval: cmp.Or(s.cfg.Interval, dataplane.DefaultInterval),
	}.String()
}
