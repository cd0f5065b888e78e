package sidecar

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/routesrv/routesrv/dataplane"
	"github.com/routesrv/routesrv/engine"
	"github.com/routesrv/routesrv/rollout"
	"github.com/routesrv/routesrv/table"
	"github.com/routesrv/routesrv/wire"
)

// offer is the last table of a producer, and the last read that showed it.
type offer struct {
	table *table.Table // nil before the first
	read  table.Read
}

// producer is a selfProducer or a remoteProducer.
type producer interface{ end() }

// running is what both producers have: a goroutine that is told to end and waited for by whoever needs it to be over.
type running struct {
	stop context.CancelFunc
	done chan struct{} // closed when it has ended
}

// end tells the producer to end, and does not wait.
func (r *running) end() { r.stop() }

// start runs f, after what was there before has ended.
func start(ctx context.Context, all *sync.WaitGroup, before *running, f func(context.Context)) *running {
	ctx, stop := context.WithCancel(ctx)
	r := &running{stop: stop, done: make(chan struct{})}
	all.Go(func() {
		defer close(r.done)
		defer stop()
		if before != nil {
			<-before.done
		}
		if ctx.Err() == nil {
			f(ctx)
		}
	})
	return r
}

// selfProducer computes tables. What has no comment is set when it is made.
type selfProducer struct {
	*running
	engine   *engine.Engine
	registry *prometheus.Registry // of this engine alone: another one has series of the same names
	fallback bool                 // slowed down
	offer    offer                // owned by the conductor
}

// newSelf makes a producer that reads the cluster; as a fallback it takes its time.
func (c *conductor) newSelf(fallback bool) (*selfProducer, error) {
	p := &selfProducer{fallback: fallback, registry: prometheus.NewRegistry()}
	interval := c.cfg.Interval
	if fallback {
		interval *= rollout.Slowdown
	}
	var err error
	p.engine, err = engine.New(engine.Config{
		Source: c.cfg.Source, Compile: c.cfg.Compile, Guard: c.cfg.Guard,
		Interval: interval, MaxBackoff: max(c.cfg.MaxBackoff, interval),
		Publish:  func(t *table.Table) { c.selfPublished(p, t) },
		Observer: selfObserver{c, p},
		Logger:   c.cfg.Logger, Registerer: p.registry,
	})
	return p, err
}

// selfObserver hands the reads of an engine to the conductor.
type selfObserver struct {
	c *conductor
	p *selfProducer
}

func (o selfObserver) PollStarted() uint64                { return o.c.cache.PollStarted() }
func (o selfObserver) PollEnded(seq uint64, r table.Read) { o.c.selfRead(o.p, seq, r) }

// selfPublished takes a table that the guard of the engine has let pass. The read that showed it follows.
func (c *conductor) selfPublished(p *selfProducer, t *table.Table) {
	t = t.Zone(c.zone())
	c.call(func() {
		p.offer.table = t
		if c.feeder == producer(p) {
			c.served.publish(t)
		}
	})
}

func (c *conductor) selfRead(p *selfProducer, seq uint64, r table.Read) {
	c.call(func() {
		if !r.Held {
			p.offer.read = r
		}
		switch {
		case c.feeder == producer(p):
			c.served.confirm(seq, r)
		case !r.Held:
			c.switchTo(p, fromSelf, p.offer)
		}
	})
}

// zone is what the computed table is limited to, as the fetched one is.
func (c *conductor) zone() string {
	if c.cfg.Fetch.ZoneFile == "" {
		return c.cfg.Fetch.Zone
	}
	zone, _ := dataplane.ReadZone(c.cfg.Fetch.ZoneFile) // without one it is the full table, as for the client, which says so
	return zone
}

// remoteProducer fetches tables.
type remoteProducer struct {
	*running
	client *dataplane.Client

	// owned by the conductor
	offer    offer
	lkg      offer     // from the file; nil table if there is none
	url      string    // of the offer
	tried    bool      // the first round is over
	answered time.Time // when a route server last gave a usable answer
	shown    time.Time // when betweenAnswers last did something, or an answer came
}

