package httpserve

import "net/http"

// Admission decides which clients a handler of a support listener answers. The zero value admits all clients; otherwise one of the
// set conditions is enough.
type Admission struct {
	// Loopback admits requests through the loopback interface under a loopback name (see [FromLoopback]): operators who use kubectl
	// port-forward or exec.
	Loopback bool
	// Certificate admits clients with a certificate that the handshake has verified.
	Certificate bool
}

// Wrap returns a handler that answers 403 to requests that are not admitted, and names the missing condition.
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
