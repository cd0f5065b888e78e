package config

import (
	"fmt"
	"math"
	"time"

	"github.com/routesrv/routesrv/guard"
)

const (
	day  = 24 * time.Hour
	tick = time.Millisecond // the shortest time that a setting accepts
)

// Guard adds --guard, which defines which tables are suspicious. hold is the default of its setting hold: objects are kept longer than
// tables, because nobody else waits.
func (p *Parser) Guard(c *guard.Config, hold time.Duration) {
	c.MaxLoss, c.MaxBackendLoss = guard.DefaultMaxLoss, guard.DefaultMaxBackendLoss
	p.guardSet = make(map[string]bool)
	settings := []Setting{
		{"max-loss", Parsed("share", &c.MaxLoss, "0.5", share), "share of the served pairs of host and path, or hosts, that a new table may lose, also as 50%. " +
			"If it loses more, or nine tenths of 20 or more Ingresses or RouteGroups, the lost objects are kept as they are served; 1 turns these rules off."},
		{"max-backend-loss", Parsed("share", &c.MaxBackendLoss, "0.5", share), "share of the pairs with endpoints that may lose all of them. If more do, and at " +
			"least 20, their services keep their last endpoints; 1 turns the rule off."},
		{"window", Duration(&c.Window, guard.DefaultWindow, tick, day), "how long what was lost counts for these shares, so that many small losses count as one."},
		{"hold", Duration(&c.Hold, hold, tick, day), "how long lost objects are kept, or a whole table where only tables are known, and how long after something " +
			"last came back. After a table that was empty, or had only generated routes where there were others, time releases nothing before nearly all is back."},
		{"release", Parsed("auto|manual", &c.Manual, "auto", parseRelease), "what releases them, auto (time, or somebody accepts the loss) or manual (only an " +
			"acceptance); what comes back is released in both cases."},
		{"namespaces", Bool(&c.Namespaces, false), "keep the objects of a namespace that lost all its routes, at least 20, while all others together lost at most 5 %."},
		{"max-routes", Number(&c.MaxRoutes, 0, 0, math.MaxInt32), "do not serve objects that make the table grow past this; 0 means no limit."},
		{"max-bytes", Size(&c.MaxBytes, "0"), "the same in bytes, such as 512MiB."},
	}
	p.Group(GroupGuard).Own("guard", Settings(nil, p.guardSet, settings...), Describe("What counts as an accident, and what then happens.", settings...))
}

// parseRelease parses the setting release of --guard.
func parseRelease(s string) (manual bool, err error) {
	switch s {
	case "auto":
		return false, nil
	case "manual":
		return true, nil
	}
	return false, fmt.Errorf("%s: want auto or manual", clip(s))
}
