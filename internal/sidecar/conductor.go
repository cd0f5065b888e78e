package sidecar

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/routesrv/routesrv/dataplane"
	"github.com/routesrv/routesrv/etagcache"
	"github.com/routesrv/routesrv/gate"
	"github.com/routesrv/routesrv/internal/audit"
	"github.com/routesrv/routesrv/internal/budget"
	"github.com/routesrv/routesrv/poller"
	"github.com/routesrv/routesrv/rollout"
)

// Messages of changes of state.
const (
	LogModeChanged     = "mode changed"
	LogModeRefused     = "mode refused, the one before stays in force"
	LogServing         = "serving the table of another origin"
	LogProxyOlder      = "a route server says that the proxy has a table that is not newer: the source has gone back"
	LogFallbackWaiting = "route servers are gone, waiting for the slot to compute a table"
	LogFallbackStarted = "route servers are gone, computing a table"
	LogFallbackStopped = "route server is back, or the mode has changed: no table is computed as a fallback any more"
)

const (
	// stepInterval is how often is looked at what only time changes.
	stepInterval = time.Second
	// bootWait is how long there may be no table before the last-known-good one is served without an answer of a route
	// server, and how long requests wait for any. A proxy gives up its first request after three seconds.
	bootWait = 2 * time.Second
	// lagPolls is for how many polls a table of a lower revision than the served one is waited with.
	lagPolls = 3
)

// origin says where the served table comes from.
type origin string

const (
	fromNobody      origin = "none"
	fromLKG         origin = "lkg"         // last-known-good, not confirmed by a route server
	fromSelf        origin = "self"        // computed here
	fromRouteServer origin = "routeserver" // fetched
)

func origins() []origin { return []origin{fromNobody, fromLKG, fromSelf, fromRouteServer} }

// conductor decides which producers run and which of them is served. Everything that changes is changed by its
// goroutine, run; others hand in functions with call.
type conductor struct {
	cfg          *Config // read only
	log          *slog.Logger
	cache        *etagcache.Cache
	sink         gate.Sink      // the cache, or what stands before it
	budget       *budget.Budget // nil without --change-budget
	metrics      *metrics
	fetchMetrics *dataplane.Metrics
	shadow       *shadow
	zoneOf       dataplane.Zone // of computed tables
	decisions    *audit.Log     // in memory only without an LKG file

	calls  chan func()
	ended  chan struct{} // closed when run does not take calls any more
	booted chan struct{} // closed when there is a table, or when it took too long

	// owned by run
	ctx       context.Context // of the producers
	producers sync.WaitGroup
	decider   *rollout.Decider
	decision  rollout.Decision
	fallback  *rollout.Fallback // nil unless in Exec
	falling   rollout.FallbackDecision
	self      *selfProducer   // nil while not running
	remote    *remoteProducer // likewise
	selfEnd   *running        // the self producer before, which may still be ending
	remoteEnd *running        // likewise
	target    origin          // who is to be served: fromSelf or fromRouteServer
	feeder    producer        // who is served; nil for nobody and last-known-good
	served    *gate.Switch
	begun     time.Time
	isBooted  bool

	// for handlers
	view       atomic.Pointer[view]
	selfNow    atomic.Pointer[selfProducer]
	remoteNow  atomic.Pointer[remoteProducer]
	modeErrors func() string
}

