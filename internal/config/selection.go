package config

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"

	"github.com/routesrv/routesrv/compile/rules"
	"github.com/routesrv/routesrv/eskip"
	"github.com/routesrv/routesrv/internal/catalogue"
)

// allowedExternalName is the only flag with a special YAML form.
const allowedExternalName = "kubernetes-allowed-external-name"

// lbAlgorithms are the values of -kubernetes-default-lb-algorithm.
var lbAlgorithms = []string{
	"roundRobin", "random", "consistentHash", "powerOfRandomNChoices", "weightedRoundRobin", "leastRequests",
}

// Compile adds the flags that determine how objects become a table. EndpointSlices and HealthcheckAccessLog have no flag here:
// see [Parser.CompileFrom].
func (p *Parser) Compile(o *rules.Options) {
	g := p.Group(GroupSelection)
	for _, c := range []struct {
		name, objects string
		dst           *string
	}{
		{"kubernetes-ingress-class", "Ingresses", &o.IngressClass},
		{"kubernetes-routegroup-class", "RouteGroups", &o.RouteGroupClass},
	} {
		g.Skipper(c.name, Text("regexp", c.dst, "", expression), "Classes of the "+c.objects+" to serve: a regular "+
			"expression that may match anywhere in the class; empty means skipper. Objects without a class are always served.")
	}
	p.generated(o)
	p.conversion(o)
	p.externalNames(o)
	p.annotations(o)
	p.eastWest(o)
	p.processing(o)
}

func (p *Parser) generated(o *rules.Options) {
	g := p.Group(GroupGenerated)
	g.Skipper("kubernetes-healthcheck", Bool(&o.Healthcheck, true), "Add routes for /kube-system/healthz, for the "+
		"health checks of load balancers.")
	g.Skipper("whitelisted-healthcheck-cidr", &Value{kind: "list", comma: true, set: func(s string) (err error) {
		o.HealthcheckCIDRs, err = parseCIDRs(s)
		return err
	}}, "More networks that may use the health check routes, separated by commas.")
	g.Skipper("reverse-source-predicate", Bool(&o.ReverseSource, false), "Use the last address of X-Forwarded-For in the "+
		"health check routes. Set it as on the proxies.")
	g.Skipper("kubernetes-https-redirect", Bool(&o.HTTPSRedirect, true), "Redirect requests that came by HTTP to HTTPS.")
	g.Skipper("kubernetes-https-redirect-code", Number(&o.HTTPSRedirectCode, 308, math.MinInt32, math.MaxInt32), "Status of the "+
		"redirect; zero or less means 308.")
	g.Skipper("kubernetes-disable-catchall-routes", Bool(&o.DisableCatchAllRoutes, false), "Leave out the routes that "+
		"answer 404 where no path of a host matches.")
	p.check(func() {
		if c := o.HTTPSRedirectCode; c > 0 && (c < 300 || c > 399) {
			p.warn("kubernetes-https-redirect-code", "%d is not the status of a redirect", c)
		}
	})
}

func (p *Parser) conversion(o *rules.Options) {
	g := p.Group(GroupConversion)
	g.Skipper("kubernetes-path-mode", Parsed("MODE", &o.PathMode, string(rules.PathModeKubernetesIngress), rules.ParsePathMode), "Meaning of Ingress "+
		"paths without a path type: kubernetes-ingress (regular expression, anchored at the start), path-regexp (regular "+
		"expression) or path-prefix (subtree).")
	g.Skipper("kubernetes-backend-traffic-algorithm", Parsed("ALGORITHM", &o.TrafficAlgorithm, string(rules.TrafficPredicate),
		rules.ParseTrafficAlgorithm), "How to split traffic by weights: traffic-predicate or traffic-segment-predicate.")
	g.Skipper("kubernetes-default-lb-algorithm", Text("string", &o.DefaultLBAlgorithm, "roundRobin"), "Load balancing algorithm where an "+
		"object names none: "+strings.Join(lbAlgorithms, ", ")+". Anything else means roundRobin.")
	g.Skipper("kubernetes-force-service", Bool(&o.ForceService, false), "Send the traffic of Ingresses to the cluster DNS "+
		"names of services instead of their endpoints.")
	g.Skipper("forward-backend-url", Text("URL", &o.ForwardBackendURL, ""), "Where objects with a forward "+
		"backend send their traffic; empty turns forwarding off.")
	g.Skipper("kubernetes-topology-zone", Text("string", &o.TopologyZone, ""), "Keep only the endpoints of this zone where it has three "+
		"or more. Better leave it empty: the server has a table for each zone under /routes/ZONE.")
	p.check(func() {
		proxies := catalogue.New(catalogue.Options{ForwardBackendURL: o.ForwardBackendURL})
		if err := proxies.Backend(&eskip.Route{BackendType: eskip.ForwardBackend}); err != nil {
			p.warn("forward-backend-url", "proxies refuse all routes with this address: want a URL such as https://host:port")
		}
		if a := o.DefaultLBAlgorithm; a != "" && !slices.Contains(lbAlgorithms, a) {
			p.warn("kubernetes-default-lb-algorithm", "%s is not known, so roundRobin is used: want %s", clip(a),
				strings.Join(lbAlgorithms, ", "))
		}
		if o.TopologyZone != "" {
			p.warn("kubernetes-topology-zone", "every proxy gets the endpoints of zone %s, wherever it runs: remove the flag "+
				"and let the proxies of a zone fetch /routes/ZONE", clip(o.TopologyZone))
		}
	})
}

