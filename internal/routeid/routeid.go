// Package routeid creates and parses the ids of routes. The ids are identical to the reference's. The compiler calls the
// functions that create them; code that has only a table uses [OwnerOf], [ObjectOf], [ObjectKey], [NamespaceOf] and [Generated].
//
// # What an id tells
//
//	kube_<namespace>__<name>__<host>__<path>__<service>                       Ingress
//	kube_rg__[internal_]<namespace>__<name>__<method>__<route>_<backend>      RouteGroup, with or without the end of a companion
//	kubeew_…                                                                  deprecated east-west companion of either
//	kube___catchall__<host>____, kube_rg__[internal_]__<host>__catchall__0_0  catch-all of a host, which may have many owners
//	clone_<id>                                                                copy by -clone-route
//
// An id has "_" for every character of a name that is not allowed in an eskip symbol, such as "-" and ".". Therefore a name that
// contains "--" or ends with "-" looks like two parts, and a RouteGroup in a namespace with the prefix "internal-" looks like one
// without the prefix. [ObjectKey] is exact for most ids, and [OwnerOf] is a good guess for grouping in a report, not a proof.
//
// # What it does not do
//
// It does not know which objects exist, and does not resolve ids that several objects claim (package compile).
package routeid

import (
	"iter"
	"strconv"
	"strings"
)

// Kind is the origin of a route according to its id.
type Kind string

// The kinds of owners. They are shown to users and appear in JSON reports.
const (
	KindIngress    Kind = "Ingress"
	KindRouteGroup Kind = "RouteGroup"
	KindGenerated  Kind = "generated" // created by settings, or for more than one object
	KindOther      Kind = "other"     // not created by the compiler
)

// Owner is the object that a route was compiled from. Namespace and Name are empty for KindGenerated and KindOther. They have "_"
// in place of characters other than letters, digits and "_".
type Owner struct {
	Kind            Kind
	Namespace, Name string
}

// Generated reports whether the route depends on no object: health checks, redirect, OAuth callback, and clones of these.
func Generated(id string) bool {
	switch Original(id) {
	case HealthzUp, HealthzDown, Redirect, OAuthCallback:
		return true
	}
	return false
}

// Original returns the id of the route that a clone was copied from; it returns any other id unchanged.
func Original(id string) string {
	for strings.HasPrefix(id, ClonePrefix) {
		id = id[len(ClonePrefix):]
	}
	return id
}

// OwnerOf returns the owner according to an id; KindGenerated for catch-alls, east-west companions and all clones, too.
func OwnerOf(id string) Owner {
	rest, ok := strings.CutPrefix(id, prefix)
	switch {
	case strings.HasPrefix(id, prefixEastWest), strings.HasPrefix(id, ClonePrefix), id == OAuthCallback:
		return Owner{Kind: KindGenerated}
	case !ok:
		return Owner{Kind: KindOther}
	}
	return ownerOf(rest)
}

func ownerOf(rest string) Owner {
	if strings.HasPrefix(rest, "_") { // empty namespace: health checks, redirects and catch-alls
		return Owner{Kind: KindGenerated}
	}
	if inner, ok := strings.CutPrefix(rest, prefixRouteGroup); ok && numbered(inner) {
		return routeGroupOwner(inner)
	}
	return named(KindIngress, rest)
}

// IsCatchAll reports whether a route is the catch-all of a host.
func IsCatchAll(id string) bool {
	return strings.HasPrefix(id, prefix+"__catchall__") && strings.HasSuffix(id, "____") ||
		strings.HasSuffix(id, catchAllEnd) && OwnerOf(id).Kind == KindGenerated
}

// NamespaceOf returns the namespace of [ObjectOf], or "" for a route without one. The result has "_" in place of "-".
func NamespaceOf(id string) string { return ObjectOf(id).Namespace }

// ObjectOf returns the object according to an id. Unlike [OwnerOf] it assigns clones and deprecated east-west companions to their
// object, as both do with redirects. It returns KindGenerated for the routes of [Generated] and for catch-alls.
func ObjectOf(id string) Owner {
	id = Original(id)
	if Generated(id) {
		return Owner{Kind: KindGenerated}
	}
	rest, ok := strings.CutPrefix(id, prefixEastWest)
	if !ok {
		rest, ok = strings.CutPrefix(id, prefix)
	}
	if !ok {
		return Owner{Kind: KindOther}
	}
	return ownerOf(rest)
}