// newRemote makes a producer that fetches.
func (c *conductor) newRemote() (*remoteProducer, error) {
	p := &remoteProducer{}
	cfg := c.cfg.Fetch
	cfg.RoutesFile = "" // ours is of what is served
	cfg.Guard, cfg.Logger, cfg.Metrics = c.cfg.Guard, c.cfg.Logger, c.fetchMetrics
	cfg.Publish = func(t *table.Table, a dataplane.Applied) { c.remoteAnswered(p, t, a) }
	cfg.Confirm = func(a dataplane.Applied) { c.remoteAnswered(p, p.client.Current(), a) }
	var err error
	p.client, err = dataplane.New(cfg)
	return p, err
}

// remoteAnswered takes an answer of a route server that shows the table that the client has committed.
func (c *conductor) remoteAnswered(p *remoteProducer, t *table.Table, a dataplane.Applied) {
	c.call(func() {
		changed := p.offer.table != t
		p.answered = time.Now()
		p.shown = p.answered
		p.offer, p.url = offer{t, readOf(a)}, a.Origin
		if c.feeder != producer(p) {
			c.switchTo(p, fromRouteServer, p.offer)
		} else {
			if changed {
				c.served.publish(t)
			}
			c.served.confirm(c.cache.PollStarted(), p.offer.read)
		}
		c.compare()
	})
}

// readOf is an answer as the cache sees it. The client has verified and ordered what it commits, and the proxy has
// nobody else to ask: there is no doubt left about what is newer.
func readOf(a dataplane.Applied) table.Read {
	backends := a.ServerState == wire.StateBackendsHeld
	return table.Read{
		Oldest: a.Revision, Newest: a.Revision, Consistent: true,
		Held: backends || a.ServerState == wire.StateHeld, Backends: backends, At: a.SourceRead,
	}
}

// firstRoundInterval is how often is looked whether the first round of the client is over, which somebody waits for.
const firstRoundInterval = 50 * time.Millisecond

// runRemote boots the client and runs it, and keeps the conductor informed about what no callback tells.
func (c *conductor) runRemote(ctx context.Context, p *remoteProducer) {
	var background sync.WaitGroup
	defer background.Wait()
	if t := p.client.Boot(); t != nil {
		lkg := offer{t, readOf(*p.client.Status().Applied)}
		c.call(func() { p.lkg = lkg })
	}
	background.Go(func() { c.watch(ctx, p) })
	if err := p.client.Run(ctx); err != nil {
		c.log.Error("data-plane client ended", "error", err)
	}
}

// watch keeps the conductor informed until ctx ends.
func (c *conductor) watch(ctx context.Context, p *remoteProducer) {
	for {
		wait := stepInterval
		if !c.observe(p) {
			wait = firstRoundInterval
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}

// observe looks at the state of the client, and reports whether its first round is over. It must not be called by run: a
// client that is committing waits for run.
func (c *conductor) observe(p *remoteProducer) (tried bool) {
	s := p.client.Status()
	tried = s.Failures > 0 || !s.LastSuccess.IsZero()
	c.call(func() {
		p.tried = tried
		if s.LastSuccess.After(p.answered) {
			p.answered = s.LastSuccess
		}
		if s.Stream != nil && !s.Stream.Connected.IsZero() {
			c.betweenAnswers(p)
		}
	})
	return tried
}

// betweenAnswers does for a client with a stream what is done for each answer to a poll, as often as polls would come: over a
// stream there are fewer, because it would say if there was another table.
func (c *conductor) betweenAnswers(p *remoteProducer) {
	now := time.Now()
	if c.remote != p || now.Sub(p.shown) < c.cfg.Fetch.Interval {
		return
	}
	p.shown = now
	c.compare()
	if c.target == fromRouteServer && c.feeder != producer(p) {
		p.client.Recheck() // a switch waits for an answer that came after it was asked for
	}
}
