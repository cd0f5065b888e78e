package options

import (
	"math"
	"regexp"
	"slices"
	"strings"

	"github.com/routesrv/routesrv/catalogue"
	"github.com/routesrv/routesrv/compile/rules"
	"github.com/routesrv/routesrv/eskip"
)

// allowedExternalName is the only flag with a special YAML form.
const allowedExternalName = "kubernetes-allowed-external-name"

// Compile adds the flags that determine how objects become a table. EndpointSlices and HealthcheckAccessLog have no flag here:
// see [Parser.CompileFrom].
func (p *Parser) Compile(o *rules.Options) {
	p.Flag("kubernetes-ingress-class", Text("regexp", &o.IngressClass, "", expression))
	p.Flag("kubernetes-routegroup-class", Text("regexp", &o.RouteGroupClass, "", expression))
	p.generated(o)
	p.conversion(o)
	p.externalNames(o)
	p.annotations(o)
	p.eastWest(o)
	p.processing(o)
}

func (p *Parser) generated(o *rules.Options) {
	p.Flag("kubernetes-healthcheck", Bool(&o.Healthcheck, true))
	p.Flag("whitelisted-healthcheck-cidr", &Value{kind: "list", comma: true, set: func(s string) (err error) {
		o.HealthcheckCIDRs, err = parseCIDRs(s)
		return err
	}})
	p.Flag("reverse-source-predicate", Bool(&o.ReverseSource, false))
	p.Flag("kubernetes-https-redirect", Bool(&o.HTTPSRedirect, true))
	p.Flag("kubernetes-https-redirect-code", Number(&o.HTTPSRedirectCode, 308, math.MinInt32, math.MaxInt32))
	p.Flag("kubernetes-disable-catchall-routes", Bool(&o.DisableCatchAllRoutes, false))
	p.check(func() {
		if c := o.HTTPSRedirectCode; c > 0 && (c < 300 || c > 399) {
			p.warn("kubernetes-https-redirect-code", "%d is not the status of a redirect", c)
		}
	})
}

func (p *Parser) conversion(o *rules.Options) {
	p.Flag("kubernetes-path-mode", Parsed("MODE", &o.PathMode, string(rules.PathModeKubernetesIngress), rules.ParsePathMode))
	p.Flag("kubernetes-backend-traffic-algorithm", Parsed("ALGORITHM", &o.TrafficAlgorithm, string(rules.TrafficPredicate),
		rules.ParseTrafficAlgorithm))
	p.Flag("kubernetes-default-lb-algorithm", Text("string", &o.DefaultLBAlgorithm, "roundRobin"))
	p.Flag("kubernetes-force-service", Bool(&o.ForceService, false))
	p.Flag("forward-backend-url", Text("URL", &o.ForwardBackendURL, ""))
	p.Flag("kubernetes-topology-zone", Text("string", &o.TopologyZone, ""))
	p.check(func() {
		proxies := catalogue.New(catalogue.Options{ForwardBackendURL: o.ForwardBackendURL})
		if err := proxies.Backend(&eskip.Route{BackendType: eskip.ForwardBackend}); err != nil {
			p.warn("forward-backend-url", "proxies refuse all routes with this address: want a URL such as https://host:port")
		}
		if a := o.DefaultLBAlgorithm; a != "" && !slices.Contains(catalogue.Algorithms, a) {
			p.warn("kubernetes-default-lb-algorithm", "%s is not known, so roundRobin is used: want %s", clip(a),
				strings.Join(catalogue.Algorithms, ", "))
		}
		if o.TopologyZone != "" {
			p.warn("kubernetes-topology-zone", "every proxy gets the endpoints of zone %s, wherever it runs: remove the flag "+
				"and let the proxies of a zone fetch /routes/ZONE", clip(o.TopologyZone))
		}
	})
}

func (p *Parser) externalNames(o *rules.Options) {
	p.Flag("enable-kubernetes-external-names", Bool(&o.ExternalNames, false))
	p.Flag("kubernetes-external-name-preserve-host", Bool(&o.ExternalNamePreserveHost, false))
	p.Flag("kubernetes-only-allowed-external-names", Bool(&o.OnlyAllowedExternalNames, false))
	p.Flag(allowedExternalName, Repeated("regexp", func(s string) error {
		rx, err := regexp.Compile(s)
		if err != nil {
			return err
		}
		o.AllowedExternalNames = append(o.AllowedExternalNames, rx)
		return nil
	}))
	p.check(func() {
		if len(o.AllowedExternalNames) > 0 && !o.OnlyAllowedExternalNames {
			p.warn(allowedExternalName, "has no effect without -kubernetes-only-allowed-external-names: every name is allowed")
		}
	})
}

func (p *Parser) annotations(o *rules.Options) {
	p.Flag("kubernetes-annotation-predicates", annotationPredicates(&o.AnnotationPredicates))
	p.Flag("kubernetes-annotation-filters-append", annotationFilters(&o.AnnotationFiltersAppend))
	p.Flag("kubernetes-east-west-range-annotation-predicates", annotationPredicates(&o.EastWestRangeAnnotationPredicates))
	p.Flag("kubernetes-east-west-range-annotation-filters-append", annotationFilters(&o.EastWestRangeAnnotationFilters))
	p.Flag("kubernetes-application-annotation-label", Text("string", &o.ApplicationLabel, ""))
}

func (p *Parser) eastWest(o *rules.Options) {
	p.Flag("kubernetes-east-west-range-domains", List(&o.EastWestRangeDomains))
	p.Flag("kubernetes-east-west-range-predicates", Parsed("predicates", &o.EastWestRangePredicates, "", parsePredicates))
	p.Flag("enable-kubernetes-east-west", Bool(&o.EastWest, false))
	p.Flag("kubernetes-east-west-domain", Text("string", &o.EastWestDomain, ""))
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
	var filters eskip.DefaultFilters
	chain := func(dst *[]*eskip.Filter) *Value {
		return Repeated("filters", func(s string) error {
			fs, err := parseProxyFilters(s)
			*dst = append(*dst, fs...)
			return err
		})
	}
	p.Flag("default-filters-prepend", chain(&filters.Prepend))
	p.Flag("default-filters-append", chain(&filters.Append))
	p.Flag("enable-oauth2-grant-flow", Bool(&o.OAuthGrantCallback, false))
	p.Flag("oauth2-callback-path", Text("string", &o.OAuthCallbackPath, ""))
	p.Flag("edit-route", p.changes("edit-route", func(c change) {
		o.EditRoutes = append(o.EditRoutes, eskip.NewEditor(c.reg, c.repl))
	}))
	p.Flag("clone-route", p.changes("clone-route", func(c change) {
		o.CloneRoutes = append(o.CloneRoutes, eskip.NewClone(c.reg, c.repl))
	}))
	p.Flag("filters", List(&o.ExtraFilters))
	p.Flag("predicates", List(&o.ExtraPredicates))
	p.Flag("refuse-filters", List(&o.RefuseFilters))
	p.Flag("max-object-bytes", Parsed("size", &o.MaxObjectBytes, "8MiB", sizeFrom1MiB[int]))
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
