package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"runtime"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/routesrv/routesrv/api"
	"github.com/routesrv/routesrv/app/options"
	"github.com/routesrv/routesrv/app/server"
	"github.com/routesrv/routesrv/app/tracing"
	"github.com/routesrv/routesrv/app/webhook"
	"github.com/routesrv/routesrv/dataplane"
	"github.com/routesrv/routesrv/fleet"
	"github.com/routesrv/routesrv/poller"
)

// runServe serves until ctx ends. SIGHUP reads the source at once.
func runServe(ctx context.Context, args []string, env options.Env, std options.Stdio) int {
	return options.Serve(ctx, program(), std, func() (*options.RouteServer, []options.Warning, error) { return options.ParseRouteServer(args, env) }, processOf, newServer)
}

func processOf(cfg *options.RouteServer) (options.Log, string) { return cfg.Log, cfg.StateDir }

// newServer wires a server from its configuration.
func newServer(cfg *options.RouteServer, log *slog.Logger, std options.Stdio) (options.Service, error) {
	setProfileRates(cfg.Listen)
	registry := prometheus.NewRegistry()
	source, origin, err := newSource(cfg, log, std, registry)
	if err != nil {
		return nil, err
	}
	writeEvents, err := newEvents(cfg, log, registry)
	if err != nil {
		return nil, fmt.Errorf("--events: %w", err)
	}
	traces, err := newTracer(cfg.Tracing, log, registry)
	if err != nil {
		return nil, fmt.Errorf("--otlp-endpoint: %w", err)
	}
	c := server.Config{
		RouteServer: *cfg, Source: source, Origin: origin, Version: options.VersionName(version),
		Events: writeEvents, Tracing: traces, PeerClients: newPeerClients(cfg), Logger: log, Registry: registry,
	}
	if err := setPeers(&c, cfg, log, registry); err != nil {
		return nil, err
	}
	return server.New(c)
}

// newSource returns the source of objects, or nil for a relay, and completes the client of its other route server.
func newSource(cfg *options.RouteServer, log *slog.Logger, std options.Stdio, reg prometheus.Registerer) (source poller.Source, origin string, err error) {
	if len(cfg.Upstream.URLs) == 0 {
		return options.NewSource(cfg.Source, std.In, log, reg)
	}
	if cfg.Upstream.Transport, err = options.NewTransport("", cfg.UpstreamTLS, log, reg); err != nil {
		return nil, "", fmt.Errorf("--upstream-tls: %w", err)
	}
	cfg.Upstream.Memory = options.MemoryLimit()
	return nil, "", nil
}

// newEvents returns the function that writes problems as Events, or nil if events are off.
func newEvents(cfg *options.RouteServer, log *slog.Logger, reg prometheus.Registerer) (func(context.Context, func() []poller.Problem), error) {
	if !cfg.Events {
		return nil, nil
	}
	cluster, err := options.NewEvents(cfg.Source, log, reg)
	if err != nil {
		return nil, err
	}
	return cluster.Run, nil
}

// newTracer returns the trace exporter, or nil if tracing is off.
func newTracer(cfg options.Tracing, log *slog.Logger, reg prometheus.Registerer) (*tracing.Tracer, error) {
	if cfg.Endpoint == "" {
		return nil, nil
	}
	return tracing.New(context.Background(), tracing.Config{
		Endpoint: cfg.Endpoint, Headers: cfg.Headers, Sample: cfg.Sample, Service: "routesrv", Version: options.VersionName(version),
		Logger: log, Registry: reg,
	})
}

// setPeers sets the functions that ask the other replicas, unless no peers are set or this is a relay.
func setPeers(to *server.Config, cfg *options.RouteServer, log *slog.Logger, reg prometheus.Registerer) error {
	if len(cfg.Peers) == 0 || len(cfg.Upstream.URLs) > 0 {
		return nil
	}
	asked, err := peersOf(cfg, log, reg)
	if err != nil {
		return err
	}
	to.Peers = func(ctx context.Context) (dataplane.PeerTable, error) { return dataplane.AskPeers(ctx, asked) }
	to.FromPeers = func(ctx context.Context, path string, first bool, read func(io.Reader) error) error {
		return dataplane.FromPeers(ctx, asked, path, first, read)
	}
	return nil
}

