package main

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/routesrv/routesrv/internal/cli"
	"github.com/routesrv/routesrv/internal/config"
	"github.com/routesrv/routesrv/internal/source/tables"
	"github.com/routesrv/routesrv/match"
	"github.com/routesrv/routesrv/match/report"
)

const matchIntro = `Finds the route that a Skipper would pick for a request, without sending the request: the route with its owner,
filters and backend, the next best routes with the predicate that failed, and the routes that would have matched if
the proxy had not refused them. TABLE is one of

    a file of routes, such as the copy that a data plane keeps
    a file or folder of manifests, which is compiled with the flags of the server
    the URL of a route server, such as http://routesrv/routes
    the URL of the support listener of a Skipper, such as http://10.2.0.7:9911/routes
    -, routes on standard input

URL is the URL of the request, as for curl, or a path together with -H 'Host: NAME'. The request has only the
headers of -H. A proxy does not see the scheme of the URL: if your load balancer sets X-Forwarded-Proto, add it
with -H.

An answer that depends on chance, on the state of a proxy or on a missing option is undecided: every possible outcome
is listed with its conditions. The exit status is 0 if a route matches, even if it is undecided which one; 1 if none
does, if it is undecided whether one does, or if a proxy answers the request itself; and 2 after an error.

Which route takes this request?
    routesrv match https://shop.example.org/cart http://routesrv/routes

The same for a POST with a header, from a client address that predicates check:
    routesrv match -X POST -H 'X-Beta: 1' --from 10.2.0.1 https://shop.example.org/cart http://routesrv/routes

Which route would it be with these manifests, on Christmas Eve?
    routesrv match --at 2026-12-24T18:00:00+01:00 https://shop.example.org/cart ./manifests
`

// groupMatch groups the flags of the request and the proxy in the help.
const groupMatch config.Group = "Request and proxy"

// matchOptions are the settings of routesrv match.
type matchOptions struct {
	server  config.RouteServer // for manifests
	request match.Request
	proxy   match.Options
	output  string
	timeout time.Duration
	url     string // as given
	place   string // of the table
	tls     cli.TLS
}

// matchFlags documents the flags of the command.
func matchFlags() []config.FlagDoc {
	_, p := newMatchParser()
	return p.Flags()
}

func newMatchParser() (*matchOptions, *config.Parser) {
	o := &matchOptions{output: "text", timeout: tables.DefaultTimeout}
	o.request.Header = map[string][]string{}
	o.proxy = match.Options{ValidateQuery: true, Candidates: match.DefaultCandidates, Zone: time.LoadLocation}
	p := config.NewRouteServer(config.Command{
		Name: "routesrv match", Args: "URL TABLE", Intro: matchIntro, MinArgs: 2, MaxArgs: 2, Skipper: true,
	}, &o.server)
	o.requestFlags(p)
	o.proxyFlags(p)
	tlsFlags(p, groupMatch, &o.tls)
	return o, p
}

// parseMatch reads the command line of routesrv match, the environment and the configuration file.
func parseMatch(args []string, env config.Env) (*matchOptions, []config.Warning, error) {
	o, p := newMatchParser()
	places, warnings, err := p.Parse(args, env)
	if err != nil && !errors.Is(err, config.ErrChecked) {
		return o, warnings, err
	}
	o.url, o.place = places[0], places[1]
	if err := report.SetURL(&o.request, o.url); err != nil {
		return o, warnings, &config.Error{Flag: "URL", Err: err}
	}
	if o.server.Source.Kubernetes {
		warnings = append(warnings, config.Warning{Flag: "-kubernetes", Text: "has no effect: the table is TABLE"})
	}
	if len(o.server.Source.Manifests) > 0 {
		warnings = append(warnings, config.Warning{Flag: "--manifests", Text: "has no effect: the table is TABLE"})
	}
	o.proxy.ExtraFilters = append(o.proxy.ExtraFilters, o.server.Compile.ExtraFilters...)
	o.proxy.ExtraPredicates = append(o.proxy.ExtraPredicates, o.server.Compile.ExtraPredicates...)
	o.proxy.ForwardBackendURL = o.server.Compile.ForwardBackendURL
	return o, warnings, err
}

