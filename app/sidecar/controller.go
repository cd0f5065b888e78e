package sidecar

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/routesrv/routesrv/dataplane"
	"github.com/routesrv/routesrv/etagcache"
	"github.com/routesrv/routesrv/publish"
	"github.com/routesrv/routesrv/rollout"
)

// Messages of changes of state.
const (
	LogServing         = "serving the table of another origin"
	LogFallbackWaiting = "no route server answers, waiting for the slot to compute a table"
	LogFallbackStarted = "no route server answers, computing a table"
	LogFallbackStopped = "a route server answers again, or the mode has changed: fallback ended"
)

const (
	// stepInterval is how often the controller reads the mode file, and checks conditions that depend only on time.
	stepInterval = time.Second
	// bootWait is how long to wait for a first table before serving the last-known-good one without an answer of a route server,
	// and how long requests wait for any table: two steps. A proxy gives up its first request after three seconds.
	bootWait = 2 * stepInterval
	// lagPolls is how many polls to wait before switching to a table with a lower revision than the served one.
	lagPolls = 3
)

// origin is where the served table comes from.
type origin string

const (
	fromNobody        origin = "none"
	fromLastKnownGood origin = "last_known_good" // last-known-good, not confirmed by a route server
	fromSelf          origin = "self"            // computed here
	fromRouteServer   origin = "routeserver"     // fetched
)

func origins() []origin { return []origin{fromNobody, fromLastKnownGood, fromSelf, fromRouteServer} }

// controller decides which producers run and which one is served. Only its goroutine, run, changes its state.
type controller struct {
	cfg          *Config // read only
	log          *slog.Logger
	cache        *etagcache.Cache
	metrics      *metrics
	fetchMetrics *dataplane.Metrics
	shadow       *shadow
	proof        *proof
	zoneOf       dataplane.Zone // zone of computed tables
	decisions    publish.Decisions

	calls  chan func()
	reload chan struct{} // of capacity 1: read the mode file now
	ended  chan struct{} // closed when run stops accepting calls
	booted chan struct{} // closed when there is a table, or after bootWait

	// owned by run
	ctx       context.Context // context of the producers
	producers sync.WaitGroup
	turns     struct{ self, remote turn } // the previous producer may still be ending
	modes     *modeFile                   // nil if no mode file is set
	decider   *rollout.Decider
	decision  rollout.Decision
	fallback  *rollout.Fallback // nil except in Exec
	falling   rollout.FallbackDecision
	self      *selfProducer   // nil while not running
	remote    *remoteProducer // nil while not running
	target    origin          // which table should be served: fromSelf or fromRouteServer
	active    *producer       // which producer is served; nil for none or last-known-good
	served    *publish.Switch
	begun     time.Time
	isBooted  bool

	rank atomic.Int64 // in the fleet, as the last route server that knew it answered; negative for unknown

	// for handlers
	shown     atomic.Pointer[modeReport]
	selfNow   atomic.Pointer[selfProducer]
	remoteNow atomic.Pointer[remoteProducer]
}

