package config

import (
	"log/slog"

	"github.com/routesrv/routesrv/compile/rules"
	"github.com/routesrv/routesrv/guard"
)

// NewRouteServer returns a parser with all flags of the route server, which fills c. The caller may add its own flags before
// parsing.
func NewRouteServer(cmd Command, c *RouteServer) *Parser {
	p := NewParser(cmd)
	p.Source(&c.Source)
	p.Poll(&c.Poll)
	p.Compile(&c.Compile)
	p.Guard(&c.Guard, guard.DefaultKeep)
	p.Review(&c.Review)
	c.RefuseTakeovers = "none"
	p.Flag("refuse-takeovers", Choice(&c.RefuseTakeovers, "none", "namespace", "object"))
	p.Listen(&c.Listen, &c.Source)
	p.TLS(&c.TLS)
	p.RequestFilters(&c.RequestFilters)
	p.Shards(&c.Shards)
	p.Log(&c.Log)
	p.Tracing(&c.Tracing)
	p.Flag("state-dir", Text("string", &c.StateDir, ""))
	p.History(&c.History)
	p.Upstream(c)
	p.Peers(c)
	p.Events(c)
	p.Timing(&c.Source, &c.Poll, &c.Upstream.FullEvery, &c.Upstream.Timeout, ShutdownTime(&c.Listen.ShutdownTimeout, DefaultShutdownTimeout))
	p.CompileFrom(&c.Compile, &c.Source, &c.Log)
	p.check(func() { c.Source.Namespaces = c.Review.KeepTakeovers.Routes > 0 })
	return p
}

// CompileFrom fills the options of the compiler that follow from other groups of flags, once those are parsed.
func (p *Parser) CompileFrom(o *rules.Options, s *Source, l *Log) {
	p.check(func() {
		o.EndpointSlices = s.EndpointSlices
		o.HealthcheckAccessLog = l.Level <= slog.LevelDebug // as in the reference
	})
}

// ParseRouteServer reads the configuration of the route server from its arguments, without the name of the program, and from env.
// The caller must log the warnings, even with an error.
//
// The error is [ErrHelp] after printing the help to env.Output, [ErrVersion] if the version was requested, or [ErrChecked] if only a check
// was requested, the settings are valid, and env.Output has the result. Otherwise it joins an [*Error] for each mistake.
func ParseRouteServer(args []string, env Env) (*RouteServer, []Warning, error) {
	var c RouteServer
	return parsed(&c, routeServerParser(&c), args, env)
}

// parsed parses, and returns what the parser fills, or nil with an error.
func parsed[T any](c *T, p *Parser, args []string, env Env) (*T, []Warning, error) {
	_, warnings, err := p.Parse(args, env)
	if err != nil {
		return nil, warnings, err
	}
	return c, warnings, nil
}

// routeServerParser returns the parser of the route server itself.
func routeServerParser(c *RouteServer) *Parser {
	p := NewRouteServer(Command{Name: "routesrv", Skipper: true}, c)
	p.check(func() { p.requireSource(c) })
	return p
}

// Compile is what the command compile does.
type Compile struct {
	RouteServer
	// Against is the support listener of the route server that is asked what the manifests would take from others; empty means that the
	// table is printed. Output is the form of its answer.
	Against, Output string
}

// ParseCompile is ParseRouteServer for the command that prints a table. Its positional arguments are manifests, like the values
// of --manifests, and replace a cluster that other settings name.
func ParseCompile(args []string, env Env) (*Compile, []Warning, error) {
	c := Compile{Output: "text"}
	p := NewRouteServer(Command{Name: "routesrv compile", Args: "PATH...", MaxArgs: -1, Skipper: true}, &c.RouteServer)
	p.Ask("against", Text("URL", &c.Against, ""))
	p.Ask("output", Choice(&c.Output, "text", "json", "markdown"))
	p.take = func(paths []string) {
		if len(paths) > 0 && c.Source.Kubernetes {
			p.warn("kubernetes", "has no effect: the manifests are read")
			c.Source.Kubernetes = false
		}
		c.Source.Manifests = append(c.Source.Manifests, paths...)
		if len(c.Upstream.URLs) > 0 {
			p.warn("upstream", "has no effect: the manifests are read")
			c.Upstream.URLs = nil
		}
	}
	p.check(func() { p.requireSource(&c.RouteServer) })
	return parsed(&c, p, args, env)
}

// DefaultWebhookAddress is the default main listener of a webhook.
const DefaultWebhookAddress = ":9443"

// ParseWebhook is [ParseRouteServer] for the webhook command. It always serves TLS, so the settings must name a certificate. The
// default address is [DefaultWebhookAddress].
func ParseWebhook(args []string, env Env) (*RouteServer, []Warning, error) {
	var c RouteServer
	p := NewRouteServer(Command{Name: "routesrv webhook", Skipper: true}, &c)
	p.take = func([]string) { // before the settings are checked
		if len(c.TLS.CertFiles) == 0 {
			p.failf("tls-cert", "API servers talk to webhooks by TLS only: set -tls-cert and -tls-key")
		} else {
			c.TLS.Enable = true
			p.Derive("enable-tls", "true", "routesrv webhook")
		}
		if !p.Given("address") {
			c.Listen.Address = DefaultWebhookAddress
			p.Derive("address", DefaultWebhookAddress, "routesrv webhook")
		}
		if len(c.Upstream.URLs) > 0 {
			p.failf("upstream", "a webhook reads the objects itself: set -kubernetes instead")
		}
	}
	p.check(func() { p.requireSource(&c) })
	return parsed(&c, p, args, env)
}
