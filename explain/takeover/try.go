package takeover

import (
	"github.com/routesrv/routesrv/compile"
	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/shadowdiff"
	"github.com/routesrv/routesrv/table"
)

// Try returns what objects would take from others if they were in the snapshot of a result, in place of those with their names. owner returns
// the objects of the routes of the result, as in [Side]. What the objects do to catch-alls of hosts and to clones of routes is left out. The
// error names an object that has no routes. It costs as much as the objects, and then as [Find].
func Try(result *compile.Result, objects []kube.Object, owner shadowdiff.OwnerFunc, options Options) (*Report, error) {
	owners := map[string]shadowdiff.Owner{}
	upserts := map[string]*table.Route{}
	deletes := map[string]bool{}
	for _, o := range objects {
		ref := o.Ref()
		trial, err := result.Try(o)
		if err != nil {
			return nil, err
		}
		before, _ := result.Inspect(ref)
		for _, r := range before.Routes {
			if r.Wins && r.Route != nil {
				deletes[r.ID] = true
			}
		}
		for _, r := range trial.Routes {
			if r.Wins && r.Route != nil {
				upserts[r.ID] = r.Route
				owners[r.ID] = shadowdiff.Owner{Kind: string(ref.Kind), Namespace: ref.Namespace, Name: ref.Name}
			}
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
