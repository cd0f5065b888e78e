package server

import (
	"context"
	"errors"
	"sync"
	"time"
)

// Run serves until ctx ends, then shuts down in order, and returns nil. It returns an error if the main listener cannot be opened
// or fails. If ctx has already ended, it opens nothing.
//
// The order of the shutdown is the one of [httpserve.Listeners], after a wait of Config.WaitForHealthcheckInterval for load balancers.
// The last-known-good file is written last.
func (s *Server) Run(ctx context.Context) error {
	s.started = time.Now()
	if s.cfg.SupportAddress == "" {
		s.log.Info("no support listener: no metrics, no status (-support-listener)")
	}
	defer s.cfg.Tracing.Close() // after the last answer
	var tablesErr error
	err := s.listeners.Run(ctx, func(ctx context.Context) { tablesErr = s.runTables(ctx) })
	return errors.Join(err, tablesErr)
}

// runTables produces tables until ctx ends. It asks other replicas first: see findPeer.
func (s *Server) runTables(ctx context.Context) error {
	if s.relay == nil {
		s.findPeer(ctx)
	}
	var beside sync.WaitGroup
	if s.cfg.Events != nil && s.compiler != nil {
		beside.Go(func() {
			if err := s.cfg.Events(ctx, s.eventProblems); err != nil {
				s.log.Error("no Events are written (--events)", "error", err)
			}
		})
	}
	beside.Go(func() { s.clients.Run(ctx) })
	if s.reviews != nil {
		beside.Go(func() { s.reviews.run(ctx) })
		beside.Go(func() { s.history.run(ctx) })
	}
	if s.relay != nil {
		beside.Go(func() { s.reportUp(ctx) })
	}
	err := s.tables.Run(ctx)
	beside.Wait()
	s.decisions.Close()
	return err
}

// findPeer asks another replica for the table to compare the first table with, unless there is a last-known-good file, and for what operators
// have frozen and pinned meanwhile. It logs what it finds.
func (s *Server) findPeer(ctx context.Context) {
	const nothing = "the first table is compared with nothing: no last-known-good file and no other replica has a table"
	boots := s.publisher.Served() == nil
	if s.cfg.Peers == nil {
		if boots {
			s.log.Info(nothing, "reason", "no --peers")
		}
		return
	}
	found, err := s.cfg.Peers(ctx)
	switch {
	case err != nil && boots:
		s.log.Warn(nothing, "reason", err)
		return
	case err != nil:
		s.log.Info("no other replica says what is frozen and pinned, the state folder does", "reason", err)
		return
	}
	t := found.Table
	if boots {
		s.log.Info("the first table is compared with the table of another replica", "peer", found.From, "count", t.Len(), "hash", t.Digest().String(),
			"revision", t.Revision(), "kept", len(found.Kept))
	}
	s.publisher.CompareWith(t)
	s.publisher.TakeOver(found.Kept)
	if s.cfg.PeerHistory != nil && s.history.Empty() {
		if err := s.cfg.PeerHistory(ctx, s.history.Import); err != nil {
			s.log.Warn("the history begins now", "reason", err)
		}
	}
}
