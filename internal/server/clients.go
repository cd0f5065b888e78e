package server

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/routesrv/routesrv/dataplane"
	"github.com/routesrv/routesrv/etagcache"
	"github.com/routesrv/routesrv/fleet"
	"github.com/routesrv/routesrv/internal/api"
	"github.com/routesrv/routesrv/internal/httpserve"
	"github.com/routesrv/routesrv/internal/trial"
	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/publish"
	"github.com/routesrv/routesrv/table"
)

// Limits of GET /clients for a peer: an answer with 20,000 clients has about 15 MB.
const (
	maxLocalViews = 2
	localViewWait = time.Second
)

// clients tracks the clients of the server.
type clients struct {
	*fleet.Registry
	name   string
	peers  func(context.Context) []fleet.Answer // nil without peers
	locals httpserve.Turns                      // of requests of peers
}

// newClients creates the registry. The cache must be set before the first request, not before this call.
func (s *Server) newClients() {
	name := s.cfg.Name
	if name == "" {
		name, _ = os.Hostname() // without a host name the replica has no name
	}
	s.clients = &clients{
		Registry: fleet.New(fleet.Config{
			Name: name, Relay: s.cfg.Source == nil, Metrics: fleet.NewMetrics(s.registry),
			Order: func(d table.Digest) uint64 { return s.cache.Order(d) },
		}),
		name: name, peers: s.cfg.PeerClients, locals: httpserve.NewTurns(maxLocalViews),
	}
}

