package sidecar

import (
	"github.com/routesrv/routesrv/explain"
	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/shadowdiff"
)

// owners finds the objects of routes where this data plane reads the cluster itself, in the modes False and Pre; otherwise it is nil, and
// only ids are known.
func (c *controller) owners() shadowdiff.OwnerFunc {
	p := c.selfNow.Load()
	if p == nil {
		return nil
	}
	var snapshots []*kube.Snapshot
	view := p.publisher.View()
	if view.Served != nil {
		snapshots = append(snapshots, view.Served.Snapshot)
	}
	if view.Held != nil {
		snapshots = append(snapshots, view.Held.Snapshot)
	}
	return explain.OwnerFunc(nil, snapshots...)
}
