package options

import (
	"log/slog"
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

// compile declares the flags that determine how the objects of s become a table. They follow the flags of selection.
func (f *Flags) compile(o *rules.Options, s *Source, level *slog.Level) {
	f.Add("-kubernetes-ingress-class", Text("regexp", &o.IngressClass, "", regexpText),
		"Classes of Ingresses to serve, an unanchored regular expression; empty means skipper. Objects without a class are always served.")
	f.Add("-kubernetes-routegroup-class", Text("regexp", &o.RouteGroupClass, "", regexpText), "The same for RouteGroups.")
	f.generated(o)
	f.conversion(o)
	f.annotations(o)
	f.eastWest(o)
	f.processing(o, s)
	f.Check(func() {
		o.EndpointSlices = s.EndpointSlices
		o.HealthcheckAccessLog = *level <= slog.LevelDebug // as in the reference
	})
}

func (f *Flags) generated(o *rules.Options) {
	f.objects("Generated routes", "routes without an object")
	f.Add("-kubernetes-healthcheck", Bool(&o.Healthcheck, true), "Add routes for /kube-system/healthz, for load balancers.")
	cidrs := Parsed("list", &o.HealthcheckCIDRs, "", parseCIDRs)
	cidrs.comma = true
	f.Add("-whitelisted-healthcheck-cidr", cidrs, "More networks that may use these routes.")
	f.Add("-reverse-source-predicate", Bool(&o.ReverseSource, false), "Use the last address of X-Forwarded-For in these routes.")
	f.Add("-kubernetes-https-redirect", Bool(&o.HTTPSRedirect, true), "Redirect requests that came by HTTP to HTTPS.")
	f.Add("-kubernetes-https-redirect-code", Number(&o.HTTPSRedirectCode, 308, math.MinInt32, math.MaxInt32),
		"Status of the redirect; zero or less means 308.")
	f.Add("-kubernetes-disable-catchall-routes", Bool(&o.DisableCatchAllRoutes, false), "Leave out the catch-all 404 of each host.")
}

func (f *Flags) conversion(o *rules.Options) {
	f.objects("Conversion", "how Ingresses, RouteGroups and their backends become routes")
	f.Add("-kubernetes-path-mode", Parsed("MODE", &o.PathMode, string(rules.PathModeKubernetesIngress), rules.ParsePathMode),
		"Meaning of paths without a path type: kubernetes-ingress (an anchored regular expression), path-regexp or path-prefix.")
	f.Add("-kubernetes-backend-traffic-algorithm",
		Parsed("ALGORITHM", &o.TrafficAlgorithm, string(rules.TrafficPredicate), rules.ParseTrafficAlgorithm),
		"How to split traffic by weights: traffic-predicate or traffic-segment-predicate.")
	f.Add("-kubernetes-default-lb-algorithm", Text("ALGORITHM", &o.DefaultLBAlgorithm, "roundRobin"),
		"Algorithm where an object names none: "+strings.Join(catalogue.Algorithms, ", ")+"; anything else means roundRobin.")
	f.Add("-kubernetes-force-service", Bool(&o.ForceService, false), "Send traffic to the DNS names of services, not to endpoints.")
	f.Add("-forward-backend-url", Text("URL", &o.ForwardBackendURL, ""), "Address for forward backends; empty turns them off.")
	f.Add("-kubernetes-topology-zone", Text("ZONE", &o.TopologyZone, ""),
		"Keep only the endpoints of this zone where it has three or more. Leave it empty and use /routes/ZONE.")
	f.Add("-enable-kubernetes-external-names", Bool(&o.ExternalNames, false), "Allow Ingresses with services of type ExternalName.")
	f.Add("-kubernetes-external-name-preserve-host", Bool(&o.ExternalNamePreserveHost, false), "Keep the Host header for them.")
	f.Add("-kubernetes-only-allowed-external-names", Bool(&o.OnlyAllowedExternalNames, false),
		"Reject external names, and network addresses of RouteGroups, that no -kubernetes-allowed-external-name matches.")
	f.Add("-"+allowedExternalName, Repeated("regexp", func(s string) error {
		rx, err := regexp.Compile(s)
		if err != nil {
			return err
		}
		o.AllowedExternalNames = append(o.AllowedExternalNames, rx)
		return nil
	}), "Allowed external name, an unanchored regular expression such as ^example[.]org$. May be repeated.")
	f.Check(func() {
		if a := o.DefaultLBAlgorithm; a != "" && !slices.Contains(catalogue.Algorithms, a) {
			f.warn("kubernetes-default-lb-algorithm", "%s is not known, so roundRobin is used: must be %s", clip(a),
				strings.Join(catalogue.Algorithms, ", "))
		}
		if o.TopologyZone != "" {
			f.warn("kubernetes-topology-zone", "every proxy gets the endpoints of zone %s, wherever it runs: remove the flag "+
				"and let the proxies of a zone fetch /routes/ZONE", clip(o.TopologyZone))
		}
		if len(o.AllowedExternalNames) > 0 && !o.OnlyAllowedExternalNames {
			f.warn(allowedExternalName, "has no effect without -kubernetes-only-allowed-external-names: every name is allowed")
		}
	})
}

func (f *Flags) annotations(o *rules.Options) {
	f.objects("Annotations", "predicates and filters by annotation")
	predicates := func(dst *[]rules.AnnotationPredicates) *Value {
		return annotated("PREDICATES", parsePredicates, func(key, val string, ps []*eskip.Predicate) {
			*dst = append(*dst, rules.AnnotationPredicates{Key: key, Value: val, Predicates: ps})
		})
	}
	filters := func(dst *[]rules.AnnotationFilters) *Value {
		return annotated("FILTERS", parseProxyFilters, func(key, val string, fs []*eskip.Filter) {
			*dst = append(*dst, rules.AnnotationFilters{Key: key, Value: val, Filters: fs})
		})
	}
	f.Add("-kubernetes-annotation-predicates", predicates(&o.AnnotationPredicates),
		"Predicates for the routes of objects with an annotation, as KEY=VALUE=TEXT. May be repeated.")
	f.Add("-kubernetes-annotation-filters-append", filters(&o.AnnotationFiltersAppend),
		"Filters to append to the routes of objects with an annotation, as KEY=VALUE=TEXT. May be repeated.")
	f.Add("-kubernetes-east-west-range-annotation-predicates", predicates(&o.EastWestRangeAnnotationPredicates),
		"Predicates for their internal hosts, in the same form.")
	f.Add("-kubernetes-east-west-range-annotation-filters-append", filters(&o.EastWestRangeAnnotationFilters),
		"Filters to append for their internal hosts, in the same form.")
	f.Add("-kubernetes-application-annotation-label", Text("LABEL", &o.ApplicationLabel, ""),
		"Label whose value becomes the application annotation of a route; empty turns it off.")
}

func (f *Flags) eastWest(o *rules.Options) {
	f.objects("East-west", "routes for hosts that only clients inside the cluster may use")
	f.Add("-kubernetes-east-west-range-domains", List(&o.EastWestRangeDomains), "Suffixes of the names of internal hosts, separated by commas.")
	f.Add("-kubernetes-east-west-range-predicates", Parsed("PREDICATES", &o.EastWestRangePredicates, "", parsePredicates),
		`Predicates for the routes of internal hosts, such as ClientIP("10.2.0.0/15").`)
	f.Add("-enable-kubernetes-east-west", Bool(&o.EastWest, false), "Deprecated: add a route with the host NAME.NAMESPACE.DOMAIN for each route.")
	f.Add("-kubernetes-east-west-domain", Text("DOMAIN", &o.EastWestDomain, ""),
		"Deprecated: their domain; empty: skipper.cluster.local.")
	f.Check(func() {
		for i, d := range o.EastWestRangeDomains {
			switch {
			case d == "":
				f.warn("kubernetes-east-west-range-domains", "element %d is empty: every host ends with it and is internal", i+1)
			case strings.TrimSpace(d) != d:
				f.warn("kubernetes-east-west-range-domains", "%s has white space: no host ends with it", clip(d))
			}
		}
	})
}

func (f *Flags) processing(o *rules.Options, s *Source) {
	f.objects("Table processing", "changes to the finished routes")
	f.Add("-default-filters-dir", Text("PATH", &s.DefaultFiltersDir, ""),
		"Folder with default filters of services, in files SERVICE.NAMESPACE; every read reads it again.")
	var filters eskip.DefaultFilters
	chain := func(dst *[]*eskip.Filter) *Value {
		return Repeated("FILTERS", func(s string) error {
			fs, err := parseProxyFilters(s)
			*dst = append(*dst, fs...)
			return err
		})
	}
	f.Add("-default-filters-prepend", chain(&filters.Prepend),
		"Filters to put before those of every route. May be repeated. Do not set it on the proxies, too.")
	f.Add("-default-filters-append", chain(&filters.Append), "Filters to put after those of every route, in the same way.")
	f.Add("-enable-oauth2-grant-flow", Bool(&o.OAuthGrantCallback, false), "Add the route for the callback of the OAuth2 grant flow.")
	f.Add("-oauth2-callback-path", Text("PATH", &o.OAuthCallbackPath, ""), "Path of that route.")
	f.Add("-edit-route", change(func(rx *regexp.Regexp, to string) { o.EditRoutes = append(o.EditRoutes, eskip.NewEditor(rx, to)) }),
		"Change predicates and filters by their text, as /expression/replacement/ with any separator. May be repeated; rules apply in order.")
	f.Add("-clone-route", change(func(rx *regexp.Regexp, to string) { o.CloneRoutes = append(o.CloneRoutes, eskip.NewClone(rx, to)) }),
		"Add changed copies of the matching routes, in the same way.")
	f.Add("--filters", List(&o.ExtraFilters),
		"Filters that your proxies add to Skipper's. Unknown names are served and reported (proxy_would_reject).")
	f.Add("--predicates", List(&o.ExtraPredicates), "Predicates that your proxies add to Skipper's, in the same way.")
	f.Add("--refuse-filters", List(&o.RefuseFilters), "Filters that no object may use: their routes are left out (filter_refused). "+
		"Consider lua, and others that runs_at_load reports.")
	f.Add("--max-object-bytes", size(&o.MaxObjectBytes, "8MiB", 1<<20),
		"Longest text of the routes of one object. A larger object is not served (too_large).")
	f.Check(func() {
		f.checkRefused(o)
		if len(filters.Prepend)+len(filters.Append) > 0 {
			o.DefaultFilters = &filters
		}
	})
}

// checkRefused warns of names that refuse nothing.
func (f *Flags) checkRefused(o *rules.Options) {
	known := catalogue.New(catalogue.Options{ExtraFilters: o.ExtraFilters})
	for _, name := range o.RefuseFilters {
		if reason, _ := known.Filters([]*eskip.Filter{{Name: name}}); reason == catalogue.UnknownFilter {
			f.warn("refuse-filters", "proxies know no filter %q", name)
		}
	}
}
