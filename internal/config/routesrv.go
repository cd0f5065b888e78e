package config

import (
	"log/slog"
	"time"

	"github.com/routesrv/routesrv/compile/rules"
	"github.com/routesrv/routesrv/guard"
)

// serverIntro and compileIntro are the first paragraphs of the help texts.
const (
	serverIntro = `Reads Ingresses and RouteGroups once for a whole fleet of proxies, compiles them into one routing
table, and serves it to every proxy under /routes. Flags with one dash below are Skipper's, those
with two dashes are new; both forms work for both.

Try it with a folder of manifests, on the loopback interface only:
    routesrv --manifests ./manifests
    curl -i http://127.0.0.1:9090/routes

Read a cluster from outside:
    routesrv -kubernetes --kubeconfig ~/.kube/config --kubeconfig-context staging

In a cluster, with a copy of the table that survives a restart:
    routesrv -kubernetes -kubernetes-in-cluster -address=:9090 -support-listener=:9911 \
        -source-poll-timeout=3000 -wait-for-healthcheck-interval=65s --state-dir=/var/lib/routesrv

As a relay, which serves the table of other route servers to part of a large fleet:
    routesrv --upstream=http://routesrv-a,http://routesrv-b --state-dir=/var/lib/routesrv

Proxies then run without -kubernetes, with -routes-urls=http://routesrv/routes.

SIGTERM drains and stops the server; a second one stops it at once. SIGHUP reads the source at
once, without waiting for the next poll.
`
	compileIntro = `Compiles manifests into a routing table and prints it, without a server. It accepts all flags of the
server, so you can try the arguments or the configuration file of a Deployment unchanged.

Compile this folder with the settings of production:
    routesrv compile -config-file production.yaml ./manifests

Ask a route server which requests of others these objects would take, for a pull request:
    routesrv compile --against http://127.0.0.1:9911 -o markdown ./manifests

The exit status is 0 if there is no problem, or with --against if the objects take nothing, 1 if there is one or if they do or
may, and 2 after an error.
`
)

func serverCommand() Command {
	return Command{Name: "routesrv", Intro: serverIntro, Skipper: true}
}

func compileCommand() Command {
	return Command{Name: "routesrv compile", Args: "PATH...", Intro: compileIntro, MaxArgs: -1, Skipper: true}
}

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
	p.Group(GroupGuard).Own("refuse-takeovers", Choice(&c.RefuseTakeovers, "none", "namespace", "object"), "Which objects routesrv webhook refuses because they "+
		"would take requests from routes of others: those of other namespaces, or of any other object. Otherwise it only warns. The server itself ignores this "+
		"flag, so that both can read one file.")
	p.Listen(&c.Listen, &c.Source)
	p.TLS(&c.TLS)
	p.RequestFilters(&c.RequestFilters)
	p.Shards(&c.Shards)
	p.Log(&c.Log)
	p.Tracing(&c.Tracing)
	p.StateDir(&c.StateDir)
	p.Upstream(c)
	p.Peers(c)
	p.Events(c)
	p.Timing(&c.Source, &c.Poll, &c.Upstream.FullEvery, &c.Upstream.Timeout, ShutdownTime(&c.Listen.ShutdownTimeout, 30*time.Second))
	p.CompileFrom(&c.Compile, &c.Source, &c.Log)
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
// The error is [ErrHelp] after printing the help to env.Output, [ErrVersion] if the version was requested, or a [*Checked], which
// is [ErrChecked], if only a check was requested and the settings are valid. Otherwise it joins an [*Error] for each mistake.
func ParseRouteServer(args []string, env Env) (*RouteServer, []Warning, error) {
	var c RouteServer
	_, warnings, err := routeServerParser(&c).Parse(args, env)
	if err != nil {
		return nil, warnings, err
	}
	return &c, warnings, nil
}

// routeServerParser returns the parser of the route server itself.
func routeServerParser(c *RouteServer) *Parser {
	p := NewRouteServer(serverCommand(), c)
	p.check(func() {
		if len(c.Upstream.URLs) == 0 {
			p.requireSource(&c.Source)
		}
	})
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
	p := NewRouteServer(compileCommand(), &c.RouteServer)
	g := p.Group("Against a cluster")
	g.Ask("against", "", Text("URL", &c.Against, ""), "Support listener of a route server. Instead of the table, print which requests of other owners the "+
		"Ingresses and RouteGroups would take if they were in its cluster.")
	g.Ask("output", "o", Choice(&c.Output, "text", "json", "markdown"), "Form of what --against prints; markdown is for pull requests.")
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
	p.check(func() { p.requireSource(&c.Source) })
	_, warnings, err := p.Parse(args, env)
	if err != nil {
		return nil, warnings, err
	}
	return &c, warnings, nil
}
