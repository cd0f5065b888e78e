package sidecar

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

// maxConnections bounds the main listener, which is for one proxy.
const maxConnections = 1000

// Run serves until ctx ends, then shuts down in order, and returns nil. It returns an error if the main listener cannot
// be opened or fails. If ctx has ended already, nothing is opened.
//
// The order of the end: everything goes on for the time of Drain; then the main listener closes and requests have until
// the deadline to end; then the support listener; then the conductor with its producers, so that what was served was
// fresh.
func (s *Sidecar) Run(ctx context.Context) error {
	if ctx.Err() != nil {
		return nil
	}
	listener, err := s.cfg.Listen("tcp", s.cfg.Address)
	if err != nil {
		return fmt.Errorf("open listener (--address): %w", err)
	}
	loop, stopLoop := context.WithCancel(context.WithoutCancel(ctx))
	defer stopLoop()
	var background sync.WaitGroup
	background.Go(func() { s.RunTables(loop) })
	background.Go(s.serveSupport)

	ended := make(chan struct{})
	go func() {
		defer close(ended)
		err = s.serveMain(listener)
	}()
	select {
	case <-ended:
	case <-ctx.Done():
		s.drain(ended)
	}
	deadline, cancel := context.WithTimeout(context.Background(), s.cfg.ShutdownTimeout)
	defer cancel()
	httpserve.Shutdown(deadline, s.main, "main", s.log)
	httpserve.Shutdown(deadline, s.support, "support", s.log)
	<-ended
	stopLoop()
	background.Wait()
	return err
}

// RunTables runs everything but the listeners until ctx ends: for a program that has its own, and serves [Sidecar.Handler].
func (s *Sidecar) RunTables(ctx context.Context) {
	s.started.Store(time.Now().UnixNano())
	var background sync.WaitGroup
	if s.modes != nil {
		background.Go(func() { s.modes.watch(ctx, s.conductor.set) })
	}
	s.conductor.run(ctx)
	background.Wait()
}

func (s *Sidecar) serveMain(l net.Listener) error {
	s.log.Info("main listener open", "address", l.Addr().String())
	err := s.main.Serve(s.mainConns.Listener(s.cache.WrapListener(l)))
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("main listener (--address): %w", err)
}

// serveSupport serves operators. The proxy does not need it: if it fails that is said and not more.
func (s *Sidecar) serveSupport() {
	if s.cfg.SupportAddress == "" {
		return
	}
	l, err := s.cfg.Listen("tcp", s.cfg.SupportAddress)
	if err == nil {
		s.log.Info("support listener open", "address", l.Addr().String())
		err = s.support.Serve(s.supConns.Listener(l))
	}
	if err != nil && !errors.Is(err, http.ErrServerClosed) {
		s.log.Error("failed support listener: no metrics, no status (--support-listener)", "error", err)
	}
}

// drain goes on until nobody needs it any more, but not longer than the main listener.
func (s *Sidecar) drain(ended <-chan struct{}) {
	s.log.Info("shutting down", "drain", s.cfg.Drain)
	timer := time.NewTimer(s.cfg.Drain)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ended:
	}
}
