package server

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/routesrv/routesrv/internal/api"
	"github.com/routesrv/routesrv/publish"
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

// runTables produces tables until ctx ends. It asks other replicas first: see askPeers.
func (s *Server) runTables(ctx context.Context) error {
	if s.relay == nil {
		s.askPeers(ctx)
	}
	var beside sync.WaitGroup
	if s.cfg.Events != nil && s.compiler != nil {
		beside.Go(func() { s.cfg.Events(ctx, s.eventProblems) })
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

// askPeers asks the other replicas for what a server without a last-known-good file lacks: the table to compare its first table with, and what is kept;
// for what operators have frozen and pinned while this process did not run; and for the history if there is none. It logs what it finds.
func (s *Server) askPeers(ctx context.Context) {
	if s.publisher.Served() == nil {
		s.findPeer(ctx)
	} else if s.cfg.FromPeer != nil {
		if err := s.cfg.FromPeer(ctx, api.PathKept, func(r io.Reader) error {
			kept, err := publish.ReadKept(r)
			if err == nil {
				s.publisher.TakeOver(kept)
			}
			return err
		}); err != nil {
			s.log.Info("no other replica says what is frozen and pinned, the state folder does", "reason", err)
		}
	}
	if s.cfg.FromPeer != nil && s.history.Empty() {
		if err := s.cfg.FromPeer(ctx, api.PathKeptHistory, s.history.Import); err != nil {
			s.log.Info("the history begins now", "reason", err)
		}
	}
}

// findPeer finds the table to compare the first table with, and logs where it comes from.
func (s *Server) findPeer(ctx context.Context) {
	const nothing = "the first table is compared with nothing: no last-known-good file and no other replica has a table"
	if s.cfg.Peers == nil {
		s.log.Info(nothing, "reason", "no --peers")
		return
	}
	found, err := s.cfg.Peers(ctx)
	if err != nil {
		s.log.Warn(nothing, "reason", err)
		return
	}
	t := found.Table
	s.log.Info("the first table is compared with the table of another replica", "peer", found.From, "count", t.Len(), "hash", t.Digest().String(),
		"revision", t.Revision(), "kept", len(found.Kept))
	s.publisher.CompareWith(t)
	s.publisher.TakeOver(found.Kept)
}
