package sidecar

import (
	"context"
	"runtime/debug"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/routesrv/routesrv/dataplane"
	"github.com/routesrv/routesrv/poller"
	"github.com/routesrv/routesrv/publish"
	"github.com/routesrv/routesrv/rollout"
	"github.com/routesrv/routesrv/table"
)

// producer is the part of a selfProducer and a remoteProducer that serving one of them needs. The controller owns it.
type producer struct {
	origin origin
	end    context.CancelFunc // set when it is started
	offer  publish.Offer      // its table is nil before the first
}

// turn lets one producer of a kind run at a time.
type turn chan struct{}

// start runs f once the previous producer has ended, and returns a function that ends it without waiting.
func (t turn) start(parent context.Context, all *sync.WaitGroup, f func(context.Context)) (end context.CancelFunc) {
	ctx, end := context.WithCancel(parent)
	all.Go(func() {
		defer end()
		t <- struct{}{}
		defer func() { <-t }()
		if ctx.Err() == nil {
			f(ctx)
		}
		f = nil // releases the producer
		if parent.Err() == nil {
			// The producer may have used most of the memory of the process. Little new garbage follows, so the next collection could
			// otherwise take minutes to start.
			debug.FreeOSMemory()
		}
	})
	return end
}

// selfProducer computes tables. Fields without a comment are set on creation.
type selfProducer struct {
	producer
	compiler  *poller.Compiler
	publisher *publish.Publisher
	poller    *poller.Poller
	registry  *prometheus.Registry // separate registry: another producer has series of the same names
	fallback  bool                 // reads more slowly

	whole, zoned *table.Table // the last table, and its version for the zone; owned by the holder of the publisher's turn
}

// newSelf returns a producer that reads the cluster; as a fallback it reads more slowly.
func (c *controller) newSelf(fallback bool) (*selfProducer, error) {
	p := &selfProducer{producer: producer{origin: fromSelf}, fallback: fallback, registry: prometheus.NewRegistry()}
	interval := c.cfg.Interval
	if fallback {
		interval *= rollout.Slowdown
	}
	var err error
	if p.compiler, err = poller.NewCompiler(c.cfg.Compile, c.cfg.Logger, p.registry); err != nil {
		return nil, err
	}
	if p.publisher, err = publish.New(publish.Config{
		Sink: selfSink{c, p}, Guard: c.cfg.Guard, Builder: p.compiler, Logger: c.cfg.Logger.With("component", "publish"),
		Metrics: publish.NewMetrics(p.registry, "routesrv"), Decided: c.decisions.Append,
	}); err != nil {
		return nil, err
	}
	p.poller, err = poller.New(poller.Config{
		Source: c.cfg.Source, Compile: p.compiler.Compile, Publisher: p.publisher,
		Interval: interval, MaxBackoff: max(c.cfg.MaxBackoff, interval),
		Logger: c.cfg.Logger, Metrics: poller.NewMetrics(p.registry),
	})
	return p, err
}

// selfSink passes the tables that the publisher of a selfProducer publishes to the controller.
type selfSink struct {
	c *controller
	p *selfProducer
}

// Restore is not called: a selfProducer has no last-known-good file.
func (selfSink) Restore(*table.Table, time.Time) {}

func (s selfSink) Begin() func(*table.Table, table.Read) {
	end := s.c.cache.Begin()
	return func(t *table.Table, r table.Read) { s.c.selfRead(s.p, end, t, r) }
}

func (s selfSink) Publish(t *table.Table) {
	t = s.p.zone(s.c, t)
	s.c.call(func() {
		s.p.offer.Table = t
		if s.c.active == &s.p.producer {
			o := s.c.proof.choose(s.p.offer)
			s.c.served.Publish(o.Table)
			s.c.proof.serving(o, string(fromSelf))
		}
	})
}

// zone limits a table to the zone. It caches the result, because most reads show the same table again.
func (p *selfProducer) zone(c *controller, t *table.Table) *table.Table {
	if t != p.whole {
		p.whole, p.zoned = t, t.Zone(c.zone())
	}
	return p.zoned
}

// selfRead handles a read of a selfProducer. The table has passed its publisher; it is nil if a suspicious one is held back.
func (c *controller) selfRead(p *selfProducer, end func(*table.Table, table.Read), t *table.Table, r table.Read) {
	if t != nil {
		t = p.zone(c, t)
	}
	c.call(func() {
		if t != nil {
			p.offer = publish.Offer{Table: t, Read: r}
		}
		switch {
		case c.active == &p.producer:
			c.show(end, publish.Offer{Table: t, Read: r}, string(fromSelf))
		case t != nil:
			c.switchTo(&p.producer)
		}
	})
}

