package server

import (
	"github.com/routesrv/routesrv/compile"
	"github.com/routesrv/routesrv/explain"
	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/shadowdiff"
)

// owners finds the objects of routes in the served table and in the held one. A relay knows only tables, so there the result is nil.
func (s *Server) owners() shadowdiff.OwnerFunc {
	if s.compiler == nil {
		return nil
	}
	var snapshots []*kube.Snapshot
	view := s.publisher.View()
	if view.Served != nil {
		snapshots = append(snapshots, view.Served.Snapshot)
	}
	if view.Held != nil {
		snapshots = append(snapshots, view.Held.Snapshot)
	}
	return explain.OwnerFunc(func(ref kube.Ref) (in compile.Inspection, ok bool) {
		s.compiler.Look(func(c *compile.Compiler) { in, ok = c.Inspect(ref) })
		return in, ok
	}, snapshots...)
}
