package compile

import (
	"strconv"
	"strings"
)

// Ids of routes that no object asked for.
const (
	idHealthzUp     = "kube__healthz_up"
	idHealthzDown   = "kube__healthz_down"
	idRedirect      = "kube__redirect"
	idOAuthCallback = "__oauth2_grant_callback"
)

// Suffixes of companions.
const (
	suffixRedirect        = "_https_redirect"
	suffixDisableRedirect = "_disable_https_redirect"
)

func isSymbolByte(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' || c == '_'
}

// escapeRunes is the escape rule of Ingress ids: every character that a symbol cannot have becomes one "_".
func escapeRunes(s string) string {
	if isSymbol(s) {
		return s
	}
	return strings.Map(func(r rune) rune {
		if r < 0x80 && isSymbolByte(byte(r)) {
			return r
		}
		return '_'
	}, s)
}

// escapeBytes is the escape rule of RouteGroup ids: every byte that a symbol cannot have becomes one "_".
func escapeBytes(s string) string {
	if isSymbol(s) {
		return s
	}
	b := []byte(s)
	for i, c := range b {
		if !isSymbolByte(c) {
			b[i] = '_'
		}
	}
	return string(b)
}

func isSymbol(s string) bool {
	for i := range len(s) {
		if !isSymbolByte(s[i]) {
			return false
		}
	}
	return true
}

func ingressID(ns, name, host, path, backend string) string {
	return "kube_" + escapeRunes(ns) + "__" + escapeRunes(name) + "__" + escapeRunes(host) + "__" + escapeRunes(path) +
		"__" + escapeRunes(backend)
}

// customID is the id of the index-th custom route under a host and path.
func customID(ns, name, routeID string, index int, host, path string) string {
	return ingressID(ns, name+"_"+routeID+"_"+strconv.Itoa(index), host+strings.ReplaceAll(path, "/", "_"), "", "")
}

func catchAllID(host string) string { return ingressID("", "catchall", host, "", "") }

// eastWestID turns the id of a route into that of its deprecated east-west companion.
func eastWestID(id string) string { return "kubeew" + strings.TrimPrefix(id, "kube") }

// routeGroupID is the id of the route for route index i and backend index j.
func routeGroupID(ns, name, method string, i, j int, internal bool) string {
	ns = escapeBytes(ns)
	if internal {
		ns = "internal_" + ns
	}
	return "kube_rg__" + ns + "__" + escapeBytes(name) + "__" + escapeBytes(method) + "__" + strconv.Itoa(i) + "_" +
		strconv.Itoa(j)
}

func routeGroupCatchAllID(host string, internal bool) string {
	if internal {
		return "kube_rg__internal___" + escapeBytes(host) + "__catchall__0_0"
	}
	return "kube_rg____" + escapeBytes(host) + "__catchall__0_0"
}