// show serves what a read of the served producer has shown, unless it crashes the proxy.
func (c *controller) show(end func(*table.Table, table.Read), o publish.Offer, origin string) {
	chosen := c.proof.choose(o)
	c.served.Show(end, chosen.Table, chosen.Read)
	c.proof.serving(chosen, origin)
}

// zone returns the zone of the computed table, which is also the zone of the fetched one.
func (c *controller) zone() string {
	zone, _ := c.zoneOf.Read() // on an error use the full table, as the client does, which logs the error
	return zone
}

// remoteProducer fetches tables.
type remoteProducer struct {
	producer
	client *dataplane.Client
	claims *dataplane.Claims // about tables that the proxy names

	// owned by the controller
	lastKnownGood publish.Offer // from the file; its table is nil if there is none
	url           string        // of the offer
	tried         bool          // the first round has ended
	failing       bool          // the last round ended with an error
	proven        table.Digest  // the proven table that its last-known-good file was given; zero for none
	answered      time.Time     // time of the last usable answer of a route server
	shown         time.Time     // when betweenAnswers last acted, or an answer came
}

func (c *controller) newRemote() (*remoteProducer, error) {
	p := &remoteProducer{producer: producer{origin: fromRouteServer}}
	cfg := c.cfg.Fetch
	cfg.StateDir = c.cfg.StateDir
	cfg.Guard, cfg.Logger, cfg.Metrics = c.cfg.Guard, c.cfg.Logger, c.fetchMetrics
	cfg.Sink, cfg.Decided = remoteSink{c, p}, c.decisions.Append
	cfg.Identity, cfg.Unproven = c.identity, c.proof.unproven
	cfg.Ended = func(err error) {
		c.call(func() {
			if p.tried, p.failing = true, err != nil; err == nil {
				p.answered = time.Now()
			}
		})
	}
	var err error
	if p.client, err = dataplane.New(cfg); err != nil {
		return nil, err
	}
	p.claims = dataplane.NewClaims(c.cache, p.client.Ask, p.client.Recheck, cfg.Interval, c.log)
	return p, nil
}

// remoteSink passes the tables that the publisher of a client publishes to the controller.
type remoteSink struct {
	c *controller
	p *remoteProducer
}

// Restore keeps the last-known-good table: the controller decides whether to serve it.
func (s remoteSink) Restore(t *table.Table, read time.Time) {
	r := decided(table.Read{Newest: t.Revision(), At: read})
	s.c.call(func() {
		s.p.lastKnownGood = publish.Offer{Table: t, Read: r}
		s.c.proof.restored(t, read)
	})
}

func (s remoteSink) Begin() func(*table.Table, table.Read) {
	return func(t *table.Table, r table.Read) {
		if t != nil { // a nil table means that a suspicious table is held back, and the age of the served one does not change
			s.c.remoteAnswered(s.p, t, r)
		}
	}
}

func (s remoteSink) Publish(t *table.Table) {
	s.c.remoteAnswered(s.p, t, s.p.client.Publisher().Served().Read)
}

// remoteAnswered handles an answer of a route server that shows the table the client has committed.
func (c *controller) remoteAnswered(p *remoteProducer, t *table.Table, r table.Read) {
	url := p.client.Publisher().Served().Origin
	r = decided(r)
	c.call(func() {
		p.answered = time.Now()
		p.shown = p.answered
		p.offer, p.url = publish.Offer{Table: t, Read: r}, url
		if c.active == &p.producer {
			c.show(c.cache.Begin(), p.offer, url)
		} else {
			c.switchTo(&p.producer)
		}
		c.compare()
	})
}

// decided converts an answer of a route server for the cache: the client has ordered its tables, so one that the proxy names is
// newer only if its revision is higher. Then the proxy may know more than a restarted client, and the server is asked about the
// table.
func decided(r table.Read) table.Read {
	r.Oldest, r.Consistent, r.Stale = r.Newest, false, false
	return r
}

func (c *controller) runRemote(ctx context.Context, p *remoteProducer) {
	var background sync.WaitGroup
	defer background.Wait()
	p.client.Boot()
	background.Go(func() { p.claims.Run(ctx) })
	if err := p.client.Run(ctx); err != nil {
		c.log.Error("data-plane client ended", "error", err)
	}
}

// betweenAnswers does what each answer to a poll does, if none has come for longer than the interval of polls with its jitter: a
// stream sends fewer answers, only when the table changes.
func (c *controller) betweenAnswers(now time.Time) {
	p := c.remote
	if p == nil || p.failing || p.offer.Table == nil || now.Sub(p.shown) < c.cfg.Fetch.Interval*6/5 {
		return
	}
	p.shown = now
	c.compare()
	if c.target == fromRouteServer && c.active != &p.producer {
		p.client.Recheck() // a switch waits for an answer that came after the request to switch
	}
}
