package takeover

import (
	"maps"
	"slices"

	"github.com/routesrv/routesrv/compile"
	"github.com/routesrv/routesrv/internal/routeid"
	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/shadowdiff"
	"github.com/routesrv/routesrv/table"
)

// Tried is an object that was compiled on trial.
type Tried struct {
	kube.Ref
	compile.Trial
}

// Try returns what objects would take from others if they replaced those of their names in the snapshot of the result. owner
// returns the objects of the routes of the result, as in [Side].
func Try(result *compile.Result, objects []Tried, owner shadowdiff.OwnerFunc, options Options) (*Report, error) {
	owners := map[string]shadowdiff.Owner{}
	upserts := map[string]*table.Route{}
	deletes := map[string]bool{}
	for _, o := range objects {
		before, _ := result.Inspect(o.Ref)
		for _, r := range rows(before.Routes) {
			deletes[r.ID] = true
		}
		for _, r := range o.ReplacedCatchAlls {
			deletes[r.ID] = true
		}
		for _, r := range append(rows(o.Routes), o.CatchAlls...) {
			upserts[r.ID] = r
			if !deletes[r.ID] || !routeid.IsCatchAll(r.ID) { // the catch-all of a host that it brings is its doing
				owners[r.ID] = shadowdiff.Owner{Kind: string(o.Kind), Namespace: o.Namespace, Name: o.Name}
			}
		}
	}
	for id := range upserts {
		delete(deletes, id)
	}
	list, err := result.Routes.With(slices.Collect(maps.Values(upserts)), slices.Collect(maps.Keys(deletes)))
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

func rows(routes []compile.InspectedRoute) (all []*table.Route) {
	for _, r := range routes {
		if r.Wins && r.Route != nil {
			all = append(all, r.Route)
		}
		if r.Wins {
			all = append(all, r.Clones...)
		}
	}
	return all
}
