package httpserve

import "net/http"

// Admission says who gets an answer from a handler of a support listener. The zero value admits everybody; otherwise one reason is
// enough.
type Admission struct {
	// Loopback admits requests through the loopback interface under a loopback name, as [FromLoopback] says: operators with kubectl
	// port-forward or exec.
	Loopback bool
	// Certificate admits clients that have shown a certificate, which the handshake has verified.
	Certificate bool
}

// Wrap answers 403 to requests that are not admitted, and names what is missing.
func (a Admission) Wrap(next http.Handler) http.Handler {
	if a == (Admission{}) {
		return next
	}
	missing := "only from the loopback interface: use kubectl port-forward or exec"
	switch {
	case a.Certificate && a.Loopback:
		missing = "only with a client certificate (--support-client-ca), or from the loopback interface: use kubectl port-forward or exec"
	case a.Certificate:
		missing = "only with a client certificate (--support-client-ca)"
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if a.Certificate && r.TLS != nil && len(r.TLS.VerifiedChains) > 0 || a.Loopback && FromLoopback(r) {
			next.ServeHTTP(w, r)
			return
		}
		WriteJSON(w, http.StatusForbidden, errorReport{Error: missing})
	})
}
