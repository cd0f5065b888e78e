package httpserve

import (
	"time"

	"github.com/routesrv/routesrv/guard"
	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/publish"
)

// GuardReport is what a guard holds, in /status: a table, or kept objects.
type GuardReport struct {
	Held   bool       `json:"held"`
	Reason guard.Code `json:"reason,omitempty"`
	Detail string     `json:"detail,omitempty"`
	// Digest names what an acceptance releases: the held table, or the list of kept objects.
	Digest string `json:"digest,omitempty"`
	// Revision and Routes are those of the held table, or of the newest one while objects are kept.
	Revision  uint64         `json:"revision,omitempty"`
	Routes    int            `json:"routes,omitempty"`
	Since     time.Time      `json:"since,omitzero"`
	ReleaseAt time.Time      `json:"release_at,omitzero"` // zero: not released by time
	KeptCount int            `json:"kept_count,omitempty"`
	Kept      []KeptReport   `json:"kept,omitempty"` // the newest first, at most maxKeptShown
	Last      *ReleaseReport `json:"last_release,omitempty"`
}

// KeptReport is an object that is served at an earlier version than the newest.
type KeptReport struct {
	kube.Ref
	Reason guard.Code `json:"reason"`
	Detail string     `json:"detail"`
	By     string     `json:"by"`
	Since  time.Time  `json:"since"`
	Until  time.Time  `json:"until,omitzero"` // zero: not released by time
	Served string     `json:"served"`         // which version, in words
	Waits  string     `json:"waits"`          // what is not served yet, in words
}

// maxKeptShown is how many kept objects /status lists.
const maxKeptShown = 1000

// ReleaseReport says how the last held table, or the last kept objects, were released.
type ReleaseReport struct {
	Digest   string     `json:"digest"`
	Reason   guard.Code `json:"reason"`
	At       time.Time  `json:"at"`
	Accepted bool       `json:"accepted"`
	By       string     `json:"by,omitempty"`  // who accepted it, according to the operator
	Why      string     `json:"why,omitempty"` // the reason, according to the operator
}

// ReportGuard converts what a publisher holds for /status.
func ReportGuard(g publish.State, kept []*publish.Kept) GuardReport {
	r := GuardReport{Held: g.Held}
	if g.Held {
		r.Reason, r.Detail = g.Reason, g.Detail
		r.Digest, r.Revision, r.Routes = g.Digest.String(), g.Revision, g.Routes
		r.Since, r.ReleaseAt = g.Since, g.ReleaseAt
		r.KeptCount = len(kept)
		for _, k := range kept[:min(len(kept), maxKeptShown)] {
			r.Kept = append(r.Kept, KeptReport{k.Ref, k.Reason, k.Detail, k.By, k.Since, k.Until, k.Served(), k.Waits()})
		}
	}
	if l := g.Last; l != nil {
		r.Last = &ReleaseReport{l.Digest.String(), l.Reason, l.Time, l.What == publish.DecidedAccepted, l.By, l.Why}
	}
	return r
}