func (p *Parser) externalNames(o *rules.Options) {
	g := p.Group(GroupConversion)
	g.Skipper("enable-kubernetes-external-names", Bool(&o.ExternalNames, false), "Allow Ingresses to refer to services of "+
		"type ExternalName.")
	g.Skipper("kubernetes-external-name-preserve-host", Bool(&o.ExternalNamePreserveHost, false), "Keep the Host header "+
		"of the request on the way to external names.")
	g.Skipper("kubernetes-only-allowed-external-names", Bool(&o.OnlyAllowedExternalNames, false), "Refuse external names, "+
		"and network addresses of RouteGroups, that no -"+allowedExternalName+" matches.")
	g.Skipper(allowedExternalName, Repeated("regexp", func(s string) error {
		rx, err := regexp.Compile(s)
		if err != nil {
			return err
		}
		o.AllowedExternalNames = append(o.AllowedExternalNames, rx)
		return nil
	}), "Allowed external name: a regular expression that may match anywhere in the name, so anchor it, as in ^example[.]org$. "+
		"May be repeated.")
	p.check(func() {
		if len(o.AllowedExternalNames) > 0 && !o.OnlyAllowedExternalNames {
			p.warn(allowedExternalName, "has no effect without -kubernetes-only-allowed-external-names: every name is allowed")
		}
	})
}

func (p *Parser) annotations(o *rules.Options) {
	const form = " The form is KEY=VALUE=TEXT, cut at the first two equal signs. May be repeated."
	g := p.Group(GroupAnnotations)
	g.Skipper("kubernetes-annotation-predicates", annotationPredicates(&o.AnnotationPredicates),
		"Predicates for the routes of objects with this annotation."+form)
	g.Skipper("kubernetes-annotation-filters-append", annotationFilters(&o.AnnotationFiltersAppend),
		"Filters to append to the routes of objects with this annotation."+form)
	g.Skipper("kubernetes-east-west-range-annotation-predicates", annotationPredicates(&o.EastWestRangeAnnotationPredicates),
		"Predicates for the routes of internal hosts of objects with this annotation."+form)
	g.Skipper("kubernetes-east-west-range-annotation-filters-append", annotationFilters(&o.EastWestRangeAnnotationFilters),
		"Filters to append to the routes of internal hosts of objects with this annotation."+form)
	g.Skipper("kubernetes-application-annotation-label", Text("string", &o.ApplicationLabel, ""), "Label whose value becomes the "+
		"application annotation of a route; empty turns it off.")
}

func (p *Parser) eastWest(o *rules.Options) {
	g := p.Group(GroupEastWest)
	g.Skipper("kubernetes-east-west-range-domains", List(&o.EastWestRangeDomains), "Suffixes of the names of internal hosts, "+
		"separated by commas.")
	g.Skipper("kubernetes-east-west-range-predicates", Parsed("predicates", &o.EastWestRangePredicates, "", parsePredicates),
		"Predicates for the routes of internal hosts, such as ClientIP(\"10.2.0.0/15\").")
	g.Skipper("enable-kubernetes-east-west", Bool(&o.EastWest, false), "Deprecated: add a route with the host "+
		"NAME.NAMESPACE.DOMAIN for each route.")
	g.Skipper("kubernetes-east-west-domain", Text("string", &o.EastWestDomain, ""), "Deprecated: the domain of these hosts; empty means "+
		"skipper.cluster.local.")
	p.check(func() {
		for i, d := range o.EastWestRangeDomains {
			switch {
			case d == "":
				p.warn("kubernetes-east-west-range-domains", "element %d is empty: every host ends with it and is internal", i+1)
			case strings.TrimSpace(d) != d:
				p.warn("kubernetes-east-west-range-domains", "%s has white space: no host ends with it", clip(d))
			}
		}
	})
}