func newController(cfg *Config, d *rollout.Decider, modes *modeFile, cache *etagcache.Cache, log *slog.Logger) (*controller, error) {
	c := &controller{
		cfg: cfg, log: log, cache: cache, decider: d, modes: modes,
		metrics: newMetrics(cfg.Registry), fetchMetrics: dataplane.NewMetrics(cfg.Registry),
		calls: make(chan func()), reload: make(chan struct{}, 1), ended: make(chan struct{}), booted: make(chan struct{}),
	}
	c.rank.Store(-1)
	c.turns.self, c.turns.remote = make(turn, 1), make(turn, 1)
	c.proof = newProof(cfg.StateDir, c.metrics, log)
	var err error
	if c.served, err = publish.NewSwitch(publish.SwitchConfig{
		Sink: cache, Guard: cfg.Guard, Lag: lagPolls * max(cfg.Interval, cfg.Fetch.Interval), Logger: log,
		Decided: c.decisions.Append,
		File:    publish.FileConfig{Name: "routes", Path: cfg.RoutesFile, Plain: true},
		Metrics: c.fetchMetrics.Publisher(),
		Top: func() uint64 {
			if s := cache.Status(); s != nil {
				return max(s.Revision, s.ReadRevision)
			}
			return 0
		},
	}); err != nil {
		return nil, err
	}
	c.shadow = newShadow(c)
	c.shown.Store(&modeReport{Origin: fromNobody, Setting: d.Setting()})
	// Report mistakes in the configuration now, not when the mode changes.
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

// call makes run execute f, and returns when that is done, or at once if run has ended. run itself must not call it.
func (c *controller) call(f func()) {
	done := make(chan struct{})
	select {
	case c.calls <- func() { defer close(done); f() }:
		<-done
	case <-c.ended:
	}
}

// run conducts until ctx and all producers have ended.
func (c *controller) run(ctx context.Context) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	c.ctx, c.begun = ctx, time.Now()
	c.producers.Go(func() { c.shadow.run(ctx) })
	ticker := time.NewTicker(stepInterval)
	defer ticker.Stop()
	for c.step(time.Now()); ctx.Err() == nil; c.step(time.Now()) {
		select {
		case <-ctx.Done():
		case f := <-c.calls:
			f()
		case <-ticker.C:
			c.readMode()
		case <-c.reload:
			c.readMode()
		}
	}
	close(c.ended)
	c.producers.Wait()
	c.served.Flush()
	c.proof.flush()
}

// step brings the producers in line with the setting and the state. It never blocks.
func (c *controller) step(now time.Time) {
	if c.ctx.Err() != nil {
		return
	}
	c.decide(now)
	c.runProducers()
	c.boot(now)
	c.betweenAnswers(now)
	c.served.Tend()
	c.prove()
	c.report(now)
}

func (c *controller) readMode() {
	if c.modes == nil {
		return
	}
	if s, ok := c.modes.read(); ok {
		c.decider.Set(s)
	}
}

// decide determines the mode in force, and whether to fall back.
func (c *controller) decide(now time.Time) {
	before := c.decision
	c.decision = c.decider.Decide(c.shadow.evidence(now, c.decision.Mode), int(c.rank.Load()))
	d := c.decision
	if d.Mode != before.Mode || c.target == "" {
		c.log.Info("mode changed", "mode", d.Mode.String(), "setting", c.decider.Setting().String())
		c.shadow.reset()
	}
	if (d.Refused != "") != (before.Refused != "") && d.Refused != "" {
		c.log.Warn("mode refused, the previous mode stays in force", "mode", d.Mode.String(), "asked", d.Asked.String(), "reason", d.Refused)
	}
	c.updateFallback(now)
	target := fromSelf
	if d.Mode == rollout.Exec && !c.falling.Compute {
		target = fromRouteServer
	}
	if target != c.target {
		c.target = target
		c.served.Abandon()
	}
}

