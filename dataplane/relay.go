package dataplane

import (
	"cmp"
	"context"
	"errors"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/routesrv/routesrv/api"
	"github.com/routesrv/routesrv/etagcache"
)

// RelayConfig configures a Relay. Fetch.URLs and Cache are required.
type RelayConfig struct {
	// Fetch configures the client; see Config. The relay sets Metrics. Zone and ZoneFile must be empty. The default of Guard.MaxLoss
	// is 1 here: the root has already judged losses. The default of Sink is Cache.
	Fetch Config
	// Cache serves the tables. Only the relay may change it.
	Cache *etagcache.Cache

	Registerer prometheus.Registerer // nil means no metrics
}

// Relay serves the table of another route server: a [Client] that feeds a cache. Its methods are safe for concurrent use. Call
// Boot and then Run, once each.
//
// It passes the verified table on as it is, so that digest, revision and ETag are equal on every level, with the time of the
// source's read, and whether the table is stale or held. It never sends a client back unless the root would ([Claims]). The root
// has already judged the table, so losses of routes and hosts pass, unless Config.Guard sets a limit.
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
	fetch.Guard.MaxLoss = cmp.Or(fetch.Guard.MaxLoss, 1)
	fetch.Metrics = NewMetrics(cfg.Registerer)
	c, err := New(fetch)
	if err != nil {
		return nil, err
	}
	return &Relay{c, NewClaims(cfg.Cache, c.Ask, c.Recheck, c.cfg.Interval, c.cfg.Logger.With("component", "relay"))}, nil
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

// Status returns the state of the client in the form of a producer that reads a source.
func (r *Relay) Status() api.Source {
	s := r.Client.Status()
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