func (p *Parser) processing(o *rules.Options) {
	g := p.Group(GroupProcessing)
	var filters eskip.DefaultFilters
	chain := func(dst *[]*eskip.Filter) *Value {
		return Repeated("filters", func(s string) error {
			fs, err := parseProxyFilters(s)
			*dst = append(*dst, fs...)
			return err
		})
	}
	const once = " May be repeated; the chains are joined. Do not set it on the proxies, too."
	g.Skipper("default-filters-prepend", chain(&filters.Prepend), "Filters to prepend to those of every route."+once)
	g.Skipper("default-filters-append", chain(&filters.Append), "Filters to append to those of every route."+once)
	g.Skipper("enable-oauth2-grant-flow", Bool(&o.OAuthGrantCallback, false), "Add the route for the callback of the OAuth2 "+
		"grant flow.")
	g.Skipper("oauth2-callback-path", Text("string", &o.OAuthCallbackPath, ""), "Path of that route.")
	const rule = " The form is /expression/replacement/, where the first character is the separator. May be repeated; rules " +
		"apply in order."
	g.Skipper("edit-route", p.changes("edit-route", func(c change) {
		o.EditRoutes = append(o.EditRoutes, eskip.NewEditor(c.reg, c.repl))
	}), "Change predicates and filters by their text."+rule)
	g.Skipper("clone-route", p.changes("clone-route", func(c change) {
		o.CloneRoutes = append(o.CloneRoutes, eskip.NewClone(c.reg, c.repl))
	}), "Add changed copies of the matching routes."+rule)
	const build = " that your own build of the proxies adds to those of Skipper, separated by commas. Routes with an unknown " +
		"name are still served, and reported as a problem (proxy_would_reject)."
	g.Own("filters", List(&o.ExtraFilters), "Filters"+build)
	g.Own("predicates", List(&o.ExtraPredicates), "Predicates"+build)
	g.Own("refuse-filters", List(&o.RefuseFilters), "Filters that no object may use, separated by commas. Routes with them are left out and "+
		"reported (filter_refused). Consider lua, and those that ask the network while a table loads (runs_at_load).")
	g.Own("max-object-bytes", Parsed("size", &o.MaxObjectBytes, "8MiB", objectSize), "The most text that the routes of one object may "+
		"come to, with companions and clones, as a number or as 16MiB. Nothing of a larger object is served (too_large).")
	p.check(func() {
		p.checkRefused(o)
		if len(filters.Prepend)+len(filters.Append) > 0 {
			o.DefaultFilters = &filters
		}
		switch {
		case o.OAuthGrantCallback && o.OAuthCallbackPath == "":
			p.warn("enable-oauth2-grant-flow", "-oauth2-callback-path is empty, and so is the path of the route")
		case !o.OAuthGrantCallback && o.OAuthCallbackPath != "":
			p.warn("oauth2-callback-path", "has no effect without -enable-oauth2-grant-flow")
		}
	})
}

// objectSize parses --max-object-bytes.
func objectSize(s string) (int, error) {
	n, err := size[int](s)
	if err == nil && n < 1<<20 {
		return 0, fmt.Errorf("%s: want at least 1MiB, which one route may have", clip(s))
	}
	return n, err
}

// checkRefused warns of names that refuse nothing.
func (p *Parser) checkRefused(o *rules.Options) {
	known := catalogue.New(catalogue.Options{ExtraFilters: o.ExtraFilters})
	for _, name := range o.RefuseFilters {
		if reason, _ := known.Filters([]*eskip.Filter{{Name: name}}); reason == catalogue.UnknownFilter {
			meant := ""
			if similar := known.Similar(name, false); len(similar) > 0 {
				meant = "; is " + strings.Join(similar, " or ") + " meant?"
			}
			p.warn("refuse-filters", "proxies know no filter %q%s", name, meant)
		}
	}
}

// changes returns the value of the flags with rules for changing routes.
func (p *Parser) changes(name string, add func(change)) *Value {
	return Repeated("/regexp/replacement/", func(s string) error {
		c, rest, err := parseChange(s)
		if err != nil {
			return err
		}
		if rest != "" {
			p.warn(name, "%s: text after the last separator is ignored", clip(s))
		}
		add(c)
		return nil
	})
}
