package dataplane

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/routesrv/routesrv/api"
	"github.com/routesrv/routesrv/etagcache"
	"github.com/routesrv/routesrv/table"
)

// RelayConfig configures a Relay. Fetch.URLs and Cache are required.
type RelayConfig struct {
	// Fetch configures the client; see Config. The relay sets Metrics. Zone and ZoneFile must be empty. The default of Guard.MaxLoss is 1
	// here: losses pass. The default of Sink is Cache.
	Fetch Config
	// Cache serves the tables. Only the relay may change it.
	Cache *etagcache.Cache

	Registerer prometheus.Registerer // nil means no metrics
}

// maxLoss is the default of Guard.MaxLoss in a relay: the root has already judged losses.
const maxLoss = 1

// Relay serves the table of another route server: a [Client] that follows that server and feeds a cache. A tree of relays can
// serve tens of thousands of proxies. For package server a relay is a producer of tables, like package poller. Its methods are safe for
// concurrent use. Call Boot and then Run, once each.
//
// It does not change the text of a table. It passes the verified table to the cache, so that digest, revision and ETag
// equal those of the server above, on every level. It derives zone tables from the full table, as the server above does. The time
// of the source's read, and whether the table is stale or held, also come from the server above.
//
// # Order
//
// A relay does not read a cluster, so it cannot tell whether a table that it never had is newer: it asks the server above
// ([Claims]). A relay therefore never sends a client back unless the root would, and accepts a restored cluster when the
// root does. Without a connection to the server above, it lets clients keep tables that it does not know.
//
// # Guard
//
// The root has already judged the table, and an operator may have accepted it there; holding it again on each level would require
// further acceptances. Losses of routes and hosts therefore pass, unless Config.Guard sets a limit. A relay holds a table without
// routes, a table with only generated routes, and a table in which most routes lost all endpoints, like every route server.
//
// # What it does not do
//
// It reads no cluster, compiles nothing, and has no listeners (package server). It has one file, which the client writes.
type Relay struct {
	*Client
	claims *Claims
}

// NewRelay checks the configuration. It starts no goroutine and does no I/O.
func NewRelay(cfg RelayConfig) (*Relay, error) {
	fetch := cfg.Fetch
	switch {
	case cfg.Cache == nil:
		return nil, errors.New("relay: no cache")
	case fetch.Zone != "" || fetch.ZoneFile != "":
		return nil, errors.New("relay: Zone and ZoneFile must be empty: the tables of all zones are derived from the full table")
	}
	if fetch.Sink == nil {
		fetch.Sink = cfg.Cache
	}
	fetch.Guard.MaxLoss = cmp.Or(fetch.Guard.MaxLoss, maxLoss)
	fetch.Metrics = NewMetrics(cfg.Registerer)
	client, err := New(fetch)
	if err != nil {
		return nil, err
	}
	return &Relay{client, NewClaims(cfg.Cache, client, client.cfg.Interval, client.cfg.Logger.With("component", "relay"))}, nil
}

// Run serves the tables of the server above until ctx ends, then returns nil.
func (r *Relay) Run(ctx context.Context) error {
	var asking sync.WaitGroup
	defer asking.Wait()
	asking.Go(func() { r.claims.Run(ctx) })
	return r.Client.Run(ctx)
}

// Recheck reports that a client has named a table that may be newer. It never blocks.
func (r *Relay) Recheck() {
	r.Client.Recheck()
	r.claims.Claimed()
}

// Upstream returns the state of the client.
func (r *Relay) Upstream() Status { return r.Client.Status() }

// Status returns the state of the client in the form of a producer that reads a source.
func (r *Relay) Status() api.Source {
	s := r.Upstream()
	p := api.Source{
		LastAttempt: s.LastAttempt, LastSuccess: s.LastSuccess, Failures: s.Failures, FailedTotal: s.FailedTotal, NextAttempt: s.NextAttempt,
	}
	for _, server := range s.Servers {
		if server.InUse && s.Failures > 0 {
			p.LastError = server.LastError
		}
	}
	if served := r.publisher.Served(); served != nil {
		p.Revision, p.Initialized, p.Updated = served.Table.Revision(), served.Initialized, served.Updated
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	p.Started = r.loop.started
	return p
}

// LogClientOlder is the log message about a client that gets an older table.
const LogClientOlder = "a route server reports that the table of a client is not newer: the source went back in time"

// Claims asks the server above about the claims of a cache. Its methods are safe for concurrent use; call Run once.
//
// It is for a process that fetches its table from another route server, a relay or a restarted data plane, and whose clients name a
// table that it does not know. Such a process does not read a cluster. The ETag says that its table has nothing newer than its
// revision, but not up to which revision the table is complete. So the process cannot tell which of the two tables is newer. It
// lets the client keep its table and asks the server above, which may ask the server above it. The root reads the cluster past
// all caches ([Client.Ask], [etagcache.Cache.Resolve]). If the server above would send its own table to the client, and
// this process serves that same table, it sends it, too.
type Claims struct {
	cache   *etagcache.Cache
	above   above
	wait    time.Duration // between two rounds of questions, approximately
	log     *slog.Logger
	claimed chan struct{} // of capacity 1: a client has named an unknown table
}

const (
	// maxQuestions is how many claims are asked about at a time: the server above remembers as many for one client.
	maxQuestions = 4
	// restAfterError multiplies the delay after a question without an answer.
	restAfterError = 5
)

// above is the part of a [Client] that a Claims needs.
type above interface {
	Ask(ctx context.Context, digest table.Digest, revision uint64) (Opinion, error)
	Recheck()
}

// NewClaims returns a resolver for the claims of a cache, which asks the server in use of a client, in rounds about wait apart. It starts no
// goroutine.
func NewClaims(cache *etagcache.Cache, client above, wait time.Duration, log *slog.Logger) *Claims {
	return &Claims{cache, client, wait, log, make(chan struct{}, 1)}
}

// Claimed reports that a client has named a table that may be newer. It never blocks.
func (r *Claims) Claimed() {
	select {
	case r.claimed <- struct{}{}:
	default:
	}
}

// Run asks until ctx ends.
func (r *Claims) Run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.claimed:
		}
		for {
			open := r.cache.Claims()
			if len(open) == 0 {
				break
			}
			rand.Shuffle(len(open), func(i, j int) { open[i], open[j] = open[j], open[i] })
			wait := r.wait
			for _, claim := range open[:min(len(open), maxQuestions)] {
				if err := r.ask(ctx, claim); err != nil {
					wait *= restAfterError
					break
				}
			}
			timer := time.NewTimer(wait/2 + rand.N(wait))
			select {
			case <-ctx.Done():
				timer.Stop()
				return
			case <-timer.C:
			}
		}
	}
}

// ask asks about one claim, and resolves it if the answer allows that.
func (r *Claims) ask(ctx context.Context, claim etagcache.Claim) error {
	o, err := r.above.Ask(ctx, claim.Digest, claim.Revision)
	switch {
	case err != nil:
		return err
	case o.Keep:
	case r.cache.Resolve(claim, o.Digest, o.Revision):
		r.log.Info(LogClientOlder, "digest", claim.Digest.String(), "revision", claim.Revision)
	default:
		r.above.Recheck() // it has another table by now
	}
	return nil
}
