// Package routeid makes the ids of routes and takes them apart. The ids are those of the reference, to the letter: the compiler
// calls the functions that make them, and whoever has nothing but a table asks [OwnerOf], [NamespaceOf] and [Generated].
//
// # What an id tells
//
//	kube_<namespace>__<name>__<host>__<path>__<service>                       Ingress
//	kube_rg__[internal_]<namespace>__<name>__<method>__<route>_<backend>      RouteGroup, with or without the end of a companion
//	kubeew_…                                                                  deprecated east-west companion of either
//	kube___catchall__<host>____, kube_rg__[internal_]__<host>__catchall__0_0  catch-all of a host, which may have many owners
//	clone_<id>                                                                copy by -clone-route
//
// An id has "_" for every character of a name that a symbol of eskip cannot have, as "-" and ".". So a name that has "--" or ends
// with "-" cannot be told from two parts, and a RouteGroup in a namespace that begins with "internal-" reads as one without that
// beginning. [OwnerOf] is a good guess for groups in a report, and no proof.
//
// # What it does not do
//
// It does not know which objects exist, and does not resolve ids that several objects claim (package compile).
package routeid

import "strings"

// Kind is what a route comes from, as far as its id tells.
type Kind string

// The kinds of owners. They are shown to users and part of reports in JSON.
const (
	KindIngress    Kind = "Ingress"
	KindRouteGroup Kind = "RouteGroup"
	KindGenerated  Kind = "generated" // by settings, or for more than one object
	KindOther      Kind = "other"     // nothing that the compiler makes
)

// Owner is the object that a route was made of. Namespace and Name are empty for KindGenerated and KindOther, and have "_" where
// the names of the object have another character than letters, digits and "_".
type Owner struct {
	Kind            Kind
	Namespace, Name string
}

// Generated reports whether the route exists without any object in the cluster: health checks, the redirect of all requests, the
// callback of OAuth, and clones of these.
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

// OwnerOf reads the owner out of an id. It has KindGenerated for the routes of [Generated], for catch-alls, for deprecated
// east-west companions and for all clones.
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

// ownerOf reads what follows kube_.
func ownerOf(rest string) Owner {
	if strings.HasPrefix(rest, "_") { // an empty namespace: health checks, redirects and catch-alls
		return Owner{Kind: KindGenerated}
	}
	if inner, ok := strings.CutPrefix(rest, prefixRouteGroup); ok && numbered(inner) {
		return routeGroupOwner(inner)
	}
	return named(KindIngress, rest)
}

// NamespaceOf reads the namespace out of an id, and returns "" for a route that belongs to none. Unlike [OwnerOf] it counts clones and
// deprecated east-west companions to the namespace of the object behind them, as it does redirects. A namespace has "_" in place
// of "-".
func NamespaceOf(id string) string {
	for strings.HasPrefix(id, ClonePrefix) {
		id = id[len(ClonePrefix):]
	}
	rest, ok := strings.CutPrefix(id, prefixEastWest)
	if !ok {
		rest, ok = strings.CutPrefix(id, prefix)
	}
	if !ok {
		return ""
	}
	return ownerOf(rest).Namespace
}

// routeGroupOwner reads what follows kube_rg__.
func routeGroupOwner(s string) Owner {
	if strings.HasPrefix(s, "_") || strings.HasPrefix(s, prefixInternal+"__") { // an empty namespace: catch-alls
		return Owner{Kind: KindGenerated}
	}
	if namespace, ok := strings.CutPrefix(s, prefixInternal); ok && !strings.HasPrefix(namespace, "_") { // else the namespace is "internal"
		s = namespace
	}
	return named(KindRouteGroup, s)
}

// named takes namespace and name off the beginning of s.
func named(kind Kind, s string) Owner {
	namespace, rest, _ := strings.Cut(s, "__")
	name, _, ok := strings.Cut(rest, "__")
	if !ok || namespace == "" || name == "" {
		return Owner{Kind: KindOther}
	}
	return Owner{kind, namespace, name}
}

// numbered reports whether s has the two numbers with which the ids of RouteGroups end, before the suffix of companions.
// An Ingress in a namespace called rg has no such end.
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
