// Package relay serves the table of another route server: a client follows that one and feeds a cache, and a fleet of tens of
// thousands of proxies is served by a tree of them. It is to the route server what package poller is: where tables come from.
//
// A [Relay] adds nothing to the text of a table. What the client has verified goes to the cache as it is, so that digest,
// revision and with them the ETag are those of the server above, on every level. Zone tables are made of the full one here, as
// they are there. When the source was read is what the server above says, and whether the table is stale or held is, too.
//
// # Order
//
// A relay has no revisions of a cluster. It knows that its table has nothing from after its revision, because that is what
// the ETag means, and it does not know up to which revision it is complete. So of a client that names a table which this relay has
// never had, it cannot tell which one is newer. It keeps such a client where it is and asks the server above, which may ask
// the one above it, and the root reads the cluster past all caches ([dataplane.Client.Ask], [etagcache.Cache.Resolve]). If the
// answer is that the server would send its table, and it is the table that the relay has, then it is sent here, too. So a
// relay sends nobody back whom the root would not send back, and believes in a restored cluster when the root does. A
// relay that has lost the server above leaves clients with tables unknown to it where they are.
//
// # Guard
//
// The root has judged the table already, and an operator may have accepted it there: a relay that held it once more would be
// in the way, on each level. So losses of routes and hosts pass, unless Config.Guard sets a limit. A table without
// routes, one with only generated routes, and one in which most routes lost all endpoints are held as everywhere.
//
// # What it does not do
//
// It reads no cluster, compiles nothing, and has no listeners (package server). It has one file, that of the client.
package relay

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/routesrv/routesrv/dataplane"
	"github.com/routesrv/routesrv/etagcache"
	"github.com/routesrv/routesrv/gate"
	"github.com/routesrv/routesrv/guard"
	"github.com/routesrv/routesrv/table"
)

// Config is what a Relay is made of. Fetch.URLs and Cache are required.
type Config struct {
	// Fetch is the client; see dataplane.Config. Sink, Guard, Logger and Metrics are filled in; Zone and ZoneFile must be
	// empty.
	Fetch dataplane.Config
	// Guard judges tables once more. The default of MaxLoss is 1 here: losses pass.
	Guard guard.Config
	// Cache serves the tables. Nobody else may change it.
	Cache *etagcache.Cache

	Logger     *slog.Logger          // nil means no log
	Registerer prometheus.Registerer // nil means no metrics
}

// maxLoss is the default of Guard.MaxLoss in a relay: the root has judged losses already.
const maxLoss = 1

// Relay feeds a cache. Its methods are safe for concurrent use; Boot and Run are to be called once, in this order.
type Relay struct {
	client  *dataplane.Client
	cache   *etagcache.Cache
	log     *slog.Logger
	wait    time.Duration // between two questions
	metrics *metrics
	claimed chan struct{} // of capacity 1: a client has named a table that is not known
}

// New checks the configuration. It starts nothing and does no I/O.
func New(cfg Config) (*Relay, error) {
	switch {
	case cfg.Cache == nil:
		return nil, errors.New("relay: no cache")
	case cfg.Fetch.Zone != "" || cfg.Fetch.ZoneFile != "":
		return nil, errors.New("relay: a zone, want the full table, of which those of all zones are made")
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Guard.MaxLoss == 0 {
		cfg.Guard.MaxLoss = maxLoss
	}
	r := &Relay{
		cache: cfg.Cache, log: cfg.Logger.With("component", "relay"), wait: cfg.Fetch.Interval,
		metrics: newMetrics(cfg.Registerer), claimed: make(chan struct{}, 1),
	}
	if r.wait == 0 {
		r.wait = dataplane.DefaultInterval
	}
	fetch := cfg.Fetch
	fetch.Sink = r.cache
	fetch.Guard, fetch.Logger, fetch.Metrics = cfg.Guard, cfg.Logger, dataplane.NewMetrics(cfg.Registerer)
	var err error
	r.client, err = dataplane.New(fetch)
	return r, err
}

// Boot serves the table of the file, marked stale, if there is one that can be used.
func (r *Relay) Boot() { r.client.Boot() }

// Run serves what the server above has until ctx ends, and returns nil then.
func (r *Relay) Run(ctx context.Context) error {
	var asking sync.WaitGroup
	defer asking.Wait()
	asking.Go(func() { r.resolveClaims(ctx) })
	return r.client.Run(ctx)
}

// Recheck is told that a client has named a table that may be newer. It never blocks.
func (r *Relay) Recheck() {
	r.client.Recheck()
	select {
	case r.claimed <- struct{}{}:
	default:
	}
}

// Accept serves the held table; see [gate.Gate.Accept].
func (r *Relay) Accept(a guard.Acceptance) (*table.Table, error) { return r.client.Accept(a) }

// Gate returns what judges the tables and keeps them.
func (r *Relay) Gate() *gate.Gate { return r.client.Gate() }

// Status gives the state of the client as that of a producer that reads a source.
func (r *Relay) Status() gate.Progress { return r.client.Progress() }

// Upstream gives the state of the client.
func (r *Relay) Upstream() dataplane.Status { return r.client.Status() }

const (
	// maxQuestions is how many claims are asked about at a time: the server above remembers as many of one client.
	maxQuestions = 4
	// restAfterError is how many times longer the next question waits after one that got no answer.
	restAfterError = 5
)

// resolveClaims asks about tables that clients name and that are not known, until ctx ends.
func (r *Relay) resolveClaims(ctx context.Context) {
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

// ask asks about one claim, and resolves it if the answer does.
func (r *Relay) ask(ctx context.Context, claim etagcache.Claim) error {
	o, err := r.client.Ask(ctx, claim.Digest, claim.Revision)
	switch {
	case err != nil:
		r.metrics.asked.WithLabelValues(answerNone).Inc()
		return err
	case o.Keep:
		r.metrics.asked.WithLabelValues(answerKeep).Inc()
	case r.cache.Resolve(claim, o.Digest, o.Revision):
		r.metrics.asked.WithLabelValues(answerSend).Inc()
		r.log.Debug("table of a client is not newer", "digest", claim.Digest.String(), "revision", claim.Revision)
	default:
		r.metrics.asked.WithLabelValues(answerOther).Inc()
		r.client.Recheck() // the server above has another table by now
	}
	return nil
}
