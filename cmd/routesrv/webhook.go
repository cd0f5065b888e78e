package main

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/routesrv/routesrv/internal/config"
	"github.com/routesrv/routesrv/internal/webhook"
)

// runWebhook answers admission requests of API servers for Ingresses and RouteGroups until ctx ends. It returns the exit status
// of the webhook server.
func runWebhook(ctx context.Context, args []string, env config.Env, std config.Stdio) int {
	return serve(ctx, std, func() (*config.RouteServer, []config.Warning, error) { return config.ParseWebhook(args, env) },
		func(cfg *config.RouteServer, log *slog.Logger) (config.Service, error) {
			return newWebhook(cfg, log, std)
		})
}

// newWebhook wires a webhook server from its configuration.
func newWebhook(cfg *config.RouteServer, log *slog.Logger, std config.Stdio) (*webhook.Server, error) {
	registry := prometheus.NewRegistry()
	source, _, err := config.NewSource(cfg.Source, std.In, log, registry)
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
func newTrialFailures(cfg *config.RouteServer, log *slog.Logger, reg prometheus.Registerer) (webhook.Failures, error) {
	if len(cfg.Peers) == 0 {
		return nil, nil
	}
	transport, err := config.NewTransport("", cfg.UpstreamTLS, log, reg)
	if err != nil {
		return nil, fmt.Errorf("--upstream-tls: %w", err)
	}
	return webhook.FailuresOf(cfg.Peers, transport), nil
}
