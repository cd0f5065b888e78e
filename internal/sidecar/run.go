package sidecar

import (
	"context"
	"sync"
	"time"
)

// maxConnections limits the main listener, which serves one proxy.
const maxConnections = 1000

// Run serves until ctx ends, then shuts down in order, and returns nil. It returns an error if the main listener cannot be opened
// or fails. If ctx has already ended, it opens nothing.
//
// The order of the shutdown is the one of [httpserve.Listeners]; the controller and its producers end last.
func (s *Sidecar) Run(ctx context.Context) error { return s.listeners.Run(ctx, s.RunTables) }

// RunTables runs everything except the listeners until ctx ends: for a program that has its own listeners and serves
// [Sidecar.Handler].
func (s *Sidecar) RunTables(ctx context.Context) {
	s.started.Store(time.Now().UnixNano())
	var background sync.WaitGroup
	background.Go(func() { s.report(ctx) })
	s.controller.run(ctx)
	background.Wait()
}
