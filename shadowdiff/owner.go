package shadowdiff

import (
	"cmp"
	"strings"

	"github.com/routesrv/routesrv/internal/routeid"
)

// Kinds of owners that are not kinds of objects.
const (
	generatedKind = string(routeid.KindGenerated)
	otherKind     = string(routeid.KindOther)
)

// Owner is the object that a route comes from, for grouping. The zero value means no owner.
type Owner struct {
	Kind      string `json:"kind"` // RouteGroup, Ingress, generated or other
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`
}

// String returns "RouteGroup shop/cart", or says that no object owns the route.
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

// compare sorts objects first, by namespace, name and kind, then generated routes, then others.
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

// OwnerFunc returns the object that a route comes from, by its id. An empty kind means unknown.
type OwnerFunc func(id string) (kind, namespace, name string)

// of calls f if it is set, and otherwise uses the id.
func (f OwnerFunc) of(id string) Owner {
	if f != nil {
		if kind, namespace, name := f(id); kind != "" {
			return Owner{Kind: kind, Namespace: namespace, Name: name}
		}
	}
	return OwnerOf(id)
}

// OwnerOf derives the owner from an id created by the compiler. It is a guess: see package routeid.
func OwnerOf(id string) Owner {
	o := routeid.OwnerOf(id)
	return Owner{Kind: string(o.Kind), Namespace: o.Namespace, Name: o.Name}
}
