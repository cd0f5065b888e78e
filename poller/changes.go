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
	changed := make(map[string][]*table.Route)
	for was, is := range table.Changes(old, after.Routes()) {
		verb, route := "Updated", is
		if was == nil {
			verb = "Inserted"
		} else if is == nil {
			verb, route = "Deleted", was
		}
		changed[verb] = append(changed[verb], route)
	}
	for _, verb := range []string{"Inserted", "Updated", "Deleted"} {
		for i, r := range changed[verb] {
			attrs := []any{"op", strings.ToLower(verb), "id", r.ID}
			if log.Enabled(context.Background(), LevelTrace) {
				attrs = append(attrs, "route", r.Text)
			}
			log.Debug(fmt.Sprintf("%s route %d of %d", verb, i+1, len(changed[verb])), attrs...)
		}
	}
}
