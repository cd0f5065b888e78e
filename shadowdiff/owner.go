package shadowdiff

import (
	"cmp"
	"encoding/json"
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
	Kind            string // RouteGroup, Ingress, generated or other
	Namespace, Name string // as the object has them, unless FromID
	// FromID means that only the id is known: the name is one of [Owner.Candidates].
	FromID bool
}

const maxCandidates = 4

// String returns "RouteGroup shop/cart", or what is known. An owner known only from an id is marked, with its possible names.
func (o Owner) String() string {
	switch o.Kind {
	case generatedKind:
		return "generated routes"
	case otherKind, "":
		return "other routes"
	}
	if o.FromID {
		return o.Kind + " " + o.guess()
	}
	if o.Namespace == "" {
		return o.Kind + " " + o.Name
	}
	return o.Kind + " " + o.Namespace + "/" + o.Name
}

func (o Owner) guess() string {
	if names := o.Candidates(); names != nil {
		return strings.Join(names, " or ") + " (from the id)"
	}
	pattern := dashed(o.Namespace) + "/" + strings.ReplaceAll(o.Name, "_", "[-.]") + " (from the id; [-.] is a dash or a dot"
	if o.mayBeCustom() {
		pattern += ", or the name ends earlier and the rest is the id of a custom route"
	}
	return pattern + ")"
}

// mayBeCustom reports whether the name may be an Ingress's name followed by the id and the number of a custom route.
func (o Owner) mayBeCustom() bool {
	return o.Kind == string(routeid.KindIngress) && routeid.NamesWithin(o.Name) != nil
}

// Candidates returns the possible NAMESPACE/NAME of an owner known only from an id, the likeliest first: ids have "_" for "-"
// and ".". It returns nil for more than four, or if the route may be a custom one. A namespace has no dots.
func (o Owner) Candidates() []string {
	if !o.FromID || o.mayBeCustom() {
		return nil
	}
	names := []string{o.Name}
	for strings.Contains(names[0], "_") {
		var next []string
		for _, sign := range []string{"-", "."} {
			for _, name := range names {
				next = append(next, strings.Replace(name, "_", sign, 1))
			}
		}
		if names = next; len(names) > maxCandidates {
			return nil
		}
	}
	for i, name := range names {
		names[i] = dashed(o.Namespace) + "/" + name
	}
	return names
}

func dashed(s string) string { return strings.ReplaceAll(s, "_", "-") }

// MarshalJSON prints the candidates of an owner derived from an id: a name that may not exist never looks like an existing one.
func (o Owner) MarshalJSON() ([]byte, error) {
	form := struct {
		Kind       string   `json:"kind"`
		Namespace  string   `json:"namespace,omitempty"`
		Name       string   `json:"name,omitempty"`
		FromID     bool     `json:"from_id,omitempty"`
		Candidates []string `json:"candidates,omitempty"`
	}{o.Kind, o.Namespace, o.Name, o.FromID, o.Candidates()}
	if o.FromID {
		form.Namespace, form.Name = dashed(o.Namespace), ""
	}
	return json.Marshal(form)
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
type OwnerFunc func(id string) Owner

// Of calls f if it is set, and otherwise uses the id.
func (f OwnerFunc) Of(id string) Owner {
	if f != nil {
		if o := f(id); o.Kind != "" {
			return o
		}
	}
	return OwnerOf(id)
}

// OwnerOf derives the owner from an id of the compiler, for callers that have only a table: see package routeid.
func OwnerOf(id string) Owner {
	o := routeid.OwnerOf(id)
	return Owner{Kind: string(o.Kind), Namespace: o.Namespace, Name: o.Name, FromID: o.Name != ""}
}
