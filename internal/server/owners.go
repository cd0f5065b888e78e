package server

import (
	"slices"

	"github.com/routesrv/routesrv/compile"
	"github.com/routesrv/routesrv/explain"
	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/shadowdiff"
)

// owners finds the objects of routes in the served table and in the held one. A relay knows only tables, so there the result is nil.
func (s *Server) owners() shadowdiff.OwnerFunc { return s.ownersIn() }

// ownersIn finds them in more snapshots, too.
func (s *Server) ownersIn(snapshots ...*kube.Snapshot) shadowdiff.OwnerFunc {
	if s.compiler == nil {
		return nil
	}
	snapshots = slices.DeleteFunc(snapshots, func(one *kube.Snapshot) bool { return one == nil })
	view := s.publisher.View()
	if view.Served != nil {
		snapshots = append(snapshots, view.Served.Snapshot)
	}
	if view.Held != nil {
		snapshots = append(snapshots, view.Held.Snapshot)
	}
	var inspect func(kube.Ref) (compile.Inspection, bool)
	if newest := s.compiler.Latest(); newest != nil {
		inspect = newest.Inspect
	}
	return explain.OwnerFunc(inspect, snapshots...)
}
