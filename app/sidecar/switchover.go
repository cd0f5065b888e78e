package sidecar

import (
	"errors"
	"log/slog"

	"github.com/routesrv/routesrv/internal/durable"
	"github.com/routesrv/routesrv/publish"
	"github.com/routesrv/routesrv/rollout"
	"github.com/routesrv/routesrv/table"
)

func (c *controller) origin() origin {
	if from := c.served.From(); from != "" {
		return origin(from)
	}
	return fromNobody
}

// running returns the running producer with an origin, or nil.
func (c *controller) running(from origin) *producer {
	switch {
	case from == fromSelf && c.self != nil:
		return &c.self.producer
	case from == fromRouteServer && c.remote != nil:
		return &c.remote.producer
	}
	return nil
}

// switchTo serves the producer from now on, if it is the target and nothing speaks against its offer.
func (c *controller) switchTo(p *producer) {
	if p.origin != c.target || p.offer.Table == nil || c.running(p.origin) != p {
		return
	}
	before := c.origin()
	if o := c.proof.choose(p.offer); c.served.Take(string(p.origin), o) {
		c.proof.serving(o, string(p.origin))
		c.switched(p, before)
	}
}

func (c *controller) switched(p *producer, before origin) {
	c.active = p
	if t := c.served.Table(); before != p.origin {
		c.log.Info(LogServing, "origin", string(p.origin), "before", string(before), "hash", t.Digest().String(),
			"routes", t.Len(), "revision", t.Revision())
	}
}

func (c *controller) acceptSwitchover(a publish.Acceptance) (t *table.Table, err error) {
	err = publish.ErrNothingHeld
	c.call(func() {
		if p := c.running(c.target); p != nil {
			before := c.origin()
			if t, err = c.served.Accept(a, string(p.origin), p.offer.Read); err == nil {
				c.switched(p, before)
			}
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

// maxModeFile limits the size of the file, which may name nodes.
const maxModeFile = 64 << 10

// modeFile is a file with a mode, owned by the controller. It is read each time: a mounted ConfigMap changes by a symbolic link
// two folders up, which does not reliably change the file's time or size.
type modeFile struct {
	path string
	log  *slog.Logger

	last    string // what was last read, or the error
	problem string // why last is not a valid mode; empty if it is one
}

// read returns the mode in the file. ok is false if the file has no valid mode or has not changed. It logs each problem once.
func (f *modeFile) read() (set rollout.Setting, ok bool) {
	data, err := durable.ReadFile(f.path, maxModeFile)
	text := string(data)
	if err != nil {
		text = err.Error()
	}
	if text == f.last {
		return rollout.Setting{}, false
	}
	if f.last = text; err == nil {
		set, err = rollout.ParseSetting(text)
	}
	if f.problem = ""; err != nil {
		f.problem = err.Error()
		f.log.Error("mode file is not usable, the mode does not change (--mode-file)", "path", f.path, "error", err)
	}
	return set, err == nil
}