func (c *controller) updateFallback(now time.Time) {
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

func (c *controller) contact() rollout.Contact {
	p := c.remote
	if p == nil {
		return rollout.Contact{}
	}
	o := p.offer
	if o.Table == nil {
		o = p.lastKnownGood
	}
	return rollout.Contact{Answered: p.answered, HasTable: o.Table != nil, TableRead: o.Read.At}
}

// runProducers starts and stops producers. The served producer keeps running until another one is served, except a fallback that
// must stop: then its last table stays served without further reads of the cluster.
func (c *controller) runProducers() {
	mode := c.decision.Mode
	slow := mode == rollout.Exec
	wantSelf := !slow || c.falling.Compute
	if p := c.self; p != nil {
		keep := p.fallback == slow
		if !wantSelf {
			keep = !p.fallback && c.active == &p.producer // until the route server's table is served
		}
		if !keep {
			p.end()
			c.self = nil
		}
	}
	if wantSelf && c.self == nil {
		c.startSelf(slow)
	}
	wantRemote := mode != rollout.False
	if p := c.remote; p != nil && !wantRemote && c.active != &p.producer {
		p.end()
		c.remote = nil
	}
	if wantRemote && c.remote == nil {
		c.startRemote()
	}
	c.selfNow.Store(c.self)
	c.remoteNow.Store(c.remote)
}

func (c *controller) startSelf(slow bool) {
	p, err := c.newSelf(slow)
	if err != nil {
		c.log.Error("make poller", "error", err) // unexpected: New accepted the same configuration
		return
	}
	var delay time.Duration
	if c.served.Table() != nil && !slow {
		delay = rand.N(c.cfg.Interval) // a whole fleet may change its mode at once; this spreads its reads
	}
	p.end = c.turns.self.start(c.ctx, &c.producers, func(ctx context.Context) {
		select {
		case <-ctx.Done():
			return
		case <-time.After(delay):
		}
		if err := p.poller.Run(ctx); err != nil {
			c.log.Error("poller ended", "error", err)
		}
		if source, ok := c.cfg.Source.(interface{ Drop() }); ok {
			source.Drop()
		}
	})
	c.self = p
}

func (c *controller) startRemote() {
	p, err := c.newRemote()
	if err != nil {
		c.log.Error("make data-plane client", "error", err) // unexpected: New accepted the same configuration
		return
	}
	p.end = c.turns.remote.start(c.ctx, &c.producers, func(ctx context.Context) { c.runRemote(ctx, p) })
	c.remote = p
}

// boot serves the last-known-good table if nothing better arrives in time, and releases the requests that wait for a table.
func (c *controller) boot(now time.Time) {
	late := now.Sub(c.begun) >= bootWait
	if p := c.remote; c.served.Table() == nil && p != nil && p.lastKnownGood.Table != nil && (late || p.tried && c.target == fromRouteServer) {
		c.served.Restore(string(fromLastKnownGood), p.lastKnownGood)
		c.proof.serving(p.lastKnownGood, string(fromLastKnownGood))
		c.log.Warn(LogServing, "origin", string(fromLastKnownGood), "hash", c.served.Table().Digest().String(), "last_read", p.lastKnownGood.Read.At)
	}
	if !c.isBooted && (late || c.served.Table() != nil) {
		c.isBooted = true
		close(c.booted)
	}
}

// prove passes a newly proven table to the last-known-good file of the client; in mode False the file stays as it is.
func (c *controller) prove() {
	c.proof.tick(time.Now())
	c.reconsider()
	p := c.remote
	if p == nil || !p.tried { // it may still be reading the file
		return
	}
	if t, ok := c.proof.proven(); ok && t.Table.Digest() != p.proven {
		p.proven = t.Table.Digest()
		p.client.Publisher().Prove(t)
		c.log.Info("table proven: the proxy has run with it", append([]any{"origin", t.Origin}, "hash", p.proven.String(), "routes", t.Table.Len(), "revision", t.Table.Revision())...)
	}
}

// reconsider serves the proven table when a fallback has begun, and the newest one when it is tried again.
func (c *controller) reconsider() {
	if c.active == nil || c.active.offer.Table == nil {
		return
	}
	if o := c.proof.choose(c.active.offer); o.Table.Digest() != c.served.Table().Digest() {
		c.served.Publish(o.Table)
		c.proof.serving(o, string(c.origin()))
	}
}

func (c *controller) readProxy(now time.Time, f *figures) {
	before := c.proof.fallenBack(now)
	if c.proof.read(now, f); c.proof.fallenBack(now) != before {
		c.call(c.reconsider)
	}
}

// recheck asks for an early read, because the proxy names a newer table. It never blocks. It does not speed up a fallback.
func (c *controller) recheck() {
	if p := c.remoteNow.Load(); p != nil {
		p.client.Recheck()
		if c.shown.Load().Origin != fromSelf { // a computed table is compared with the cluster, not with a route server
			p.claims.Claimed()
		}
	}
	if p := c.selfNow.Load(); p != nil && !p.fallback {
		p.poller.Recheck()
	}
}
