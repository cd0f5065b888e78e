package httpserve

import (
	"time"

	"github.com/routesrv/routesrv/guard"
)

// GuardReport is what a status says about a guard.
type GuardReport struct {
	Held   bool       `json:"held"`
	Reason guard.Code `json:"reason,omitempty"`
	Detail string     `json:"detail,omitempty"`
	// Half is what the hold keeps: intent, backends, both, or table. Empty where tables are all that is known.
	Half guard.Half `json:"half,omitempty"`
	// Digest is of the table that an acceptance publishes. It changes with the endpoints; FirstDigest does not, and is
	// accepted as well.
	Digest      string         `json:"digest,omitempty"`
	FirstDigest string         `json:"first_digest,omitempty"`
	Revision    uint64         `json:"revision,omitempty"`
	Routes      int            `json:"routes,omitempty"`
	Since       time.Time      `json:"since,omitzero"`
	ReleaseAt   time.Time      `json:"release_at,omitzero"` // zero: not by time
	Last        *ReleaseReport `json:"last_release,omitempty"`
}

// ReleaseReport is how the last held table came to be served.
type ReleaseReport struct {
	Digest   string     `json:"digest"`
	Reason   guard.Code `json:"reason"`
	At       time.Time  `json:"at"`
	Accepted bool       `json:"accepted"`
	By       string     `json:"by,omitempty"`  // who accepted it, as the operator says
	Why      string     `json:"why,omitempty"` // likewise
}

// ReportGuard gives the state of a guard for a status.
func ReportGuard(g guard.State) GuardReport {
	r := GuardReport{Held: g.Held}
	if g.Held {
		r.Reason, r.Detail = g.Verdict.Reason, g.Verdict.Detail
		r.Digest, r.Revision, r.Routes = g.Digest.String(), g.Revision, g.Routes
		if r.Half = g.Half; !g.FirstDigest.IsZero() {
			r.FirstDigest = g.FirstDigest.String()
		}
		r.Since, r.ReleaseAt = g.Verdict.Since, g.Verdict.ReleaseAt
	}
	if l := g.Last; l != nil {
		r.Last = &ReleaseReport{l.Digest.String(), l.Reason, l.At, l.Accepted, l.By, l.Why}
	}
	return r
}
