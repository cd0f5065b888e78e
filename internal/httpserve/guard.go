package httpserve

import (
	"time"

	"github.com/routesrv/routesrv/guard"
)

// GuardReport is the state of a guard in /status.
type GuardReport struct {
	Held   bool       `json:"held"`
	Reason guard.Code `json:"reason,omitempty"`
	Detail string     `json:"detail,omitempty"`
	// Half is what the hold keeps: intent, backends, both, or table. It is empty where only tables are known.
	Half guard.Half `json:"half,omitempty"`
	// Digest names the table that an acceptance publishes. It changes with the endpoints; FirstDigest does not, and is accepted
	// as well.
	Digest      string         `json:"digest,omitempty"`
	FirstDigest string         `json:"first_digest,omitempty"`
	Revision    uint64         `json:"revision,omitempty"`
	Routes      int            `json:"routes,omitempty"`
	Since       time.Time      `json:"since,omitzero"`
	ReleaseAt   time.Time      `json:"release_at,omitzero"` // zero: not released by time
	Last        *ReleaseReport `json:"last_release,omitempty"`
}

// ReleaseReport says how the last held table was released.
type ReleaseReport struct {
	Digest   string     `json:"digest"`
	Reason   guard.Code `json:"reason"`
	At       time.Time  `json:"at"`
	Accepted bool       `json:"accepted"`
	By       string     `json:"by,omitempty"`  // who accepted it, according to the operator
	Why      string     `json:"why,omitempty"` // the reason, according to the operator
}

// ReportGuard converts the state of a guard for /status.
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
