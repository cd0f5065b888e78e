package httpserve

import (
	"errors"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/routesrv/routesrv/guard"
	"github.com/routesrv/routesrv/table"
)

// Guard is what a status says about a guard.
type Guard struct {
	Held   bool       `json:"held"`
	Reason guard.Code `json:"reason,omitempty"`
	Detail string     `json:"detail,omitempty"`
	// Half is what the hold keeps: intent, backends, both, or table. Empty where tables are all that is known.
	Half guard.Half `json:"half,omitempty"`
	// Digest is of the table that an acceptance publishes. It changes with the endpoints; FirstDigest does not, and is
	// accepted as well.
	Digest      string        `json:"digest,omitempty"`
	FirstDigest string        `json:"first_digest,omitempty"`
	Revision    uint64        `json:"revision,omitempty"`
	Routes      int           `json:"routes,omitempty"`
	Since       time.Time     `json:"since,omitzero"`
	ReleaseAt   time.Time     `json:"release_at,omitzero"` // zero: not by time
	Last        *GuardRelease `json:"last_release,omitempty"`
}

// GuardRelease is how the last held table came to be served.
type GuardRelease struct {
	Digest   string     `json:"digest"`
	Reason   guard.Code `json:"reason"`
	At       time.Time  `json:"at"`
	Accepted bool       `json:"accepted"`
}

// ReportGuard gives the state of a guard for a status.
func ReportGuard(g guard.State) Guard {
	r := Guard{Held: g.Held}
	if g.Held {
		r.Reason, r.Detail = g.Verdict.Reason, g.Verdict.Detail
		r.Digest, r.Revision, r.Routes = g.Digest.String(), g.Revision, g.Routes
		if r.Half = g.Half; !g.FirstDigest.IsZero() {
			r.FirstDigest = g.FirstDigest.String()
		}
		r.Since, r.ReleaseAt = g.Verdict.Since, g.Verdict.ReleaseAt
	}
	if l := g.Last; l != nil {
		r.Last = &GuardRelease{l.Digest.String(), l.Reason, l.At, l.Accepted}
	}
	return r
}

type errorReport struct {
	Error string `json:"error"`
}

// Accept publishes the table that a guard holds back. Who can reach the loopback of the pod, by kubectl port-forward or
// exec, is an operator; nobody else is. The parameter digest names the table that the operator looked at, so that he
// cannot accept another by accident; without it, accept gets the zero digest, which is whatever is held. The errors of
// accept are those of package guard.
func Accept(accept func(guard.Acceptance) (*table.Table, error), log *slog.Logger) http.Handler {
	return http.NewCrossOriginProtection().Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !FromLoopback(r) {
			WriteJSON(w, http.StatusForbidden, errorReport{"only from the loopback interface: use kubectl port-forward or exec"})
			return
		}
		var digest table.Digest
		if text := r.FormValue("digest"); text != "" {
			var err error
			if digest, err = table.ParseDigest(text); err != nil {
				WriteJSON(w, http.StatusBadRequest, errorReport{"digest: " + err.Error()})
				return
			}
		}
		t, err := accept(guard.Acceptance{Digest: digest})
		switch {
		case errors.Is(err, guard.ErrNothingHeld), errors.Is(err, guard.ErrNotHeld):
			WriteJSON(w, http.StatusConflict, errorReport{err.Error()})
		case err != nil:
			WriteJSON(w, http.StatusInternalServerError, errorReport{err.Error()})
		default:
			log.Warn("held table accepted by an operator", "remote", r.RemoteAddr, "hash", t.Digest().String())
			WriteJSON(w, http.StatusOK, map[string]any{"accepted": t.Digest(), "routes": t.Len()})
		}
	}))
}

// FromLoopback looks at the peer, and at the name under which we were asked: a page in the operator's browser whose name
// was made to resolve to the loopback address is not the operator.
func FromLoopback(r *http.Request) bool {
	peer, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil || !net.ParseIP(peer).IsLoopback() {
		return false
	}
	host, _, err := net.SplitHostPort(r.Host)
	if err != nil {
		host = strings.Trim(r.Host, "[]") // no port
	}
	return strings.EqualFold(host, "localhost") || net.ParseIP(host).IsLoopback()
}
