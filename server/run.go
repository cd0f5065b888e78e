package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/routesrv/routesrv/httpserve"
)

// Run serves until ctx ends, then shuts down in order, and returns nil. It returns an error if the main listener cannot
// be opened or fails. If ctx has ended already, nothing is opened.
//
// The order of the end: everything is served for the health check interval, so that load balancers notice; then the
// main listener closes and requests have until the deadline to end; then the support listener, which has shown all of
// this; then the loop, so that what was served was fresh; and last the checkpoint is written.
func (s *Server) Run(ctx context.Context) error {
	if ctx.Err() != nil {
		return nil
	}
	listener, err := s.cfg.Listen("tcp", s.cfg.Address)
	if err != nil {
		return fmt.Errorf("open main listener (-address): %w", err)
	}
	s.started = time.Now()
	loop, stopLoop := context.WithCancel(context.WithoutCancel(ctx))
	defer stopLoop()
	var background sync.WaitGroup
	var loopErr error
	background.Go(func() { loopErr = s.runTables(loop) })
	background.Go(s.serveSupport)

	ended := make(chan struct{})
	go func() {
		defer close(ended)
		err = s.serveMain(listener)
	}()
	select {
	case <-ended:
	case <-ctx.Done():
		s.lameDuck(ended)
	}
	s.shutdown()
	<-ended
	stopLoop()
	background.Wait()
	return errors.Join(err, loopErr)
}

// runTables makes tables until ctx ends. A server that has none yet asks its peers for one to compare the first with.
func (s *Server) runTables(ctx context.Context) error {
	if s.relay == nil && s.gate.Served() == nil {
		s.findPeer(ctx)
	}
	err := s.tables.Run(ctx)
	flush, cancel := context.WithTimeout(context.WithoutCancel(ctx), decisionsWait)
	defer cancel()
	if flushErr := s.decisions.Flush(flush); flushErr != nil {
		s.log.Error("file of decisions (--state-dir)", "error", flushErr)
	}
	return err
}

// findPeer finds what to compare the first table with, and says what that is.
func (s *Server) findPeer(ctx context.Context) {
	const nothing = "the first table is compared with nothing: there is no last-good file, and no table of another replica"
	if s.cfg.Peers == nil {
		s.log.Info(nothing, "reason", "no --peers")
		return
	}
	t, from, err := s.cfg.Peers(ctx)
	if err != nil {
		s.log.Warn(nothing, "reason", err)
		return
	}
	s.log.Info("the first table is compared with that of another replica", "peer", from, "count", t.Len(), "hash", t.Digest().String(),
		"revision", t.Revision())
	s.gate.CompareWith(t)
}

// decisionsWait is how long the end waits for decisions to be on disk.
const decisionsWait = 5 * time.Second

func (s *Server) serveMain(l net.Listener) error {
	s.log.Info("main listener open", "address", l.Addr().String(), "tls", s.main.TLSConfig != nil)
	l = s.mainConns.Listener(s.cache.WrapListener(l))
	var err error
	if s.main.TLSConfig != nil {
		err = s.main.ServeTLS(l, "", "")
	} else {
		err = s.main.Serve(l)
	}
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("main listener (-address): %w", err)
}

// serveSupport serves operators. Proxies do not need it: if it fails that is said and not more, as in the reference.
func (s *Server) serveSupport() {
	if s.cfg.SupportAddress == "" {
		s.log.Info("no support listener: no metrics, no status (-support-listener)")
		return
	}
	l, err := s.cfg.Listen("tcp", s.cfg.SupportAddress)
	if err == nil {
		s.log.Info("support listener open", "address", l.Addr().String())
		err = s.support.Serve(s.supConns.Listener(l))
	}
	if err != nil && !errors.Is(err, http.ErrServerClosed) {
		s.log.Error("failed support listener: no metrics, no status (-support-listener)", "error", err)
	}
}

// lameDuck goes on serving: load balancers have to notice by themselves that the pod is about to end. It does not wait for
// them once the main listener has ended.
func (s *Server) lameDuck(ended <-chan struct{}) {
	d := s.cfg.HealthcheckInterval
	s.log.Info(fmt.Sprintf("shutting down the server in %s...", d))
	var draining sync.WaitGroup
	defer draining.Wait()
	// Streams do not end by themselves. By the end of the window new connections go elsewhere.
	draining.Go(func() { s.cache.DrainStreams(d) })
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ended:
	}
}

// shutdown lets the requests of both listeners end, and cuts what has not ended by the deadline.
func (s *Server) shutdown() {
	var draining sync.WaitGroup
	defer draining.Wait()
	draining.Go(func() { s.cache.DrainStreams(0) }) // what is left of them
	ctx, cancel := context.WithTimeout(context.Background(), s.cfg.ShutdownTimeout)
	defer cancel()
	httpserve.Shutdown(ctx, s.main, "main", s.log)
	httpserve.Shutdown(ctx, s.support, "support", s.log)
}
