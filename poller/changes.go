package poller

import (
	"context"
	"fmt"
	"log/slog"
	"strings"

	"github.com/routesrv/routesrv/table"
)

// LevelTrace is the level below debug, at which changed routes are logged with their text.
const LevelTrace = slog.LevelDebug - 4

// logChanges logs each route that was added, removed or changed between two tables, at debug level.
func logChanges(log *slog.Logger, before, after *table.Table) {
	var old table.List
	if before != nil {
		old = before.Routes()
	}
	var inserted, updated, deleted []*table.Route
	for was, is := range table.Changes(old, after.Routes()) {
		switch {
		case was == nil:
			inserted = append(inserted, is)
		case is == nil:
			deleted = append(deleted, was)
		default:
			updated = append(updated, is)
		}
	}
	logOp(log, "Inserted", inserted)
	logOp(log, "Updated", updated)
	logOp(log, "Deleted", deleted)
}

func logOp(log *slog.Logger, verb string, routes []*table.Route) {
	op := strings.ToLower(verb)
	for i, r := range routes {
		attrs := []any{"op", op, "id", r.ID}
		if log.Enabled(context.Background(), LevelTrace) {
			attrs = append(attrs, "route", r.Text)
		}
		log.Debug(fmt.Sprintf("%s route %d of %d", verb, i+1, len(routes)), attrs...)
	}
}
