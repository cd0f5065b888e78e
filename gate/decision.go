package gate

import (
	"time"

	"github.com/routesrv/routesrv/guard"
	"github.com/routesrv/routesrv/internal/audit"
	"github.com/routesrv/routesrv/table"
)

// Decision is a step of a Gate concerning a suspicious table.
type Decision struct {
	Time   time.Time
	What   string // one of DecidedHeld, DecidedReleased and DecidedAccepted
	Digest table.Digest
	Reason guard.Code // why the table was held
	// By and Why are the words of the operator who accepted the table.
	By, Why string
}

// The decisions of a Gate. A hold that ends because the source shows a table that is fine is not a decision.
const (
	DecidedHeld     = "held"     // the table is held back
	DecidedReleased = "released" // it was published because every read agreed for the time of the hold
	DecidedAccepted = "accepted" // it was published because an operator accepted it
)

// RecordIn returns a function for Config.Decided that records decisions in a log.
func RecordIn(l *audit.Log) func(Decision) {
	return func(d Decision) {
		l.Append(audit.Entry{
			Time: d.Time, What: audit.What(d.What), Digest: d.Digest, Reason: string(d.Reason), By: d.By, Why: d.Why,
		})
	}
}

// decided reports a decision.
func (g *Gate) decided(what string, t *table.Table, reason guard.Code, a guard.Acceptance) {
	decide(g.cfg.Decided, what, t, reason, a)
}

func decide(tell func(Decision), what string, t *table.Table, reason guard.Code, a guard.Acceptance) {
	if tell != nil {
		tell(Decision{time.Now().UTC(), what, t.Digest(), reason, a.By, a.Why})
	}
}
