package takeover

import (
	"github.com/routesrv/routesrv/compile"
	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/shadowdiff"
	"github.com/routesrv/routesrv/table"
)

// Tried is an object that was compiled on trial.
type Tried struct {
	kube.Ref
	compile.Trial
}

// Try returns what objects would take from others if they were in the snapshot of the result that they were tried with, in place of those with
// their names. owner returns the objects of the routes of the result, as in [Side]. A host that they bring gets its catch-all; what they change of
// the catch-alls of other hosts, and clones of routes, are left out. It costs as much as the objects, and then as [Find].
func Try(result *compile.Result, objects []Tried, owner shadowdiff.OwnerFunc, options Options) (*Report, error) {
	owners := map[string]shadowdiff.Owner{}
	upserts := map[string]*table.Route{}
	deletes := map[string]bool{}
	for _, o := range objects {
		before, _ := result.Inspect(o.Ref)
		for _, r := range before.Routes {
			if r.Wins && r.Route != nil {
				deletes[r.ID] = true
			}
		}
		add := func(r *table.Route) {
			upserts[r.ID] = r
			owners[r.ID] = shadowdiff.Owner{Kind: string(o.Kind), Namespace: o.Namespace, Name: o.Name}
		}
		for _, r := range o.Routes {
			if r.Wins && r.Route != nil {
				add(r.Route)
			}
		}
		for _, r := range o.CatchAlls {
			add(r)
		}
	}
	var routes []*table.Route
	for id, r := range upserts {
		routes = append(routes, r)
		delete(deletes, id)
	}
	var gone []string
	for id := range deletes {
		gone = append(gone, id)
	}
	list, err := result.Routes.With(routes, gone)
	if err != nil {
		return nil, err
	}
	after := func(id string) shadowdiff.Owner {
		if o, ok := owners[id]; ok {
			return o
		}
		return owner.Of(id)
	}
	return Find(Side{Routes: result.Routes, Owner: owner}, Side{Routes: list, Owner: after}, options), nil
}
