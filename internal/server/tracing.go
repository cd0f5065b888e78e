package server

import (
	"context"
	"sync"
	"time"

	"github.com/routesrv/routesrv/poller"
	"github.com/routesrv/routesrv/publish"
)

// sink returns the receiver of the publisher's tables: the cache, wrapped to trace publications if traces are on.
func (s *Server) sink() publish.Sink {
	if s.cfg.Tracing == nil {
		return s.cache
	}
	return s.cfg.Tracing.Sink(s.cache)
}

// traceReads returns the hook of the poller, or nil without traces.
func (s *Server) traceReads() func(time.Time) poller.ReadTrace {
	if s.cfg.Tracing == nil {
		return nil
	}
	return s.cfg.Tracing.Read
}

// sendTraces exports traces until the returned function is called, which also flushes the remaining ones.
func (s *Server) sendTraces(ctx context.Context) (stop func()) {
	if s.cfg.Tracing == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var sending sync.WaitGroup
	sending.Go(func() { _ = s.cfg.Tracing.Run(ctx) }) // always returns nil
	return func() {
		cancel()
		sending.Wait()
	}
}
