package sidecar

import (
	"errors"
	"fmt"
	"time"

	"github.com/routesrv/routesrv/guard"
	"github.com/routesrv/routesrv/table"
)

// lagPolls is for how many polls a table of a lower revision than the served one is waited with.
const lagPolls = 3

// switchover is a switch from one producer to another that is under way.
type switchover struct {
	since   time.Time
	guard   *guard.Guard
	waiting string // why it was not made at the last read; empty before the first
}

// lagTime is how long a table of a lower revision is waited with.
func (c *conductor) lagTime() time.Duration {
	return lagPolls * max(c.cfg.Interval, c.cfg.Fetch.Interval)
}

// switchTo serves the producer from now on, if it is the one to be served and nothing is against its offer. It is called for
// each read that shows the offer, so that the guard sees every one of them.
func (c *conductor) switchTo(p producer, from origin, o offer) {
	if from != c.target || o.table == nil || !c.current(p) {
		return
	}
	now := time.Now()
	if c.switchover == nil {
		g, err := guard.New(c.cfg.Guard)
		if err != nil {
			c.log.Error("make guard", "error", err) // the same configuration was fine for New
			return
		}
		c.switchover = &switchover{since: now, guard: g}
	}
	if was := c.served.table; was != nil && was.Digest() != o.table.Digest() {
		if o.table.Revision() < was.Revision() && now.Sub(c.switchover.since) < c.lagTime() {
			c.switchover.waiting = fmt.Sprintf("the table of revision %d may only be behind the served one of %d",
				o.table.Revision(), was.Revision())
			return
		}
		verdict := c.switchover.guard.Judge(was, o.table, now)
		if !verdict.Publish {
			reason := "held back by the guard: " + verdict.Detail
			if c.switchover.waiting != reason {
				c.log.Error(LogSwitchHeld, "reason", string(verdict.Reason), "detail", verdict.Detail,
					"release_at", verdict.ReleaseAt, "hash", o.table.Digest().String())
			}
			c.switchover.waiting = reason
			return
		}
	}
	c.feed(p, from, o)
}

// current says whether the producer is one of those that are running.
func (c *conductor) current(p producer) bool {
	return c.self != nil && p == producer(c.self) || c.remote != nil && p == producer(c.remote)
}

// feed serves the producer.
func (c *conductor) feed(p producer, from origin, o offer) {
	before := c.served.origin
	c.feeder, c.switchover = p, nil
	c.served.take(from, o)
	c.metrics.switches.WithLabelValues(string(from)).Inc()
	if before != from {
		c.log.Info(LogServing, "origin", string(from), "before", string(before), "hash", o.table.Digest().String(),
			"routes", o.table.Len(), "revision", o.table.Revision())
	}
}

// acceptSwitchover makes a switch that the guard holds up.
func (c *conductor) acceptSwitchover(d table.Digest) (t *table.Table, err error) {
	err = guard.ErrNothingHeld
	c.call(func() {
		if c.switchover == nil {
			return
		}
		if t, err = c.switchover.guard.Accept(guard.Acceptance{Digest: d}, time.Now()); err != nil {
			return
		}
		if c.target == fromSelf && c.self != nil {
			c.feed(c.self, fromSelf, offer{t, c.self.offer.read})
		} else if c.target == fromRouteServer && c.remote != nil {
			c.feed(c.remote, fromRouteServer, offer{t, c.remote.offer.read})
		}
	})
	return t, err
}

// accept serves a table that one of the guards holds back: that of a switch, else that of the producer that is served or
// is to be, else that of the other. It must not be called by run.
func (c *conductor) accept(d table.Digest) (*table.Table, error) {
	acceptors := []func(table.Digest) (*table.Table, error){c.acceptSwitchover}
	if p := c.selfNow.Load(); p != nil {
		acceptors = append(acceptors, p.engine.Accept)
	}
	if p := c.remoteNow.Load(); p != nil {
		acceptors = append(acceptors, p.client.Accept)
	}
	result := error(guard.ErrNothingHeld)
	for _, accept := range acceptors {
		t, err := accept(d)
		if err == nil {
			return t, nil
		}
		if !errors.Is(err, guard.ErrNothingHeld) {
			result = err // it says more
		}
	}
	return nil, result
}
