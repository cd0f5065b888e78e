package httpserve

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/routesrv/routesrv/api"
)

// Access controls access to the pages of a support listener that shares its network with a proxy. Requests over the control
// socket are always admitted, all others if they meet one of the conditions in the fields.
//
// A tenant controls the destination of a proxied request, its headers and its host, but not its source address: a connection from
// the proxy to this machine comes from an address of this machine. So without a certificate, such requests are refused.
type Access struct {
	// Certificate admits only clients with a certificate that the handshake has verified.
	Certificate bool
	// SocketOnly refuses all requests over TCP, except from clients with a verified certificate if Certificate is set.
	SocketOnly bool
	// Command reads a page in the pod, such as "dataplane-client get". Answers to refused requests suggest it.
	Command string
}

// Wrap returns a handler that answers 403 to requests that are not admitted, with what to do instead.
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

// SecurePage sets the security headers of an answer to a browser, with the policy of its content.
func SecurePage(h http.Header, policy string) {
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
}

// NamedRight reports whether the Host header fits the client. A page on the internet whose name resolves to the operator's
// loopback address (DNS rebinding) sends requests with that name. An IP address cannot be redirected in this way. For clients at
// other addresses any name is accepted, since a server does not know its own names.
func NamedRight(r *http.Request) bool {
	peer, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil || !net.ParseIP(peer).IsLoopback() {
		return true
	}
	host, _, err := net.SplitHostPort(r.Host)
	if err != nil {
		host = r.Host // no port
	}
	return net.ParseIP(strings.Trim(host, "[]")) != nil || strings.EqualFold(host, "localhost")
}

// Turns limits how many requests perform an operation at the same time.
type Turns chan struct{}

// NewTurns returns a limit of n.
func NewTurns(n int) Turns { return make(Turns, n) }

// Wait waits for a turn until ctx ends, and at most the given time; 0 means no limit. If ok is true, the caller must call done.
func (t Turns) Wait(ctx context.Context, most time.Duration) (done func(), ok bool) {
	if most > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, most)
		defer cancel()
	}
	select {
	case t <- struct{}{}:
		return func() { <-t }, true
	case <-ctx.Done():
		return nil, false
	}
}