// peersOf returns how to ask the route servers of --peers. It reads the certificates once, so that bad files end the start.
func peersOf(cfg *options.RouteServer, log *slog.Logger, reg prometheus.Registerer) (dataplane.PeersConfig, error) {
	if _, err := options.NewTransport("", cfg.UpstreamTLS, log, reg); err != nil {
		return dataplane.PeersConfig{}, fmt.Errorf("--upstream-tls: %w", err)
	}
	return dataplane.PeersConfig{
		URLs: cfg.Peers, MaxBytes: cfg.Upstream.MaxBytes, Memory: options.MemoryLimit(), Logger: log.With("component", "peers"),
		Transport: func(address string) (http.RoundTripper, error) {
			return options.NewTransport(address, cfg.UpstreamTLS, log, nil)
		},
	}, nil
}

// newPeerClients returns the function that asks the other replicas for their clients, on the port of our own support listener. It
// returns nil if there are no peers or no support port.
func newPeerClients(cfg *options.RouteServer) func(context.Context) []fleet.Answer {
	_, text, err := net.SplitHostPort(cfg.Listen.SupportAddress)
	port, err2 := strconv.Atoi(text)
	if err != nil || err2 != nil || len(cfg.Peers) == 0 {
		return nil
	}
	peers := dataplane.PeersConfig{URLs: cfg.Peers}
	return func(ctx context.Context) []fleet.Answer { return dataplane.PeerClients(ctx, peers, port) }
}

// setProfileRates sets the profiling rates of the runtime. Zero keeps a rate unchanged.
func setProfileRates(l options.Listen) {
	if l.BlockProfileRate != 0 {
		runtime.SetBlockProfileRate(l.BlockProfileRate)
	}
	if l.MutexProfileFraction != 0 {
		runtime.SetMutexProfileFraction(l.MutexProfileFraction)
	}
	if l.MemProfileRate != 0 {
		runtime.MemProfileRate = l.MemProfileRate
	}
}

// runWebhook answers admission requests of API servers for Ingresses and RouteGroups until ctx ends. It returns the exit status
// of the webhook server.
func runWebhook(ctx context.Context, args []string, env options.Env, std options.Stdio) int {
	return options.Serve(ctx, program(), std, func() (*options.RouteServer, []options.Warning, error) { return options.ParseWebhook(args, env) }, processOf, newWebhook)
}

// newWebhook wires a webhook server from its configuration.
func newWebhook(cfg *options.RouteServer, log *slog.Logger, std options.Stdio) (options.Service, error) {
	registry := prometheus.NewRegistry()
	source, _, err := options.NewSource(cfg.Source, std.In, log, registry)
	if err != nil {
		return nil, err
	}
	failures, err := newTrialFailures(cfg, log, registry)
	if err != nil {
		return nil, err
	}
	return webhook.New(webhook.Config{
		Source: source, Failures: failures, Compile: cfg.Compile, Scope: cfg.Source.Selection, RefuseTakeovers: webhook.Refusal(cfg.RefuseTakeovers),
		Poll: cfg.Poll, Listen: cfg.Listen, TLS: cfg.TLS, Logger: log, Registry: registry,
	})
}

// newTrialFailures returns the function that asks the route servers of --peers what failed their trials; nil without --peers.
func newTrialFailures(cfg *options.RouteServer, log *slog.Logger, reg prometheus.Registerer) (webhook.Failures, error) {
	if len(cfg.Peers) == 0 {
		return nil, nil
	}
	asked, err := peersOf(cfg, log, reg)
	if err != nil {
		return nil, err
	}
	asked.Own = []netip.Addr{} // the webhook is no replica: a route server may have an address of this machine
	return func(ctx context.Context) (list []api.TrialFailure, err error) {
		ctx, cancel := context.WithTimeout(ctx, failuresTimeout)
		defer cancel()
		err = dataplane.FromPeers(ctx, asked, api.PathTrialFailures, true, func(r io.Reader) error {
			return json.NewDecoder(io.LimitReader(r, maxFailures)).Decode(&list)
		})
		return list, err
	}, nil
}

// Limits of a question about trials.
const (
	failuresTimeout = 2 * time.Second
	maxFailures     = 8 << 20 // bytes of an answer
)
