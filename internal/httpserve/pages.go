package httpserve

import (
	"net"
	"net/http"
	"strings"
)

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
