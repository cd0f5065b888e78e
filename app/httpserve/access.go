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

// InPod returns a handler for the pages of a support listener that shares its network with a proxy. It answers 403 to requests
// from an address of this machine, and with socketOnly to all requests over TCP, and names the command that reads the page in the
// pod. A tenant controls destination, headers and host of a proxied request, but not its source address, which is one of this
// machine.
func InPod(socketOnly bool, command string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var why string
		_, inPod := PeerOf(r.Context())
		switch {
		case inPod:
		case socketOnly:
			why = "not over the network (--support-loopback-only)"
		case ownAddress(r.RemoteAddr):
			why = "not for requests from an address of this pod, since its proxy forwards those of others"
		}
		if why != "" {
			WriteJSON(w, http.StatusForbidden, api.Error{Error: why + ": run in the pod, with kubectl exec: " + command + " " + r.URL.Path})
			return
		}
		next.ServeHTTP(w, r)
	})
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

// NamedRight reports whether the Host header fits a client on this machine: a page on the internet whose name resolves to
// loopback (DNS rebinding) sends requests with that name. For other clients any name is accepted, since a server does not know
// its own names.
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
