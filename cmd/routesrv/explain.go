package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/routesrv/routesrv/compile"
	"github.com/routesrv/routesrv/compile/rules"
	"github.com/routesrv/routesrv/explain"
	"github.com/routesrv/routesrv/internal/cli"
	"github.com/routesrv/routesrv/internal/config"
	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/match"
	"github.com/routesrv/routesrv/shadowdiff"
)

const explainIntro = `Explains what happened to an Ingress or RouteGroup: the fault first, in words for the author of the object. Then it shows
whether and why the object was selected, its services and their endpoints, its problems, its routes, other objects with the
same hosts, and which object gets the requests that its routes are for. WHAT is one of

    ingress NAMESPACE/NAME, routegroup NAMESPACE/NAME (or ing, rg)
    the id of a route
    a host, such as shop.example.org

and PLACE is one of

    the URL of the support listener of a route server, such as http://routesrv:9911
    a file or folder of manifests, which is compiled with the flags of the server

The exit status is 0 if nothing is wrong, 1 if something is wrong or the object does not exist, and 2 after an error.

Why does my Ingress answer 502?
    routesrv explain ingress shop/cart http://routesrv:9911

Which objects serve this host?
    routesrv explain shop.example.org http://routesrv:9911

Will it work once these manifests are applied?
    routesrv explain routegroup shop/cart ./manifests
`

// explainOptions are the settings of routesrv explain.
type explainOptions struct {
	server  config.RouteServer // for manifests
	query   explain.Query
	place   string
	output  string
	timeout time.Duration
	tls     cli.TLS
}

// explainFlags documents the flags of the command.
func explainFlags() []config.FlagDoc {
	_, p := newExplainParser()
	return p.Flags()
}

func newExplainParser() (*explainOptions, *config.Parser) {
	o := &explainOptions{output: "text", timeout: 30 * time.Second}
	p := config.NewRouteServer(config.Command{
		Name: "routesrv explain", Args: "WHAT... PLACE", Intro: explainIntro, MinArgs: 2, MaxArgs: 3, Skipper: true,
	}, &o.server)
	output := choice(&o.output, "text", "json")
	p.Flag(groupExplain, "output", output, "Form of the result: text, or json (schema "+explain.Schema+").")
	p.Flag(groupExplain, "o", output, "Short for --output.")
	p.Flag(groupExplain, "timeout", period(&o.timeout), "Time limit for the answer of a route server.")
	tlsFlags(p, groupExplain, &o.tls)
	return o, p
}

func parseExplain(args []string, env config.Env) (*explainOptions, []config.Warning, error) {
	o, p := newExplainParser()
	words, warnings, err := p.Parse(args, env)
	if len(words) < 2 {
		return o, warnings, err
	}
	o.place = words[len(words)-1]
	var wrong error
	if o.query, wrong = explain.ParseQuery(words[:len(words)-1]...); wrong != nil && err == nil {
		err = &config.Error{Flag: "WHAT", Err: wrong}
	}
	return o, warnings, err
}

// groupExplain groups the output flags in the help.
const groupExplain config.Group = "Answer"

// runExplain explains an object. The exit status is 0 if nothing is wrong, 1 if something is wrong, and 2 on trouble.
func runExplain(ctx context.Context, args []string, env config.Env, std config.Stdio) int {
	opts, warnings, err := parseExplain(args, env)
	if status, ok := program().Configured(warnings, err, std); !ok {
		return status
	}
	program().PrintWarnings(warnings, std)
	trouble := func(err error) int {
		fmt.Fprintln(std.Err, "routesrv explain:", shadowdiff.Printable(err.Error()))
		return config.ExitUnusable
	}
	from := opts.fromManifests
	if strings.HasPrefix(opts.place, "http://") || strings.HasPrefix(opts.place, "https://") {
		from = opts.fromServer
	}
	e, err := from(ctx, std)
	if err != nil {
		return trouble(err)
	}
	if opts.output == "json" {
		err = shadowdiff.WriteJSONValue(std.Out, e, "  ")
	} else {
		err = e.WriteText(std.Out)
	}
	if err != nil {
		return trouble(fmt.Errorf("print the explanation: %w", err))
	}
	return cli.ExplanationStatus(e)
}

// fromManifests compiles a file or folder. If the manifests have no endpoints at all, the explanation does not mention pods.
func (o *explainOptions) fromManifests(ctx context.Context, std config.Stdio) (*explain.Explanation, error) {
	compiler, err := compile.New(o.server.Compile)
	if err != nil {
		return nil, err
	}
	from := o.server.Source
	from.Kubernetes, from.Manifests, from.Watch = false, []string{o.place}, false
	source, _, err := config.NewSource(from, std.In, config.NewLogger(o.server.Log, std.Err), prometheus.NewRegistry())
	if err != nil {
		return nil, err
	}
	snapshot, err := source.Read(ctx, kube.ReadOptions{})
	if err != nil {
		return nil, err
	}
	return explain.Explain(explain.Input{
		Result: compiler.Compile(snapshot), Namespace: from.Namespace, Selectors: from.Selectors,
		Classes: map[kube.Kind]string{kube.KindIngress: o.server.Compile.IngressClass, kube.KindRouteGroup: o.server.Compile.RouteGroupClass},
		Proxy:   proxyOptions(o.server.Compile), WithoutPods: len(snapshot.Endpoints)+len(snapshot.EndpointSlices) == 0,
	}, o.query), nil
}

// proxyOptions returns what the flags of the route server say about the proxies.
func proxyOptions(o rules.Options) match.Options {
	return match.Options{
		ValidateQuery: true, ForwardBackendURL: o.ForwardBackendURL, ExtraFilters: o.ExtraFilters, ExtraPredicates: o.ExtraPredicates,
	}
}