// CustomNames returns the names that the Ingress of a custom route may have, the longest first; nil for any other id.
func CustomNames(id string) []string {
	if o := ObjectOf(id); o.Kind == KindIngress && strings.HasSuffix(id, "____") {
		return NamesWithin(o.Name)
	}
	return nil
}

// NamesWithin returns the names of Ingresses that may be in the name of an [Owner], the longest first: the id of a custom route
// has NAME_ROUTE_INDEX where others have the name, and both NAME and ROUTE may contain "_". It is nil if the name has no such
// end.
func NamesWithin(name string) (names []string) {
	front, numbered := strings.CutSuffix(strings.TrimRight(name, "0123456789"), "_")
	if !numbered || strings.HasSuffix(name, "_") {
		return nil
	}
	for i := strings.LastIndexByte(front, '_'); i > 0; i = strings.LastIndexByte(front, '_') {
		front = front[:i]
		names = append(names, front)
	}
	return names
}

// ObjectKey returns the kind of an object, and its namespace and name as the id has them, with "__" between them; no key for a
// route of no object. A name that contains "--" does not mislead it, except for an Ingress without a host. hosts are the
// expressions of the route.
func ObjectKey(id string, hosts iter.Seq[string]) (kind Kind, key string) {
	o := ObjectOf(id)
	if o.Namespace == "" {
		return o.Kind, ""
	}
	_, rest, _ := strings.Cut(Original(id), "_")
	if o.Kind == KindRouteGroup {
		if rest = strings.TrimPrefix(rest, prefixRouteGroup); !strings.HasPrefix(rest, o.Namespace+"__") {
			rest = strings.TrimPrefix(rest, prefixInternal)
		}
		for range 2 { // route and backend, and the method
			rest = rest[:strings.LastIndex(rest, "__")]
		}
		return o.Kind, rest
	}
	least := len(o.Namespace) + len("__n")
	for expr := range hosts {
		host, _, _ := strings.Cut(strings.ReplaceAll(expr, "[.]", "."), ".?") // without the optional dot and port
		if i := strings.Index(rest[least:], "__"+escapeRunes(host)+"__"); i >= 0 {
			return o.Kind, rest[:least+i]
		}
	}
	return o.Kind, o.Namespace + "__" + o.Name
}

func routeGroupOwner(s string) Owner {
	if strings.HasPrefix(s, "_") || strings.HasPrefix(s, prefixInternal+"__") { // empty namespace: catch-alls
		return Owner{Kind: KindGenerated}
	}
	if namespace, ok := strings.CutPrefix(s, prefixInternal); ok && !strings.HasPrefix(namespace, "_") { // otherwise the namespace is "internal"
		s = namespace
	}
	return named(KindRouteGroup, s)
}

func named(kind Kind, s string) Owner {
	namespace, rest, _ := strings.Cut(s, "__")
	name, _, ok := strings.Cut(rest, "__")
	if !ok || namespace == "" || name == "" {
		return Owner{Kind: KindOther}
	}
	return Owner{kind, namespace, name}
}

// numbered reports whether s ends with two numbers, as the ids of RouteGroups do before the suffix of a companion. The id of an
// Ingress in a namespace called rg has no such end.
func numbered(s string) bool {
	for _, suffix := range []string{SuffixDisableRedirect, SuffixRedirect} {
		s = strings.TrimSuffix(s, suffix)
	}
	trimmed := strings.TrimRight(s, "0123456789")
	inner, ok := strings.CutSuffix(trimmed, "_")
	if !ok || trimmed == s {
		return false
	}
	front := strings.TrimRight(inner, "0123456789")
	return front != inner && strings.HasSuffix(front, "__")
}

// Ids of routes that do not come from an object.
const (
	HealthzUp     = "kube__healthz_up"
	HealthzDown   = "kube__healthz_down"
	Redirect      = "kube__redirect"
	OAuthCallback = "__oauth2_grant_callback"
)

// Suffixes of the ids of companions: the redirect to https, and the exemption from it.
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

// RouteGroup returns the id for one route and one backend of a RouteGroup, by their indexes, or of its internal copy.
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
