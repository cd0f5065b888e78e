package httpserve

import (
	"net"
	"net/http"
	"net/netip"

	"github.com/routesrv/routesrv/internal/api"
)

// Access decides who reads the pages of a support listener that shares its network with a proxy. Requests over the control socket
// are always answered, and all others according to the fields; one condition is enough.
//
// A tenant decides where the proxy sends a request, with which headers and under which host. It does not decide from which address:
// a connection to this machine comes from one of this machine's own. So without a certificate, such requests are refused.
type Access struct {
	// Certificate admits only clients with a certificate that the handshake has verified.
	Certificate bool
	// SocketOnly admits nobody over TCP, but for clients with a verified certificate if Certificate is set.
	SocketOnly bool
	// Command reads a page in the pod, such as "dataplane-client get", for the answer to requests that are refused.
	Command string
}

// Wrap returns a handler that answers 403 to requests that are not admitted, and says what to do instead.
func (a Access) Wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if why := a.refuses(r); why != "" {
			WriteJSON(w, http.StatusForbidden, api.Error{Error: why + ": run in the pod, with kubectl exec: " + a.Command + " " + r.URL.Path})
			return
		}
		next.ServeHTTP(w, r)
	})
}

// refuses returns why a request is not answered, or "".
func (a Access) refuses(r *http.Request) string {
	if _, ok := PeerOf(r.Context()); ok || a.Certificate && r.TLS != nil && len(r.TLS.VerifiedChains) > 0 {
		return ""
	}
	switch {
	case a.Certificate:
		return "only with a client certificate (--support-tls client-ca)"
	case a.SocketOnly:
		return "not over the network (--support-loopback-only)"
	case ownAddress(r.RemoteAddr):
		return "not for requests from an address of this pod, since its proxy forwards those of others"
	}
	return ""
}

// ownAddress reports whether a peer connected from this machine, or could have.
func ownAddress(remote string) bool {
	peer, err := netip.ParseAddrPort(remote)
	if err != nil {
		return true
	}
	address := peer.Addr().Unmap().WithZone("")
	if address.IsLoopback() || address.IsUnspecified() {
		return true
	}
	own, err := net.InterfaceAddrs()
	if err != nil {
		return true
	}
	for _, o := range own {
		if p, err := netip.ParsePrefix(o.String()); err == nil && p.Addr().Unmap() == address {
			return true
		}
	}
	return false
}
