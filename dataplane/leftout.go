package dataplane

import (
	"log/slog"

	"github.com/routesrv/routesrv/internal/catalogue"
	"github.com/routesrv/routesrv/table"
)

// LogPartsLeftOut is the log message about parts of a server's text that are no routes: Skipper's route server prints some texts that
// no reader can parse. The other routes are used.
const LogPartsLeftOut = "parts of the table are no routes and were left out"

// LogKillersLeftOut is the log message about routes that no proxy would survive.
const LogKillersLeftOut = "routes were left out that no proxy would survive"

// leftOut is what was left out of the latest table.
type leftOut struct {
	of    table.Digest // the table without them
	count int
}

// noteLeftOut reports what was left out of the table of an answer, with the killers among its routes, and returns how many routes of
// the server that were.
func (c *Client) noteLeftOut(a *answer, t *table.Table, killers []catalogue.Killer) int {
	parts, first := 0, []table.LeftOut(nil)
	if a.decoder != nil {
		parts, first = a.decoder.LeftOut()
	}
	left := leftOut{count: parts + len(killers)}
	if left.count > 0 {
		left.of = t.Digest()
	}
	if parts > 0 {
		c.dedup.Log(slog.LevelError, LogPartsLeftOut, a.origin+" "+first[0].ID, "url", a.origin, "count", parts,
			"first", first[0].ID, "error", first[0].Err)
	}
	if len(killers) > 0 {
		c.dedup.Log(slog.LevelError, LogKillersLeftOut, a.origin, "url", a.origin, "count", len(killers), "first", killers[0].ID, "error", killers[0].Err)
	}
	c.cfg.Metrics.leftOut.Set(float64(left.count))
	c.update(func(l *loopState) { l.leftOut = left })
	return left.count
}
