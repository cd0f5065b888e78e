package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"runtime"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/routesrv/routesrv/app/options"
	"github.com/routesrv/routesrv/app/program"
	"github.com/routesrv/routesrv/app/server"
	"github.com/routesrv/routesrv/app/webhook"
	"github.com/routesrv/routesrv/dataplane"
	"github.com/routesrv/routesrv/fleet"
)

// newServer wires a route server from its options.
func newServer(o *options.RouteServer, log *slog.Logger, stdin io.Reader) (program.Service, error) {
	runtime.SetBlockProfileRate(o.Profile.Block)
	runtime.SetMutexProfileFraction(o.Profile.Mutex)
	runtime.MemProfileRate = cmp.Or(o.Profile.Memory, runtime.MemProfileRate)
	registry := prometheus.NewRegistry()
	cfg := o.Server
	cfg.Version, cfg.Logger, cfg.Registry = program.VersionName(version), log, registry
	var err error
	if len(cfg.Upstream.URLs) == 0 {
		cfg.Source, cfg.Origin, err = program.NewSource(o.Source, stdin, log, registry)
	} else if cfg.Upstream.Transport, err = program.NewTransport("", o.UpstreamTLS, log, registry); err != nil {
		err = fmt.Errorf("--upstream-tls: %w", err)
	}
	if err != nil {
		return nil, err
	}
	cfg.Upstream.Memory = program.MemoryLimit()
	if o.Events {
		events, err := program.NewEvents(o.Source, log, registry)
		if err != nil {
			return nil, fmt.Errorf("--events: %w", err)
		}
		cfg.Events = events.Run
	}
	if err := setPeers(&cfg, o, log, registry); err != nil {
		return nil, err
	}
	return server.New(cfg)
}

// setPeers sets the functions that query the other replicas, unless no peers are set. A relay queries them for clients only.
func setPeers(to *server.Config, o *options.RouteServer, log *slog.Logger, reg prometheus.Registerer) error {
	if len(o.Peers) == 0 {
		return nil
	}
	peers := dataplane.PeersConfig{
		URLs: o.Peers, MaxBytes: o.Server.Upstream.MaxBytes, Memory: program.MemoryLimit(), Logger: log.With("component", "peers"),
		Transport: func(address string) (http.RoundTripper, error) {
			return program.NewTransport(address, o.UpstreamTLS, log, nil)
		},
	}
	if _, text, err := net.SplitHostPort(to.SupportAddress); err == nil { // theirs has the same port
		if port, err := strconv.Atoi(text); err == nil {
			ask := dataplane.PeersConfig{URLs: o.Peers}
			to.PeerClients = func(ctx context.Context) []fleet.Answer { return dataplane.PeerClients(ctx, ask, port) }
		}
	}
	if len(to.Upstream.URLs) > 0 {
		return nil
	}
	if _, err := program.NewTransport("", o.UpstreamTLS, log, reg); err != nil { // bad files end the start
		return fmt.Errorf("--upstream-tls: %w", err)
	}
	to.Peers = func(ctx context.Context) (dataplane.PeerTable, error) { return dataplane.AskPeers(ctx, peers) }
	to.FromPeers = func(ctx context.Context, path string, first bool, read func(io.Reader) error) error {
		return dataplane.FromPeers(ctx, peers, path, first, read)
	}
	return nil
}

// newWebhook wires a webhook from its options.
func newWebhook(o *options.RouteServer, log *slog.Logger, stdin io.Reader) (program.Service, error) {
	registry := prometheus.NewRegistry()
	source, _, err := program.NewSource(o.Source, stdin, log, registry)
	if err != nil {
		return nil, err
	}
	s := &o.Server
	return webhook.New(webhook.Config{
		Source: source, Compile: s.Compile, Scope: s.Selection, RefuseTakeovers: s.Review.KeepTakeovers.Routes > 0,
		Interval: s.Interval, MaxBackoff: s.MaxBackoff, Address: s.Address, SupportAddress: s.SupportAddress, TLS: s.TLS,
		MaxConnections: s.MaxConnections, WaitForHealthcheckInterval: s.WaitForHealthcheckInterval, ShutdownTimeout: s.ShutdownTimeout,
		Logger: log, Registry: registry,
	})
}
