// Package relay serves the table of another route server: a client follows that one and feeds a cache, and a fleet of tens of
// thousands of proxies is served by a tree of them. It is to the route server what package poller is: where tables come from.
//
// A [Relay] adds nothing to the text of a table. What the client has verified goes to the cache as it is, so that digest,
// revision and with them the ETag are those of the server above, on every level. Zone tables are made of the full one here, as
// they are there. When the source was read is what the server above says, and whether the table is stale or held is, too.
//
// # Order
//
// A relay has no revisions of a cluster, so it cannot tell whether a table which it has never had is newer: it asks the server
// above (package claims). So a relay sends nobody back whom the root would not send back, and believes in a restored cluster
// when the root does. A relay that has lost the server above leaves clients with tables unknown to it where they are.
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
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/routesrv/routesrv/dataplane"
	"github.com/routesrv/routesrv/etagcache"
	"github.com/routesrv/routesrv/gate"
	"github.com/routesrv/routesrv/guard"
	"github.com/routesrv/routesrv/internal/claims"
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
	// Sink is what the gate feeds: Cache, or what stands before it; nil means Cache.
	Sink gate.Sink

	Logger     *slog.Logger          // nil means no log
	Registerer prometheus.Registerer // nil means no metrics
}

// maxLoss is the default of Guard.MaxLoss in a relay: the root has judged losses already.
const maxLoss = 1

// Relay feeds a cache. Its methods are safe for concurrent use; Boot and Run are to be called once, in this order.
type Relay struct {
	client *dataplane.Client
	claims *claims.Resolver
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
	if cfg.Sink == nil {
		cfg.Sink = cfg.Cache
	}
	if cfg.Guard.MaxLoss == 0 {
		cfg.Guard.MaxLoss = maxLoss
	}
	fetch := cfg.Fetch
	fetch.Sink = cfg.Sink
	fetch.Guard, fetch.Logger, fetch.Metrics = cfg.Guard, cfg.Logger, dataplane.NewMetrics(cfg.Registerer)
	client, err := dataplane.New(fetch)
	if err != nil {
		return nil, err
	}
	log, asked := cfg.Logger.With("component", "relay"), newMetrics(cfg.Registerer).asked
	return &Relay{client, claims.New(claims.Config{
		Cache: cfg.Cache, Ask: ask(client), Recheck: client.Recheck, Wait: cmp.Or(fetch.Interval, dataplane.DefaultInterval),
		Told: func(c etagcache.Claim, a claims.Answer) {
			asked.WithLabelValues(string(a)).Inc()
			if a == claims.Send {
				log.Debug("table of a client is not newer", "digest", c.Digest.String(), "revision", c.Revision)
			}
		},
	})}, nil
}

// Boot serves the table of the file, marked stale, if there is one that can be used.
func (r *Relay) Boot() { r.client.Boot() }

// Run serves what the server above has until ctx ends, and returns nil then.
func (r *Relay) Run(ctx context.Context) error {
	var asking sync.WaitGroup
	defer asking.Wait()
	asking.Go(func() { r.claims.Run(ctx) })
	return r.client.Run(ctx)
}

// Recheck is told that a client has named a table that may be newer. It never blocks.
func (r *Relay) Recheck() {
	r.client.Recheck()
	r.claims.Claimed()
}

// Accept serves the held table; see [gate.Gate.Accept].
func (r *Relay) Accept(a guard.Acceptance) (*table.Table, error) { return r.client.Accept(a) }

// Gate returns what judges the tables and keeps them.
func (r *Relay) Gate() *gate.Gate { return r.client.Gate() }

// Status gives the state of the client as that of a producer that reads a source.
func (r *Relay) Status() gate.Progress { return r.client.Progress() }

// Upstream gives the state of the client.
func (r *Relay) Upstream() dataplane.Status { return r.client.Status() }

// Report sends a report to the server above; see [dataplane.Client.Report].
func (r *Relay) Report(ctx context.Context, body []byte) error { return r.client.Report(ctx, body) }

// ask asks the route server that a client has in use.
func ask(c *dataplane.Client) func(context.Context, table.Digest, uint64) (claims.Opinion, error) {
	return func(ctx context.Context, digest table.Digest, revision uint64) (claims.Opinion, error) {
		o, err := c.Ask(ctx, digest, revision)
		return claims.Opinion(o), err
	}
}