func newConductor(cfg *Config, d *rollout.Decider, cache *etagcache.Cache, log *slog.Logger) (*conductor, error) {
	c := &conductor{
		cfg: cfg, log: log, cache: cache, decider: d,
		metrics: newMetrics(cfg.Registry), fetchMetrics: dataplane.NewMetrics(cfg.Registry),
		calls: make(chan func()), ended: make(chan struct{}), booted: make(chan struct{}),
	}
	folder := ""
	if path := cfg.Fetch.LKGPath; path != "" {
		folder = filepath.Dir(path)
	}
	c.decisions = audit.InFolder(folder, log)
	c.sink = cache
	var err error
	if cfg.ChangeBudget > 0 {
		if c.budget, err = budget.New(budget.Config{Sink: cache, Limit: cfg.ChangeBudget, Logger: log, Registry: cfg.Registry}); err != nil {
			return nil, err
		}
		c.sink = c.budget
	}
	if c.served, err = gate.NewSwitch(gate.SwitchConfig{
		Sink: c.sink, Guard: cfg.Guard, Lag: lagPolls * max(cfg.Interval, cfg.Fetch.Interval), Logger: log,
		Decided: gate.RecordIn(c.decisions),
		Files:   []gate.FileConfig{{Name: "routes", Path: cfg.Fetch.RoutesFile, Plain: true}},
		Top: func() uint64 {
			s := cache.Status()
			return max(s.Revision, s.ReadRevision)
		},
	}); err != nil {
		return nil, err
	}
	c.shadow = newShadow(c)
	c.view.Store(&view{Origin: fromNobody, Setting: d.Setting()})
	// What is wrong with the configuration is to be said now, and not when the mode changes.
	if cfg.Source != nil {
		if _, err := c.newSelf(false); err != nil {
			return nil, err
		}
	}
	if len(cfg.Fetch.URLs) > 0 {
		if _, err := c.newRemote(); err != nil {
			return nil, err
		}
	}
	if c.zoneOf, err = dataplane.NewZone(cfg.Fetch.Zone, cfg.Fetch.ZoneFile); err != nil {
		return nil, fmt.Errorf("sidecar: %w", err)
	}
	return c, nil
}

// call has run do f, and returns when it is done; at once if run has ended. It must not be called by run.
func (c *conductor) call(f func()) {
	done := make(chan struct{})
	select {
	case c.calls <- func() { defer close(done); f() }:
		<-done
	case <-c.ended:
	}
}

// run conducts until ctx ends and all producers have.
func (c *conductor) run(ctx context.Context) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	c.ctx, c.begun = ctx, time.Now()
	c.producers.Go(func() { c.shadow.run(ctx) })
	ticker := time.NewTicker(stepInterval)
	defer ticker.Stop()
	boot := time.NewTimer(bootWait)
	defer boot.Stop()
	for c.step(time.Now()); ctx.Err() == nil; c.step(time.Now()) {
		select {
		case <-ctx.Done():
		case f := <-c.calls:
			f()
		case <-ticker.C:
		case <-boot.C:
		}
	}
	close(c.ended)
	c.producers.Wait()
	c.served.Flush()
	c.decisions.Close()
}

// step brings everything in line with what is to be. It never blocks.
func (c *conductor) step(now time.Time) {
	if c.ctx.Err() != nil {
		return
	}
	c.decide(now)
	c.runProducers()
	c.boot(now)
	c.served.Tend()
	c.report(now)
}

// set takes what an operator asks for.
func (c *conductor) set(s rollout.Setting) {
	c.call(func() { c.decider.Set(s) })
}

// decide says which mode is in force, and whether to fall back.
func (c *conductor) decide(now time.Time) {
	before := c.decision
	c.decision = c.decider.Decide(c.shadow.evidence(now, c.decision.Mode))
	d := c.decision
	if d.Mode != before.Mode || c.target == "" {
		c.log.Info(LogModeChanged, "mode", d.Mode.String(), "setting", c.decider.Setting().String())
		c.shadow.reset()
	}
	if (d.Refused != "") != (before.Refused != "") && d.Refused != "" {
		c.log.Warn(LogModeRefused, "mode", d.Mode.String(), "asked", d.Asked.String(), "reason", d.Refused)
	}
	c.fall(now)
	target := fromSelf
	if d.Mode == rollout.Exec && !c.falling.Compute {
		target = fromRouteServer
	}
	if target != c.target {
		c.target = target
		c.served.Abandon()
	}
}

// fall decides about the fallback.
func (c *conductor) fall(now time.Time) {
	before := c.falling
	if c.decision.Mode != rollout.Exec || c.cfg.Source == nil {
		c.fallback, c.falling = nil, rollout.FallbackDecision{}
	} else {
		if c.fallback == nil {
			c.fallback = rollout.NewFallback(c.cfg.Fallback, now)
		}
		c.falling = c.fallback.Decide(now, c.contact())
	}
	switch f := c.falling; {
	case f.Compute && !before.Compute:
		c.log.Warn(LogFallbackStarted, "reason", f.Reason)
	case before.Compute && !f.Compute:
		c.log.Info(LogFallbackStopped)
	case !f.StartAt.IsZero() && before.StartAt.IsZero():
		c.log.Warn(LogFallbackWaiting, "reason", f.Reason, "start_at", f.StartAt)
	}
}

