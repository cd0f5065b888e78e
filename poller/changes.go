package poller

import (
	"context"
	"fmt"
	"log/slog"
	"strings"

	"github.com/routesrv/routesrv/table"
)

// LevelTrace is below debug: changed routes are logged with their text.
const LevelTrace = slog.LevelDebug - 4

// logChanges logs each route that came, went or changed between two tables, at debug level.
func logChanges(log *slog.Logger, before, after *table.Table) {
	var old []table.Route
	if before != nil {
		old = before.Routes()
	}
	inserted, updated, deleted := diff(old, after.Routes())
	logOp(log, "Inserted", inserted)
	logOp(log, "Updated", updated)
	logOp(log, "Deleted", deleted)
}

func logOp(log *slog.Logger, verb string, routes []table.Route) {
	op := strings.ToLower(verb)
	for i, r := range routes {
		attrs := []any{"op", op, "id", r.ID}
		if log.Enabled(context.Background(), LevelTrace) {
			attrs = append(attrs, "route", r.Text)
		}
		log.Debug(fmt.Sprintf("%s route %d of %d", verb, i+1, len(routes)), attrs...)
	}
}

// diff walks two lists that are sorted by id.
func diff(old, now []table.Route) (inserted, updated, deleted []table.Route) {
	i, j := 0, 0
	for i < len(old) || j < len(now) {
		switch {
		case j == len(now) || i < len(old) && old[i].ID < now[j].ID:
			deleted = append(deleted, old[i])
			i++
		case i == len(old) || now[j].ID < old[i].ID:
			inserted = append(inserted, now[j])
			j++
		default:
			if old[i].Text != now[j].Text {
				updated = append(updated, now[j])
			}
			i++
			j++
		}
	}
	return inserted, updated, deleted
}
