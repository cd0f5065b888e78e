package routeid

import (
	"strconv"
	"strings"
)

// Ids of routes that do not come from an object.
const (
	HealthzUp     = "kube__healthz_up"
	HealthzDown   = "kube__healthz_down"
	Redirect      = "kube__redirect"
	OAuthCallback = "__oauth2_grant_callback"
)

// Suffixes of the ids of companions: the route that redirects to https, and the route that exempts http where all other requests
// are redirected.
const (
	SuffixRedirect        = "_https_redirect"
	SuffixDisableRedirect = "_disable_https_redirect"
)

// ClonePrefix is the prefix of copies that -clone-route makes of routes; package eskip uses it for Skipper's own tables.
const ClonePrefix = "clone_"

const (
	prefix           = "kube_"
	prefixEastWest   = "kubeew_"
	prefixRouteGroup = "rg__"      // after prefix
	prefixInternal   = "internal_" // after prefixRouteGroup
	catchAllEnd      = "__catchall__0_0"
)

// Ingress returns the id of the route for one host and path of an Ingress. Host, path and backend may be empty.
func Ingress(namespace, name, host, path, backend string) string {
	return prefix + escapeRunes(namespace) + "__" + escapeRunes(name) + "__" + escapeRunes(host) + "__" + escapeRunes(path) +
		"__" + escapeRunes(backend)
}

// Custom returns the id of the index-th custom route of an Ingress under a host and path.
func Custom(namespace, name, routeID string, index int, host, path string) string {
	return Ingress(namespace, name+"_"+routeID+"_"+strconv.Itoa(index), host+strings.ReplaceAll(path, "/", "_"), "", "")
}

// CatchAll returns the id of the route for all other paths of a host of Ingresses.
func CatchAll(host string) string { return Ingress("", "catchall", host, "", "") }

// EastWest converts the id of a route to the id of its deprecated east-west companion.
func EastWest(id string) string { return prefixEastWest + strings.TrimPrefix(id, prefix) }

// RouteGroup returns the id for one route and one backend of a RouteGroup, by their indexes. internal selects the copy for
// internal hosts.
func RouteGroup(namespace, name, method string, route, backend int, internal bool) string {
	namespace = escapeBytes(namespace)
	if internal {
		namespace = prefixInternal + namespace
	}
	return prefix + prefixRouteGroup + namespace + "__" + escapeBytes(name) + "__" + escapeBytes(method) + "__" +
		strconv.Itoa(route) + "_" + strconv.Itoa(backend)
}

// RouteGroupCatchAll returns the id of the route for all other requests to a host of RouteGroups.
func RouteGroupCatchAll(host string, internal bool) string {
	if internal {
		return prefix + prefixRouteGroup + prefixInternal + "__" + escapeBytes(host) + catchAllEnd
	}
	return prefix + prefixRouteGroup + "__" + escapeBytes(host) + catchAllEnd
}

func isSymbolByte(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' || c == '_'
}

// escapeRunes applies the escape rule of Ingress ids: each character that a symbol cannot have becomes one "_".
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

// escapeBytes applies the escape rule of RouteGroup ids: each byte that a symbol cannot have becomes one "_".
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
