package gate

import (
	"time"

	"github.com/routesrv/routesrv/guard"
	"github.com/routesrv/routesrv/internal/audit"
	"github.com/routesrv/routesrv/table"
)

// Decision is one step of a Gate about a table that looks like an accident.
type Decision struct {
	Time   time.Time
	What   string // one of DecidedHeld, DecidedReleased and DecidedAccepted
	Digest table.Digest
	Reason guard.Code // why the table was held
	// By and Why are what an operator said who accepted the table.
	By, Why string
}

// What a Gate decides. A hold that ends because the source shows a table that is fine is no decision.
const (
	DecidedHeld     = "held"     // the table is held back
	DecidedReleased = "released" // it is served, because every read agreed for the time of the hold
	DecidedAccepted = "accepted" // it is served, because an operator says so
)

// RecordIn returns what keeps decisions in a log, for Config.Decided.
func RecordIn(l *audit.Log) func(Decision) {
	return func(d Decision) {
		l.Append(audit.Entry{
			Time: d.Time, What: audit.What(d.What), Digest: d.Digest, Reason: string(d.Reason), By: d.By, Why: d.Why,
		})
	}
}

// decided tells of a decision.
func (g *Gate) decided(what string, t *table.Table, reason guard.Code, a guard.Acceptance) {
	decide(g.cfg.Decided, what, t, reason, a)
}

func decide(tell func(Decision), what string, t *table.Table, reason guard.Code, a guard.Acceptance) {
	if tell != nil {
		tell(Decision{time.Now().UTC(), what, t.Digest(), reason, a.By, a.Why})
	}
}
