// Package routeid creates and parses the ids of routes. The ids equal those of the reference exactly. The compiler calls the
// functions that create them; code that has only a table uses [OwnerOf], [ObjectOf], [NamespaceOf] and [Generated].
//
// # What an id tells
//
//	kube_<namespace>__<name>__<host>__<path>__<service>                       Ingress
//	kube_rg__[internal_]<namespace>__<name>__<method>__<route>_<backend>      RouteGroup, with or without the end of a companion
//	kubeew_…                                                                  deprecated east-west companion of either
//	kube___catchall__<host>____, kube_rg__[internal_]__<host>__catchall__0_0  catch-all of a host, which may have many owners
//	clone_<id>                                                                copy by -clone-route
//
// An id has "_" for every character of a name that a symbol of eskip cannot have, such as "-" and ".". Therefore a name that
// contains "--" or ends with "-" looks like two parts, and a RouteGroup in a namespace with the prefix "internal-" looks like one
// without the prefix. [OwnerOf] is a good guess for grouping in a report, not a proof.
//
// # What it does not do
//
// It does not know which objects exist, and does not resolve ids that several objects claim (package compile).
package routeid

import "strings"

// Kind is the origin of a route, as far as its id shows.
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

// Generated reports whether the route does not depend on an object in the cluster: health checks, the redirect of all requests,
// the OAuth callback, and clones of these.
func Generated(id string) bool {
	for strings.HasPrefix(id, ClonePrefix) {
		id = id[len(ClonePrefix):]
	}
	switch id {
	case HealthzUp, HealthzDown, Redirect, OAuthCallback:
		return true
	}
	return false
}

// OwnerOf returns the owner according to an id. It returns KindGenerated for the routes of [Generated], for catch-alls, for
// deprecated east-west companions and for all clones.
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

// ownerOf parses the part after kube_.
func ownerOf(rest string) Owner {
	if strings.HasPrefix(rest, "_") { // empty namespace: health checks, redirects and catch-alls
		return Owner{Kind: KindGenerated}
	}
	if inner, ok := strings.CutPrefix(rest, prefixRouteGroup); ok && numbered(inner) {
		return routeGroupOwner(inner)
	}
	return named(KindIngress, rest)
}

// NamespaceOf returns the namespace of [ObjectOf], or "" for a route without one. The result has "_" in place of "-".
func NamespaceOf(id string) string { return ObjectOf(id).Namespace }

// ObjectOf returns the object according to an id. Unlike [OwnerOf] it assigns clones and deprecated east-west companions to their
// object, as both do with redirects. It returns KindGenerated for the routes of [Generated] and for catch-alls.
func ObjectOf(id string) Owner {
	for strings.HasPrefix(id, ClonePrefix) {
		id = id[len(ClonePrefix):]
	}
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

// CustomNames returns the names that the Ingress of a custom route (spec/ingress.md section 7) may have, the longest first; nil for an id
// that no custom route has.
func CustomNames(id string) []string {
	if o := ObjectOf(id); o.Kind == KindIngress && strings.HasSuffix(id, "____") {
		return NamesWithin(o.Name)
	}
	return nil
}

// NamesWithin returns the names of Ingresses that may be in the name of an [Owner], the longest first: the id of a custom route has
// NAME_ROUTE_INDEX where others have the name, and both NAME and ROUTE may contain "_". It is nil if the name has no such end.
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

// routeGroupOwner parses the part after kube_rg__.
func routeGroupOwner(s string) Owner {
	if strings.HasPrefix(s, "_") || strings.HasPrefix(s, prefixInternal+"__") { // empty namespace: catch-alls
		return Owner{Kind: KindGenerated}
	}
	if namespace, ok := strings.CutPrefix(s, prefixInternal); ok && !strings.HasPrefix(namespace, "_") { // otherwise the namespace is "internal"
		s = namespace
	}
	return named(KindRouteGroup, s)
}

// named parses the namespace and the name at the beginning of s.
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
