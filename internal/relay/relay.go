// Package relay serves the table of another route server: a client follows that server and feeds a cache. A tree of relays can
// serve tens of thousands of proxies. For package server a relay is a producer of tables, like package poller.
//
// A [Relay] does not change the text of a table. It passes the verified table to the cache, so that digest, revision and ETag
// equal those of the server above, on every level. It derives zone tables from the full table, as the server above does. The time
// of the source's read, and whether the table is stale or held, also come from the server above.
//
// # Order
//
// A relay does not read a cluster, so it cannot tell whether a table that it never had is newer: it asks the server above
// (package claims). A relay therefore never sends a client back unless the root would, and accepts a restored cluster when the
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

// Config configures a Relay. Fetch.URLs and Cache are required.
type Config struct {
	// Fetch configures the client; see dataplane.Config. The relay sets Sink, Guard, Logger and Metrics; Zone and ZoneFile must
	// be empty.
	Fetch dataplane.Config
	// Guard judges tables again. The default of MaxLoss is 1 here: losses pass.
	Guard guard.Config
	// Cache serves the tables. Only the relay may change it.
	Cache *etagcache.Cache
	// Sink receives the tables of the gate: Cache or a stage before it; nil means Cache.
	Sink gate.Sink

	Logger     *slog.Logger          // nil means no log
	Registerer prometheus.Registerer // nil means no metrics
}

// maxLoss is the default of Guard.MaxLoss in a relay: the root has already judged losses.
const maxLoss = 1

// Relay feeds a cache. Its methods are safe for concurrent use. Call Boot and then Run, once each.
type Relay struct {
	client *dataplane.Client
	claims *claims.Resolver
}

// New checks the configuration. It starts no goroutine and does no I/O.
func New(cfg Config) (*Relay, error) {
	switch {
	case cfg.Cache == nil:
		return nil, errors.New("relay: no cache")
	case cfg.Fetch.Zone != "" || cfg.Fetch.ZoneFile != "":
		return nil, errors.New("relay: Zone and ZoneFile must be empty: the tables of all zones are derived from the full table")
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

// Boot serves the table from the file, marked stale, if there is a usable one.
func (r *Relay) Boot() { r.client.Boot() }

// Run serves the tables of the server above until ctx ends, then returns nil.
func (r *Relay) Run(ctx context.Context) error {
	var asking sync.WaitGroup
	defer asking.Wait()
	asking.Go(func() { r.claims.Run(ctx) })
	return r.client.Run(ctx)
}

// Recheck reports that a client has named a table that may be newer. It never blocks.
func (r *Relay) Recheck() {
	r.client.Recheck()
	r.claims.Claimed()
}

// Accept serves the held table; see [gate.Gate.Accept].
func (r *Relay) Accept(a guard.Acceptance) (*table.Table, error) { return r.client.Accept(a) }

// Gate returns the gate that judges and keeps the tables.
func (r *Relay) Gate() *gate.Gate { return r.client.Gate() }

// Status returns the state of the client in the form of a producer that reads a source.
func (r *Relay) Status() gate.Progress { return r.client.Progress() }

// Upstream returns the state of the client.
func (r *Relay) Upstream() dataplane.Status { return r.client.Status() }

// Report sends a report to the server above; see [dataplane.Client.Report].
func (r *Relay) Report(ctx context.Context, body []byte) error { return r.client.Report(ctx, body) }

// ask returns a function that asks the route server that the client currently uses.
func ask(c *dataplane.Client) func(context.Context, table.Digest, uint64) (claims.Opinion, error) {
	return func(ctx context.Context, digest table.Digest, revision uint64) (claims.Opinion, error) {
		o, err := c.Ask(ctx, digest, revision)
		return claims.Opinion(o), err
	}
}
