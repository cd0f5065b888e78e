package shadowdiff

import (
	"cmp"
	"strings"
)

// Kinds of owners that are no kinds of objects.
const (
	generatedKind = "generated"
	otherKind     = "other"
)

// Owner is the object that a route was made of, for grouping. The zero value is no owner.
type Owner struct {
	Kind      string `json:"kind"` // RouteGroup, Ingress, generated or other
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`
}

// String is "RouteGroup shop/cart", or says that no object owns the route.
func (o Owner) String() string {
	switch o.Kind {
	case generatedKind:
		return "generated routes"
	case otherKind, "":
		return "other routes"
	}
	if o.Namespace == "" {
		return o.Kind + " " + o.Name
	}
	return o.Kind + " " + o.Namespace + "/" + o.Name
}

// compare puts objects first, by namespace, name and kind, then generated routes, then others.
func (o Owner) compare(p Owner) int {
	return cmp.Or(cmp.Compare(o.rank(), p.rank()), strings.Compare(o.Namespace, p.Namespace),
		strings.Compare(o.Name, p.Name), strings.Compare(o.Kind, p.Kind))
}

func (o Owner) rank() int {
	switch o.Kind {
	case generatedKind:
		return 1
	case otherKind, "":
		return 2
	}
	return 0
}

// OwnerFunc says which object a route was made of, by its id. An empty kind means that it does not know.
type OwnerFunc func(id string) (kind, namespace, name string)

// of asks f, if there is one, and else takes what the id says.
func (f OwnerFunc) of(id string) Owner {
	if f != nil {
		if kind, namespace, name := f(id); kind != "" {
			return Owner{Kind: kind, Namespace: namespace, Name: name}
		}
	}
	return OwnerOf(id)
}

// OwnerOf reads the owner out of an id that the compiler made. It is a guess: an id has "_" where the names of the object
// have "-" or ".", and a name that has "--" cannot be told from two parts. Routes that no object asked for, copies for
// internal hosts of the deprecated kind and copies by clone rules are generated.
func OwnerOf(id string) Owner {
	rest, ok := strings.CutPrefix(id, "kube_")
	switch {
	case strings.HasPrefix(id, "kubeew_"), strings.HasPrefix(id, "clone_"), id == "__oauth2_grant_callback":
		return Owner{Kind: generatedKind}
	case !ok:
		return Owner{Kind: otherKind}
	case strings.HasPrefix(rest, "_"): // an empty namespace: health checks, redirects and catch-alls
		return Owner{Kind: generatedKind}
	}
	if inner, ok := strings.CutPrefix(rest, "rg__"); ok && numbered(inner) {
		return routeGroupOwner(inner)
	}
	namespace, name, ok := cutName(rest)
	if !ok {
		return Owner{Kind: otherKind}
	}
	return Owner{Kind: "Ingress", Namespace: namespace, Name: name}
}

// routeGroupOwner reads what follows kube_rg__.
func routeGroupOwner(s string) Owner {
	if strings.HasPrefix(s, "_") || strings.HasPrefix(s, "internal___") { // an empty namespace: catch-alls
		return Owner{Kind: generatedKind}
	}
	namespace, name, ok := cutName(strings.TrimPrefix(s, "internal_"))
	if !ok {
		return Owner{Kind: otherKind}
	}
	return Owner{Kind: "RouteGroup", Namespace: namespace, Name: name}
}

// cutName takes namespace and name off the beginning of s.
func cutName(s string) (namespace, name string, ok bool) {
	namespace, rest, _ := strings.Cut(s, "__")
	name, _, ok = strings.Cut(rest, "__")
	return namespace, name, ok && namespace != "" && name != ""
}

// numbered reports whether s has the two numbers with which the ids of RouteGroups end, before the suffix of companions.
// An Ingress in a namespace called rg has no such end.
func numbered(s string) bool {
	for _, suffix := range []string{"_disable_https_redirect", "_https_redirect"} {
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
