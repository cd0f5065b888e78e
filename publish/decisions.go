package publish

import (
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/routesrv/routesrv/api"
	"github.com/routesrv/routesrv/table"
)

// decisionOf returns a decision about entries of a list and a table.
func decisionOf(what string, t *table.Table, list keptList) api.Decision {
	return api.Decision{Time: time.Now().UTC().Truncate(time.Millisecond), What: what, Digest: t.Digest(), Objects: list.objects().names(), Reason: list[0].Reason}
}

// ShownDecisions is how many decisions /status shows.
const ShownDecisions = 20

// Decisions remembers the last decisions for /status; the log and the history have all of them. The zero value is ready for
// use. All methods are safe for concurrent use.
type Decisions struct {
	mu   sync.Mutex
	list []api.Decision // newest first
}

// Append records a decision.
func (d *Decisions) Append(e api.Decision) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.list = slices.Insert(d.list, 0, e)
	d.list = d.list[:min(len(d.list), ShownDecisions)]
}

// Last returns the last decisions, newest first.
func (d *Decisions) Last() []api.Decision {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.list)
}

// releaseAt is the time of the next expiry, for the log.
func releaseAt(at time.Time) slog.Value {
	if at.IsZero() {
		return slog.StringValue("never")
	}
	return slog.TimeValue(at)
}
