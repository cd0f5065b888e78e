package server

import (
	"context"
	"net/url"
	"path/filepath"
	"sync"
	"time"

	"github.com/routesrv/routesrv/explain/takeover"
	"github.com/routesrv/routesrv/internal/trial"
	"github.com/routesrv/routesrv/publish"
	"github.com/routesrv/routesrv/table"
)

// Review says what a change must pass before it is published.
type Review struct {
	// TrialProxy and TrialTraffic are the listeners of the trial proxy: see [trial.Config]. nil means that there is none.
	TrialProxy, TrialTraffic *url.URL
	TrialTimeout             time.Duration
	// KeepTakeovers says which objects are kept because of what they take from others.
	KeepTakeovers takeover.Policy
}

// trialFile is the name of the file with verdicts in the state folder.
const trialFile = "trial.json"

// reviews says what may not be published yet, and notes which takeovers were published.
type reviews struct {
	s         *Server
	trial     *trial.Trial // nil without a trial proxy
	takeovers *takeovers
}

func newReviews(s *Server) *reviews {
	r := &reviews{s: s, takeovers: newTakeovers(s)}
	cfg := s.cfg.Review
	if cfg.TrialProxy == nil {
		return r
	}
	file := ""
	if s.cfg.StateDir != "" {
		file = filepath.Join(s.cfg.StateDir, trialFile)
	}
	r.trial = trial.New(trial.Config{
		Support: cfg.TrialProxy, Traffic: cfg.TrialTraffic, Timeout: cfg.TrialTimeout, File: file, Log: s.cfg.Logger.With("component", "trial"),
		Served: func() *table.Table { return s.publisher.Table() },
	})
	s.registry.MustRegister(r.trial)
	return r
}

// review is the [publish.Review] of the server.
func (r *reviews) review(before, after *table.Table) map[string]publish.Objection {
	objections := r.takeovers.refused(before, after)
	if r.trial == nil {
		return objections
	}
	for id, o := range r.trial.Review(before, after) {
		if other, twice := objections[id]; !twice || o.MoreSerious(other) {
			objections[id] = o
		}
	}
	return objections
}

// settle waits for the trial of a first table.
func (r *reviews) settle(ctx context.Context, before, after *table.Table) {
	if r.trial != nil {
		r.trial.Settle(ctx, before, after)
	}
}

// changed sends a value after new verdicts; nil without a trial proxy.
func (r *reviews) changed() <-chan struct{} {
	if r.trial == nil {
		return nil
	}
	return r.trial.Changed()
}

// run tries what is new, and looks for takeovers in what is published, until the context ends.
func (r *reviews) run(ctx context.Context) {
	var both sync.WaitGroup
	if r.trial != nil {
		both.Go(func() { r.trial.Run(ctx) })
	}
	both.Go(func() { r.takeovers.run(ctx) })
	both.Wait()
}