func (o *matchOptions) requestFlags(p *config.Parser) {
	p.Flag(groupMatch, "X", flagValue{kind: "METHOD", def: "GET", set: func(s string) error {
		if s == "" || strings.ContainsAny(s, " \t\r\n") {
			return fmt.Errorf("%q: want a method such as POST", s)
		}
		o.request.Method = s
		return nil
	}}, "Method of the request, compared as it is written.")
	p.Flag(groupMatch, "H", flagValue{kind: "'NAME: VALUE'", repeated: true, set: func(s string) error { return report.AddHeader(&o.request, s) }}, "Header of the request. May be "+
		"repeated. Host replaces the host of the URL; Content-Length is the length of the body.")
	p.Flag(groupMatch, "from", flagValue{kind: "ADDRESS", set: func(s string) error {
		if _, err := netip.ParseAddr(s); err != nil {
			return fmt.Errorf("%q: want the IP address from which the connection comes", s)
		}
		o.request.RemoteAddr = s
		return nil
	}}, "Address of the connection: that of the load balancer if one is in front of the proxy. Without it, predicates that "+
		"need it are undecided. Set the client behind a load balancer with -H 'X-Forwarded-For: ADDRESS'.")
	p.Flag(groupMatch, "at", flagValue{kind: "TIME", def: "now", set: func(s string) error {
		t, err := time.Parse(time.RFC3339, s)
		if err != nil {
			return fmt.Errorf("%q: want a time as in 2026-12-24T18:00:00+01:00", s)
		}
		o.request.Time = t
		return nil
	}}, "When the request arrives. Cron uses the zone that you write here; now is in UTC, as in most containers. Without this "+
		"flag a predicate with a limit in the next or last 5 seconds is undecided.")
	output := choice(&o.output, "text", "json")
	p.Flag(groupMatch, "output", output, "Form of the result: text, or json (schema "+report.Schema+").")
	p.Flag(groupMatch, "o", output, "Short for --output.")
	p.Flag(groupMatch, "candidates", flagValue{kind: "N", def: strconv.Itoa(match.DefaultCandidates), set: func(s string) error {
		n, err := strconv.Atoi(s)
		if err != nil || n < 0 || n > 1000 {
			return fmt.Errorf("%q: want a number from 0 to 1000", s)
		}
		if o.proxy.Candidates = n; n == 0 {
			o.proxy.Candidates = -1
		}
		return nil
	}}, "Number of next best routes to show.")
	p.Flag(groupMatch, "timeout", period(&o.timeout), "Time limit for the table from a URL.")
}

func (o *matchOptions) proxyFlags(p *config.Parser) {
	for _, f := range []struct {
		name, usage string
		dst         *bool
	}{
		{"normalize-host", "Compare hosts in lower case, without port and trailing dot. Proxies that read the cluster " +
			"themselves do that; proxies of a route server only with this flag.", &o.proxy.NormalizeHost},
		{"ignore-trailing-slash", "Ignore a slash at the end of a path.", &o.proxy.IgnoreTrailingSlash},
		{"rfc-patch-path", "Escaped reserved characters in the path stay escaped.", &o.proxy.RFCPatchPath},
		{"validate-query", "Answer requests with a malformed query with 400.", &o.proxy.ValidateQuery},
	} {
		p.Flag(groupMatch, f.name, flagValue{kind: "bool", def: strconv.FormatBool(*f.dst), boolean: true, set: func(s string) (err error) {
			if *f.dst, err = strconv.ParseBool(s); err != nil {
				err = fmt.Errorf("%q: want true or false", s)
			}
			return err
		}}, "Set it if the proxies have it. "+f.usage)
	}
	for _, f := range []struct {
		name, usage string
		dst         *[]string
	}{
		{"disabled-filters", "Filters of Skipper that the proxies disable, separated by commas.", &o.proxy.DisabledFilters},
		{"extra-filters", "Filters that the proxies have in addition to those of Skipper, separated by commas.", &o.proxy.ExtraFilters},
		{"extra-predicates", "Predicates that the proxies have in addition to those of Skipper, separated by commas. They are " +
			"undecided.", &o.proxy.ExtraPredicates},
	} {
		p.Flag(groupMatch, f.name, flagValue{kind: "LIST", set: func(s string) error {
			*f.dst = nil
			for name := range strings.SplitSeq(s, ",") {
				if name = strings.TrimSpace(name); name != "" {
					*f.dst = append(*f.dst, name)
				}
			}
			return nil
		}}, f.usage)
	}
}