// contact is what is known of the route servers.
func (c *conductor) contact() rollout.Contact {
	p := c.remote
	if p == nil {
		return rollout.Contact{}
	}
	o := p.offer
	if o.Table == nil {
		o = p.lkg
	}
	return rollout.Contact{Answered: p.answered, HasTable: o.Table != nil, TableRead: o.Read.At}
}

// runProducers starts and ends producers. Who is served goes on until another one is, unless it is a fallback that has to
// stop: its last table is served on, and the cluster has its rest.
func (c *conductor) runProducers() {
	mode := c.decision.Mode
	slow := mode == rollout.Exec
	wantSelf := !slow || c.falling.Compute
	if p := c.self; p != nil {
		keep := p.fallback == slow
		if !wantSelf {
			keep = !p.fallback && c.feeder == producer(p) // until the route server's table is served
		}
		if !keep {
			p.end()
			c.selfEnd, c.self = p.running, nil
		}
	}
	if wantSelf && c.self == nil {
		c.startSelf(slow)
	}
	wantRemote := mode != rollout.False
	if p := c.remote; p != nil && !wantRemote && c.feeder != producer(p) {
		p.end()
		c.remoteEnd, c.remote = p.running, nil
	}
	if wantRemote && c.remote == nil {
		c.startRemote()
	}
	c.selfNow.Store(c.self)
	c.remoteNow.Store(c.remote)
}

func (c *conductor) startSelf(slow bool) {
	p, err := c.newSelf(slow)
	if err != nil {
		c.log.Error("make poller", "error", err) // the same configuration was fine for New
		return
	}
	var delay time.Duration
	if c.served.Table() != nil && !slow {
		delay = rand.N(c.cfg.Interval) // a fleet changes its mode at once, and its reads are to be spread all the same
	}
	p.running = start(c.ctx, &c.producers, c.selfEnd, func(ctx context.Context) {
		select {
		case <-ctx.Done():
			return
		case <-time.After(delay):
		}
		if err := p.poller.Run(ctx); err != nil {
			c.log.Error("poller ended", "error", err)
		}
		if source, ok := c.cfg.Source.(poller.Dropper); ok {
			source.Drop()
		}
	})
	c.self, c.selfEnd = p, nil
}

func (c *conductor) startRemote() {
	p, err := c.newRemote()
	if err != nil {
		c.log.Error("make data-plane client", "error", err) // likewise
		return
	}
	p.running = start(c.ctx, &c.producers, c.remoteEnd, func(ctx context.Context) { c.runRemote(ctx, p) })
	c.remote, c.remoteEnd = p, nil
}

// boot serves the last-known-good table if there is nothing better in time, and lets requests go that wait for any.
func (c *conductor) boot(now time.Time) {
	late := now.Sub(c.begun) >= bootWait
	if p := c.remote; c.served.Table() == nil && p != nil && p.lkg.Table != nil && (late || p.tried && c.target == fromRouteServer) {
		c.served.Restore(string(fromLKG), p.lkg)
		c.log.Warn(LogServing, "origin", string(fromLKG), "hash", c.served.Table().Digest().String(), "last_read", p.lkg.Read.At)
	}
	if !c.isBooted && (late || c.served.Table() != nil) {
		c.isBooted = true
		close(c.booted)
	}
}

// recheck asks for an early read, because the proxy names a table that is newer than what is served. It never blocks. A
// fallback keeps to its rhythm.
func (c *conductor) recheck() {
	if p := c.remoteNow.Load(); p != nil {
		p.client.Recheck()
		if c.view.Load().Origin != fromSelf { // a table that is computed here is compared with what the cluster says
			p.claims.Claimed()
		}
	}
	if p := c.selfNow.Load(); p != nil && !p.fallback {
		p.poller.Recheck()
	}
}
