// Command dataplane-client runs beside an ingress proxy and serves it a routing table: one that it fetches from route
// servers, verifies and keeps, or one that it computes itself, by a mode that can be changed while it runs.
//
//	dataplane-client [flags]   serve
//	dataplane-client version   print the version
//
// SIGHUP reads the mode file at once. The exit status is 0 after a normal end, 2 if the program could not start, and 1 if
// it failed later.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/routesrv/routesrv/config"
	"github.com/routesrv/routesrv/setup"
	"github.com/routesrv/routesrv/sidecar"
)

// version is set by the linker for a release.
var version string

// Exit statuses.
const (
	exitOK       = 0
	exitFailed   = 1
	exitUnusable = 2 // the program cannot run as it was called
)

// stdio are the standard streams of the process.
type stdio struct {
	in       io.Reader
	out, err io.Writer
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	// The second signal ends the process at once: whoever sends it does not want to wait for the draining.
	context.AfterFunc(ctx, stop)
	hup := make(chan os.Signal, 1)
	signal.Notify(hup, syscall.SIGHUP)
	setGCPercent()
	status := run(ctx, hup, os.Args[1:], os.Environ(), stdio{os.Stdin, os.Stdout, os.Stderr})
	stop()
	os.Exit(status)
}

// gcPercent trades a little processor time for memory, as in routesrv: nearly all of the heap is the table, and a table that
// comes in is not to take twice its size while garbage waits (docs/operations.md).
const gcPercent = 25

// setGCPercent leaves the decision to GOGC where that is set.
func setGCPercent() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
}

// run is the whole program. It ends when ctx does.
func run(ctx context.Context, hup <-chan os.Signal, args, environ []string, std stdio) int {
	if len(args) > 0 && args[0] == "version" {
		fmt.Fprintln(std.out, setup.VersionText("dataplane-client", version))
		return exitOK
	}
	f, warnings, err := parse(args, config.Env{Environ: environ, ReadFile: setup.ReadFile(ctx), Output: std.out})
	switch {
	case errors.Is(err, config.ErrHelp):
		return exitOK
	case errors.Is(err, config.ErrVersion):
		fmt.Fprintln(std.out, setup.VersionText("dataplane-client", version))
		return exitOK
	case errors.Is(err, config.ErrChecked):
		printWarnings(warnings, std)
		fmt.Fprintln(std.out, "the settings can be used")
		return exitOK
	case err != nil:
		printWarnings(warnings, std)
		fmt.Fprintf(std.err, "dataplane-client: %v\ndataplane-client --help lists all flags\n", err)
		return exitUnusable
	}
	s, err := newSidecar(f, warnings, std)
	if err != nil {
		fmt.Fprintln(std.err, "dataplane-client:", err)
		return exitUnusable
	}
	return serve(ctx, hup, s, std)
}

func printWarnings(warnings []config.Warning, std stdio) {
	for _, w := range warnings {
		fmt.Fprintln(std.err, "dataplane-client: warning:", w)
	}
}

// serve runs the sidecar until ctx ends.
func serve(ctx context.Context, hup <-chan os.Signal, s *sidecar.Sidecar, std stdio) int {
	listening, stopListening := context.WithCancel(ctx)
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-listening.Done():
				return
			case <-hup:
				s.Reload()
			}
		}
	}()
	err := s.Run(ctx)
	stopListening()
	<-stopped
	if err != nil {
		fmt.Fprintln(std.err, "dataplane-client:", err)
		return exitFailed
	}
	return exitOK
}

// newSidecar wires a sidecar from its configuration.
func newSidecar(f *flags, warnings []config.Warning, std stdio) (*sidecar.Sidecar, error) {
	log := setup.Logger(f.log, std.err)
	for _, w := range warnings {
		log.Warn(w.Text, "flag", w.Flag, "where", w.Where)
	}
	cfg := f.sidecar
	cfg.Logger, cfg.Registry, cfg.Version = log, prometheus.NewRegistry(), setup.VersionName(version)
	if len(cfg.Fetch.URLs) > 0 {
		cfg.Fetch.Memory = setup.MemoryLimit()
		var err error
		if cfg.Fetch.Transport, err = setup.NewTransport(f.tls, log); err != nil {
			return nil, fmt.Errorf("--routesrv-ca-file, --routesrv-client-cert, --routesrv-client-key: %w", err)
		}
	}
	if f.source.Kubernetes || len(f.source.Manifests) > 0 {
		source, _, err := setup.Source(f.source, std.in, log, cfg.Registry)
		if err != nil {
			return nil, err
		}
		cfg.Source = source
	}
	return sidecar.New(cfg)
}
