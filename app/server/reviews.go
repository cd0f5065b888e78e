package server

import (
	"context"
	"sync"

	"github.com/routesrv/routesrv/app/trial"
	"github.com/routesrv/routesrv/publish"
	"github.com/routesrv/routesrv/table"
)

// reviews determines what may not be published yet. It judges by the source and by the server's own trial proxy, never by what
// clients report.
type reviews struct {
	trial     *trial.Trial // nil without a trial proxy
	takeovers *takeovers
}

func newReviews(s *Server) *reviews {
	cfg := s.cfg.Review
	r := &reviews{takeovers: newTakeovers(s)}
	if cfg.TrialProxy == nil {
		return r
	}
	r.trial = trial.New(trial.Config{
		Support: cfg.TrialProxy, Traffic: cfg.TrialTraffic, Timeout: cfg.TrialTimeout, Log: s.cfg.Logger.With("component", "trial"),
		Served: func() *table.Table { return s.publisher.Table() }, Namespaces: r.takeovers.namespaces,
	})
	s.registry.MustRegister(r.trial)
	return r
}

// review is the [publish.Review] of the server.
func (r *reviews) review(before, after *table.Table) publish.Objections {
	objections := r.takeovers.refused(before, after)
	if r.trial != nil {
		for id, o := range r.trial.Review(before, after) {
			objections.Add(id, o)
		}
	}
	return objections
}

// run tries new routes and looks for takeovers in published tables until the context ends.
func (r *reviews) run(ctx context.Context) {
	var all sync.WaitGroup
	if r.trial != nil {
		all.Go(func() { r.trial.Run(ctx) })
	}
	all.Go(func() { r.takeovers.run(ctx) })
	all.Wait()
}
