package sidecar

import (
	"errors"

	"github.com/routesrv/routesrv/publish"
	"github.com/routesrv/routesrv/table"
)

// origin returns where the served table comes from.
func (c *controller) origin() origin {
	if from := c.served.From(); from != "" {
		return origin(from)
	}
	return fromNobody
}

// switchTo serves the producer from now on, if it is the target and nothing speaks against its offer. It is called for each read
// that shows the offer.
func (c *controller) switchTo(p producer, from origin, o publish.Offer) {
	if from != c.target || o.Table == nil || !c.current(p) {
		return
	}
	before := c.origin()
	if c.served.Take(string(from), c.proof.choose(o)) {
		c.proof.serving(o, string(from))
		c.switched(p, from, before)
	}
}

// switched records that the producer is now served.
func (c *controller) switched(p producer, from, before origin) {
	c.active = p
	c.metrics.switches.WithLabelValues(string(from)).Inc()
	if t := c.served.Table(); before != from {
		c.log.Info(LogServing, "origin", string(from), "before", string(before), "hash", t.Digest().String(),
			"routes", t.Len(), "revision", t.Revision())
	}
}

// current reports whether the producer is one of the running ones.
func (c *controller) current(p producer) bool {
	return c.self != nil && p == producer(c.self) || c.remote != nil && p == producer(c.remote)
}

// acceptSwitchover accepts a switch that the guard holds.
func (c *controller) acceptSwitchover(a publish.Acceptance) (t *table.Table, err error) {
	err = publish.ErrNothingHeld
	c.call(func() {
		var p producer
		var read table.Read
		switch {
		case c.target == fromSelf && c.self != nil:
			p, read = c.self, c.self.offer.Read
		case c.target == fromRouteServer && c.remote != nil:
			p, read = c.remote, c.remote.offer.Read
		default:
			return
		}
		before := c.origin()
		if t, err = c.served.Accept(a, string(c.target), read); err == nil {
			c.switched(p, c.target, before)
		}
	})
	return t, err
}

// accept publishes a table that one of the guards holds: first a held switch, then a table of the producer that is served or will
// be, then one of the other producer. run must not call it.
func (c *controller) accept(a publish.Acceptance) (*table.Table, error) {
	acceptors := []func(publish.Acceptance) (*table.Table, error){c.acceptSwitchover}
	if p := c.selfNow.Load(); p != nil {
		acceptors = append(acceptors, p.poller.Accept)
	}
	if p := c.remoteNow.Load(); p != nil {
		acceptors = append(acceptors, p.client.Accept)
	}
	result := error(publish.ErrNothingHeld)
	for _, accept := range acceptors {
		t, err := accept(a)
		if err == nil {
			return t, nil
		}
		if !errors.Is(err, publish.ErrNothingHeld) {
			result = err // this error is more specific
		}
	}
	return nil, result
}
