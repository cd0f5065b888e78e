package server

import (
	"context"
	"net/http"
	"path/filepath"
	"sync"

	"github.com/routesrv/routesrv/internal/httpserve"
	"github.com/routesrv/routesrv/internal/trial"
	"github.com/routesrv/routesrv/publish"
	"github.com/routesrv/routesrv/table"
)

// trialFile is the name of the file with verdicts in the state folder.
const trialFile = "trial.json"

// reviews says what may not be published yet, and what should not have been.
type reviews struct {
	s         *Server
	trial     *trial.Trial // also without a trial proxy: the fleet blames texts, too
	takeovers *takeovers
	suspects  *suspects
}

func newReviews(s *Server) *reviews {
	cfg, file := s.cfg.Review, ""
	if s.cfg.StateDir != "" {
		file = filepath.Join(s.cfg.StateDir, trialFile)
	}
	r := &reviews{s: s, takeovers: newTakeovers(s), suspects: &suspects{s: s, acted: map[table.Digest]bool{}}}
	r.trial = trial.New(trial.Config{
		Support: cfg.TrialProxy, Traffic: cfg.TrialTraffic, Timeout: cfg.TrialTimeout, File: file, Log: s.cfg.Logger.With("component", "trial"),
		Served: func() *table.Table { return s.publisher.Table() },
	})
	if cfg.TrialProxy != nil {
		s.registry.MustRegister(r.trial)
	}
	return r
}

// review is the [publish.Review] of the server.
func (r *reviews) review(before, after *table.Table) publish.Objections {
	objections := r.takeovers.refused(before, after)
	for id, o := range r.trial.Review(before, after) {
		objections.Add(id, o)
	}
	return objections
}

// run tries what is new, looks for takeovers in what is published, and for proxies that died, until the context ends.
func (r *reviews) run(ctx context.Context) {
	var all sync.WaitGroup
	all.Go(func() { r.trial.Run(ctx) })
	all.Go(func() { r.takeovers.run(ctx) })
	all.Go(func() { r.suspects.run(ctx) })
	all.Wait()
}

// published says that another table is served. It does not wait.
func (r *reviews) published() {
	r.takeovers.published()
	r.suspects.published()
}

// serveTrialFailures tells webhooks what failed.
func (s *Server) serveTrialFailures(w http.ResponseWriter, _ *http.Request) {
	httpserve.WriteJSON(w, http.StatusOK, s.reviews.trial.Status().Failed)
}