// Saw is called by the cache.
func (c *clients) Saw(seen etagcache.Seen) {
	r := seen.Request
	if !api.IsClient(r.UserAgent()) {
		return
	}
	c.Registry.Saw(fleet.Sighting{
		Identity: r.Header.Get(api.HeaderClient), UserAgent: r.UserAgent(), Address: addressOf(r), Zone: seen.Zone,
		Holds: fleet.Name{Digest: seen.Digest, Revision: seen.Revision}, Ahead: seen.Ahead, Stream: fleet.StreamPhase(seen.Stream),
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
	if _, ok := fleet.ParseIdentity(identity); !ok {
		http.Error(w, "want the header "+api.HeaderClient+" with kind, id or pod, and interval", http.StatusBadRequest)
		return
	}
	report, err := fleet.ReadReport(http.MaxBytesReader(w, r.Body, fleet.MaxReport+1))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if !s.clients.Reported(identity, addressOf(r), report) {
		w.Header().Set("Retry-After", "60")
		http.Error(w, "too many clients are known, or too many of them from this address", http.StatusServiceUnavailable)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// serveClients answers with the clients of this replica and its peers, or, to a peer, with the clients of this replica only.
func (s *Server) serveClients(w http.ResponseWriter, r *http.Request) {
	query, err := fleet.ParseQuery(r.URL.Query())
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if r.URL.Query().Has("local") {
		s.clients.local(w, r, query)
		return
	}
	s.questions.limited(api.PathClients, func(w http.ResponseWriter, r *http.Request) {
		httpserve.WriteJSON(w, http.StatusOK, s.clients.merged(r.Context(), query))
	})(w, r)
}

// merged asks the peers, and collects the clients of this replica meanwhile.
func (c *clients) merged(ctx context.Context, q fleet.Query) *fleet.View {
	var answers []fleet.Answer
	var asking sync.WaitGroup
	if c.peers != nil {
		asking.Go(func() { answers = c.peers(ctx) })
	}
	own := c.View()
	asking.Wait()
	return fleet.Merge(own, answers, q)
}

// local answers a peer. It asks no other replica, so that two replicas never wait for each other.
func (c *clients) local(w http.ResponseWriter, r *http.Request, q fleet.Query) {
	done, ok := c.locals.Wait(r.Context(), localViewWait)
	if !ok {
		w.Header().Set("Retry-After", "1")
		http.Error(w, "too many questions at a time", http.StatusServiceUnavailable)
		return
	}
	defer done()
	httpserve.WriteJSON(w, http.StatusOK, fleet.Merge(c.View(), nil, q))
}

// reportUp, on a relay, reports to the server above until ctx ends: the table it holds, and a summary of its clients.
func (s *Server) reportUp(ctx context.Context) {
	reporter := &fleet.Reporter{
		Logger: s.log,
		Send:   s.relay.Report,
		Collect: func(now time.Time) (fleet.Report, bool) {
			counts := s.clients.Counts()
			r := fleet.Report{Clients: &counts, Suspects: s.clients.SuspectReport()}
			upstream := s.relay.Upstream()
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

// Messages of the log.
const (
	LogSuspect        = "proxies died of a table, the objects that are new in it are kept"
	LogSuspectUnknown = "proxies died of a table, and nothing is kept for it"
)

const (
	// lookAtSuspects is how often the reports of clients are looked at. That costs nothing while no client suspects a table.
	lookAtSuspects = time.Second
	// askForSuspects is how often the other replicas are asked, if too few clients of this one suspect a table, and no more than before.
	askForSuspects = 10 * time.Second
	// maxRecent is how many served tables are remembered: those of three minutes, if each read has another one. They share most of their memory.
	maxRecent = 60
)

// suspects acts when proxies of the fleet died of a table: it blames the filters and predicates that are new in it, so that their objects are
// kept at the versions of a table with which these proxies lived.
type suspects struct {
	s *Server

	acted map[table.Digest]bool // owned by run

	mu     sync.Mutex // guards recent
	recent []*publish.Served
}

// published remembers the served table. Of its snapshot only what teams request is needed.
func (p *suspects) published() {
	served := p.s.publisher.Served()
	if served == nil {
		return
	}
	one := &publish.Served{Candidate: publish.Candidate{Table: served.Table}, Committed: served.Committed}
	if served.Snapshot != nil {
		one.Snapshot = &kube.Snapshot{Intent: served.Snapshot.Intent}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.recent = append(p.recent, one)
	p.recent = p.recent[max(0, len(p.recent)-maxRecent):]
}

// run looks at the reports of clients until the context ends.
func (p *suspects) run(ctx context.Context) {
	tick := time.NewTicker(lookAtSuspects)
	defer tick.Stop()
	var asked time.Time // when the other replicas were asked last
	var reported int    // how many clients of this one had reported then
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		clients := p.actOn(p.s.clients.Suspects())
		if clients > 0 && (clients != reported || time.Since(asked) >= askForSuspects) {
			p.actOn(p.s.clients.merged(ctx, fleet.Query{}).Suspects)
			asked = time.Now()
		}
		reported = clients
	}
}

// actOn acts on the tables that enough clients suspect, and returns how many clients suspect others.
func (p *suspects) actOn(all []fleet.SuspectTable) (clients int) {
	var confirmed []fleet.SuspectTable
	for _, one := range all {
		switch {
		case p.acted[one.Digest]:
		case one.Confirmed:
			confirmed = append(confirmed, one)
		default:
			clients += one.Clients
		}
	}
	if len(confirmed) > 0 {
		p.act(confirmed)
	}
	return clients
}

// act blames what is new in suspected tables: in all of them if they have something new in common, since proxies that read at different moments
// die of the same flaw in different tables.
func (p *suspects) act(all []fleet.SuspectTable) {
	if len(p.acted) >= maxRecent {
		clear(p.acted)
	}
	var lists [][]trial.Call
	var earliest *publish.Served
	clients := 0
	for _, one := range all {
		p.acted[one.Digest] = true
		clients += one.Clients
		log := p.s.log.With("hash", one.Digest.String(), "clients", one.Clients, "deaths", one.Deaths, "example", one.Example, "evidence", one.Evidence)
		earlier, bad := p.find(one)
		if earlier == nil {
			log.Error(LogSuspectUnknown, "reason", "this replica does not remember the table, or none before it")
			continue
		}
		calls := trial.NewCalls(earlier.Table, bad.Table)
		switch {
		case len(calls) == 0:
			log.Error(LogSuspectUnknown, "reason", "no filter or predicate is new in it")
			continue
		case p.s.reviews.trial.Blamed(calls):
			log.Error(LogSuspectUnknown, "reason", "it has a filter or predicate whose objects are kept already")
			continue
		}
		log.Error(LogSuspect, "texts", len(calls), "first", calls[0].Text)
		lists = append(lists, calls)
		if earliest == nil || earlier.Committed.Before(earliest.Committed) {
			earliest = earlier
		}
	}
	if len(lists) == 0 {
		return
	}
	calls := trial.Common(lists...)
	if len(calls) == 0 { // several flaws
		calls = slices.Concat(lists...)
	}
	p.s.reviews.trial.Blame(calls, fmt.Sprintf("proxies of %d clients died of the table that brought it: %s", clients, all[0].Evidence))
	p.s.publisher.Reconsider(earliest)
	p.s.tables.Recheck()
}

// find returns a suspected table, and the last one before it with which its proxies lived; nil if either is not remembered.
func (p *suspects) find(one fleet.SuspectTable) (earlier, bad *publish.Served) {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := len(p.recent) - 1
	for ; at >= 0 && p.recent[at].Table.Digest() != one.Digest; at-- {
	}
	if at < 1 {
		return nil, nil
	}
	for i := at - 1; i >= 0; i-- {
		if slices.Contains(one.Proven, p.recent[i].Table.Digest()) {
			return p.recent[i], p.recent[at]
		}
	}
	return p.recent[0], p.recent[at] // the proven one is older than that
}

// trialFile is the name of the file with verdicts in the state folder.
const trialFile = "trial.json"

// reviews says what may not be published yet, and what should not have been.
type reviews struct {
	s         *Server
	trial     *trial.Trial // also without a trial proxy: the fleet blames texts, too
	takeovers *takeovers
	suspects  *suspects
}

func newReviews(s *Server) *reviews {
	cfg, file := s.cfg.Review, ""
	if s.cfg.StateDir != "" {
		file = filepath.Join(s.cfg.StateDir, trialFile)
	}
	r := &reviews{s: s, takeovers: newTakeovers(s), suspects: &suspects{s: s, acted: map[table.Digest]bool{}}}
	r.trial = trial.New(trial.Config{
		Support: cfg.TrialProxy, Traffic: cfg.TrialTraffic, Timeout: cfg.TrialTimeout, File: file, Log: s.cfg.Logger.With("component", "trial"),
		Served: func() *table.Table { return s.publisher.Table() },
	})
	if cfg.TrialProxy != nil {
		s.registry.MustRegister(r.trial)
	}
	return r
}

// review is the [publish.Review] of the server.
func (r *reviews) review(before, after *table.Table) publish.Objections {
	objections := r.takeovers.refused(before, after)
	for id, o := range r.trial.Review(before, after) {
		objections.Add(id, o)
	}
	return objections
}

// run tries what is new, looks for takeovers in what is published, and for proxies that died, until the context ends.
func (r *reviews) run(ctx context.Context) {
	var all sync.WaitGroup
	all.Go(func() { r.trial.Run(ctx) })
	all.Go(func() { r.takeovers.run(ctx) })
	all.Go(func() { r.suspects.run(ctx) })
	all.Wait()
}
