package server

import (
	"context"
	"sync"
	"time"

	"github.com/routesrv/routesrv/gate"
	"github.com/routesrv/routesrv/poller"
)

// sink is what the gate feeds: the cache, with traces of what is published in it where somebody wants them.
func (s *Server) sink() gate.Sink {
	if s.cfg.Tracing == nil {
		return s.cache
	}
	return s.cfg.Tracing.Sink(s.cache)
}

// traceReads is the hook of the poller; nil without traces.
func (s *Server) traceReads() func(time.Time) poller.ReadTrace {
	if s.cfg.Tracing == nil {
		return nil
	}
	return s.cfg.Tracing.Read
}

// sendTraces sends them until the function that it returns is called, which also sends what is left.
func (s *Server) sendTraces(ctx context.Context) (stop func()) {
	if s.cfg.Tracing == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var sending sync.WaitGroup
	sending.Go(func() { _ = s.cfg.Tracing.Run(ctx) }) // it returns nil
	return func() {
		cancel()
		sending.Wait()
	}
}
