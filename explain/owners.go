package explain

import (
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/routesrv/routesrv/compile"
	"github.com/routesrv/routesrv/internal/routeid"
	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/shadowdiff"
)

// Owners finds the objects of routes by id. An id has "_" for each character that eskip does not allow, such as a dash, so only
// a list of objects gives real names. It is safe for concurrent use if its inspect function is.
type Owners struct {
	byPrefix map[string][]kube.Ref
	inspect  func(kube.Ref) (compile.Inspection, bool)
}

// NewOwners returns the owners among the objects of snapshots. inspect decides between several, and may be nil.
func NewOwners(inspect func(kube.Ref) (compile.Inspection, bool), snapshots ...*kube.Snapshot) *Owners {
	o := &Owners{byPrefix: make(map[string][]kube.Ref), inspect: inspect}
	for i, s := range snapshots {
		if s == nil || i > 0 && s == snapshots[0] {
			continue
		}
		for of := range s.Objects() {
			ref := of.Ref()
			prefix := prefixOf(ref)
			if known := o.byPrefix[prefix]; !slices.Contains(known, ref) {
				o.byPrefix[prefix] = append(known, ref)
			}
		}
	}
	return o
}

// OwnerFunc returns [Owners.Of] of [NewOwners] for these snapshots, which the first call creates.
func OwnerFunc(inspect func(kube.Ref) (compile.Inspection, bool), snapshots ...*kube.Snapshot) shadowdiff.OwnerFunc {
	owners := sync.OnceValue(func() *Owners { return NewOwners(inspect, snapshots...) })
	return func(id string) shadowdiff.Owner { return owners().Of(id) }
}

// Candidates returns the objects that may have the route with an id, without duplicates. It costs a few dozen lookups.
func (o *Owners) Candidates(id string) []kube.Ref {
	plain := id
	for strings.HasPrefix(plain, routeid.ClonePrefix) {
		plain = plain[len(routeid.ClonePrefix):]
	}
	if rest, ok := strings.CutPrefix(plain, "kubeew_"); ok {
		plain = "kube_" + rest
	}
	if rest, ok := strings.CutPrefix(plain, "kube_rg__internal_"); ok { // a copy for internal hosts, or a namespace called internal-…
		return append(o.within("kube_rg__"+rest), o.within(plain)...)
	}
	return o.within(plain)
}

func (o *Owners) within(id string) (found []kube.Ref) {
	for i := len(id) - 1; i > 0; i-- {
		if id[i] != '_' {
			continue
		}
		for _, ref := range o.byPrefix[id[:i]] {
			if strings.HasPrefix(id[i:], "__") || ref.Kind == kube.KindIngress && customRoute.MatchString(id[i+1:]) {
				found = append(found, ref)
			}
		}
	}
	return found
}

func spelt(ref kube.Ref, s *kube.Snapshot) (found []kube.Ref) {
	if !strings.Contains(ref.Namespace+ref.Name, "_") {
		return nil
	}
	prefix := prefixOf(ref)
	for o := range s.Objects() {
		known := o.Ref()
		if known.Kind == ref.Kind && len(known.Name) == len(ref.Name) && prefixOf(known) == prefix {
			found = append(found, known)
		}
	}
	return found
}

// customRoute matches the beginning of the id of a custom route after the name of its Ingress: NAME_NUMBER__.
var customRoute = regexp.MustCompile(`^.+_[0-9]+__`)

// Of returns the owner of a route. Its kind is empty if no object can have the route, or if several can and none has it now.
func (o *Owners) Of(id string) shadowdiff.Owner {
	found := o.Candidates(id)
	if len(found) == 1 {
		return ownerOf(found[0])
	}
	if o.inspect == nil {
		return shadowdiff.Owner{}
	}
	if ref, _, ok := holder(found, id, o.inspect); ok {
		return ownerOf(ref)
	}
	return shadowdiff.Owner{}
}

func holder(refs []kube.Ref, id string, inspect func(kube.Ref) (compile.Inspection, bool)) (kube.Ref, compile.Inspection, bool) {
	for _, ref := range refs {
		in, _ := inspect(ref)
		if slices.ContainsFunc(in.Routes, func(r compile.InspectedRoute) bool { return r.ID == id && r.Wins }) {
			return ref, in, true
		}
	}
	return kube.Ref{}, compile.Inspection{}, false
}

func ownerOf(ref kube.Ref) shadowdiff.Owner {
	return shadowdiff.Owner{Kind: string(ref.Kind), Namespace: ref.Namespace, Name: ref.Name}
}
