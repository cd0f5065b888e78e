package rules

import (
	"cmp"
	"fmt"
	"iter"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/routesrv/routesrv/catalogue"
	"github.com/routesrv/routesrv/eskip"
)

// Options configure the compilation. The zero value is the library default of the reference.
type Options struct {
	// IngressClass and RouteGroupClass are unanchored expressions for the class of an object. Default "skipper".
	IngressClass    string
	RouteGroupClass string

	// EndpointSlices uses addresses from EndpointSlices instead of Endpoints.
	EndpointSlices bool
	// TopologyZone keeps only the endpoints of this zone if there are at least three. A route server leaves it empty.
	TopologyZone string

	// PathMode is the meaning of a path without a path type. Default [PathModeKubernetesIngress].
	PathMode PathMode
	// TrafficAlgorithm splits traffic by weights. Default [TrafficPredicate].
	TrafficAlgorithm TrafficAlgorithm
	// DefaultLBAlgorithm is used if an object names no algorithm. Anything but the six algorithms means "roundRobin".
	DefaultLBAlgorithm string

	// Healthcheck adds the two health-check routes. HealthcheckCIDRs adds networks that may use them, ReverseSource uses the
	// last address of X-Forwarded-For, and HealthcheckAccessLog keeps these requests in the access log.
	Healthcheck          bool
	HealthcheckCIDRs     []string
	ReverseSource        bool
	HealthcheckAccessLog bool

	// HTTPSRedirect redirects http requests; HTTPSRedirectCode is the status, 308 if not above zero.
	HTTPSRedirect     bool
	HTTPSRedirectCode int

	// MaxObjectBytes is the maximum length of the text of all routes of one object. Default [DefaultMaxObjectBytes].
	MaxObjectBytes int

	DisableCatchAllRoutes bool
	// ForceService addresses services by their cluster name instead of their endpoints (Ingress only).
	ForceService bool
	// ForwardBackendURL is where objects with a forward backend send their traffic; empty turns this off.
	ForwardBackendURL string
	// ApplicationLabel is the label that becomes the application annotation of a route. Empty turns this off.
	ApplicationLabel string

	// External names: whether Ingresses may reference ExternalName services, whether to keep the Host header, and which names
	// are allowed (regular expressions, unanchored; also for the network and lb addresses of RouteGroups).
	ExternalNames            bool
	ExternalNamePreserveHost bool
	OnlyAllowedExternalNames bool
	AllowedExternalNames     []*regexp.Regexp

	// EastWest is the deprecated form: a companion for NAME.NAMESPACE.DOMAIN, default "skipper.cluster.local", for each route.
	EastWest       bool
	EastWestDomain string
	// EastWestRangeDomains are the suffixes of internal hosts; EastWestRangePredicates are added to their routes.
	EastWestRangeDomains    []string
	EastWestRangePredicates []*eskip.Predicate

	// Predicates and filters for objects with a given annotation; the range variants are for internal hosts.
	AnnotationPredicates              []AnnotationPredicates
	AnnotationFiltersAppend           []AnnotationFilters
	EastWestRangeAnnotationPredicates []AnnotationPredicates
	EastWestRangeAnnotationFilters    []AnnotationFilters

	// ExtraFilters and ExtraPredicates are names that the proxies know in addition to those of Skipper and of these options.
	ExtraFilters, ExtraPredicates []string

	// RefuseFilters are names of filters that no object, nor these options, may use: routes with them are left out.
	RefuseFilters []string

	// Processing of every finished route, in this order: DefaultFilters, the OAuth grant callback route, editors, clones.
	DefaultFilters *eskip.DefaultFilters
	// OAuthGrantCallback adds the route __oauth2_grant_callback on the path OAuthCallbackPath.
	OAuthGrantCallback bool
	OAuthCallbackPath  string
	EditRoutes         []*eskip.Editor
	CloneRoutes        []*eskip.Clone
}

// AnnotationPredicates are predicates for the routes of objects whose annotation Key has exactly the Value.
type AnnotationPredicates struct {
	Key, Value string
	Predicates []*eskip.Predicate
}

// AnnotationFilters are filters for the routes of objects whose annotation Key has exactly the Value.
type AnnotationFilters struct {
	Key, Value string
	Filters    []*eskip.Filter
}

// PathMode is the meaning of an Ingress path without a path type. Empty is the default.
type PathMode string

// The path modes.
const (
	PathModeKubernetesIngress PathMode = "kubernetes-ingress" // a regular expression, anchored at the start; the default
	PathModePathRegexp        PathMode = "path-regexp"        // a regular expression as written
	PathModePathPrefix        PathMode = "path-prefix"        // a subtree
)

// ParsePathMode parses the name of a path mode. The empty name is the default.
func ParsePathMode(s string) (PathMode, error) {
	return parseName(s, "path mode string", PathModeKubernetesIngress, PathModePathRegexp, PathModePathPrefix)
}

// TrafficAlgorithm selects how weights become predicates. Empty is the default.
type TrafficAlgorithm string

// The traffic algorithms.
const (
	TrafficPredicate        TrafficAlgorithm = "traffic-predicate"         // Traffic(share) and True(); the default
	TrafficSegmentPredicate TrafficAlgorithm = "traffic-segment-predicate" // TrafficSegment(from, to)
)

// ParseTrafficAlgorithm parses the name of a traffic algorithm. The empty name is the default.
func ParseTrafficAlgorithm(s string) (TrafficAlgorithm, error) {
	return parseName(s, "backend traffic algorithm", TrafficPredicate, TrafficSegmentPredicate)
}

func parseName[T ~string](s, what string, names ...T) (T, error) {
	if s == "" {
		return names[0], nil
	}
	if !slices.Contains(names, T(s)) {
		return "", fmt.Errorf("invalid %s: %s", what, s)
	}
	return T(s), nil
}

const (
	defaultLBAlgorithm    = "roundRobin"
	defaultEastWestDomain = "skipper.cluster.local"
	defaultRedirectCode   = 308
	defaultClass          = "skipper"
)

// Reads reports whether an annotation of an Ingress or a RouteGroup can affect what is compiled.
func (o *Options) Reads(annotation string) bool {
	is := func(key string) bool { return key == annotation }
	return strings.HasPrefix(annotation, "zalando.org/") || annotation == ingressClassAnnotation ||
		slices.ContainsFunc(slices.Concat(o.AnnotationPredicates, o.EastWestRangeAnnotationPredicates), func(p AnnotationPredicates) bool { return is(p.Key) }) ||
		slices.ContainsFunc(slices.Concat(o.AnnotationFiltersAppend, o.EastWestRangeAnnotationFilters), func(f AnnotationFilters) bool { return is(f.Key) })
}

// Set are the options with defaults applied and expressions compiled. It is safe for concurrent use.
type Set struct {
	Options
	ingressClass    *regexp.Regexp
	routeGroupClass *regexp.Regexp
	proxies         *catalogue.Catalogue // what the proxies know
	ownFilters      []string             // names of the filters that the options add to routes
	readers         sync.Pool            // of *eskip.Reader, for routes that are read back
}

// New checks the options and applies their defaults.
func New(o Options) (*Set, error) {
	s := &Set{Options: o}
	var err error
	if s.ingressClass, err = regexp.Compile(cmp.Or(o.IngressClass, defaultClass)); err != nil {
		return nil, fmt.Errorf("ingress class: %w", err)
	}
	if s.routeGroupClass, err = regexp.Compile(cmp.Or(o.RouteGroupClass, defaultClass)); err != nil {
		return nil, fmt.Errorf("routegroup class: %w", err)
	}
	if s.PathMode, err = ParsePathMode(string(o.PathMode)); err != nil {
		return nil, err
	}
	if s.TrafficAlgorithm, err = ParseTrafficAlgorithm(string(o.TrafficAlgorithm)); err != nil {
		return nil, err
	}
	if !slices.Contains(catalogue.Algorithms, o.DefaultLBAlgorithm) {
		s.DefaultLBAlgorithm = defaultLBAlgorithm
	}
	if o.MaxObjectBytes <= 0 {
		s.MaxObjectBytes = DefaultMaxObjectBytes
	}
	if o.HTTPSRedirectCode <= 0 {
		s.HTTPSRedirectCode = defaultRedirectCode
	}
	if o.EastWest {
		// Only the enabled feature trims the domain, which also exempts hosts from redirects. Dots alone are the empty domain.
		if s.EastWestDomain = strings.Trim(o.EastWestDomain, "."); o.EastWestDomain == "" {
			s.EastWestDomain = defaultEastWestDomain
		}
	}
	s.proxies = s.newCatalogue()
	if err := s.checkFilters(); err != nil {
		return nil, err
	}
	return s, nil
}

func (o *Options) filters() iter.Seq2[string, []*eskip.Filter] {
	return func(yield func(string, []*eskip.Filter) bool) {
		if d := o.DefaultFilters; d != nil && (!yield("default filters to prepend", d.Prepend) || !yield("default filters to append", d.Append)) {
			return
		}
		for _, a := range slices.Concat(o.AnnotationFiltersAppend, o.EastWestRangeAnnotationFilters) {
			if !yield("filters for the annotation "+a.Key+"="+a.Value, a.Filters) {
				return
			}
		}
	}
}

// newCatalogue returns the catalogue for the proxies. It accepts all filters and predicates that the options add to routes.
func (s *Set) newCatalogue() *catalogue.Catalogue {
	filters, predicates := slices.Clone(s.ExtraFilters), slices.Clone(s.ExtraPredicates)
	known := catalogue.New(catalogue.Options{})
	for _, list := range s.filters() {
		for _, f := range list {
			if reason, _ := known.Filters([]*eskip.Filter{f}); reason == catalogue.UnknownFilter {
				filters = append(filters, f.Name)
			}
		}
	}
	all := slices.Clone(s.EastWestRangePredicates)
	for _, a := range slices.Concat(s.AnnotationPredicates, s.EastWestRangeAnnotationPredicates) {
		all = append(all, a.Predicates...)
	}
	for _, p := range all {
		if reason, _ := known.Check(&eskip.Route{Predicates: []*eskip.Predicate{p}, BackendType: eskip.ShuntBackend}); reason == catalogue.UnknownPredicate {
			predicates = append(predicates, p.Name)
		}
	}
	return catalogue.New(catalogue.Options{
		ForwardBackendURL: s.ForwardBackendURL, ExtraFilters: filters, ExtraPredicates: predicates,
	})
}

// checkFilters refuses options that no proxy survives, or that use a refused filter. It also records which filters they use.
func (s *Set) checkFilters() error {
	for option, filters := range s.filters() {
		if err := catalogue.Survives(filters); err != nil {
			return fmt.Errorf("%s: no proxy would survive it: %w", option, err)
		}
		for _, f := range filters {
			if slices.Contains(s.RefuseFilters, f.Name) {
				return fmt.Errorf("%s: filter %s is refused (--refuse-filters)", option, f.Name)
			}
			s.ownFilters = append(s.ownFilters, f.Name)
		}
	}
	return nil
}

func (s *Set) allowedExternalName(name string) bool {
	return !s.OnlyAllowedExternalNames || slices.ContainsFunc(s.AllowedExternalNames, func(rx *regexp.Regexp) bool { return rx.MatchString(name) })
}

// eastWestRange counts the range domains that are a suffix of the host, even without a dot before them.
func (s *Set) eastWestRange(host string) int {
	n := 0
	for _, d := range s.EastWestRangeDomains {
		if strings.HasSuffix(host, d) {
			n++
		}
	}
	return n
}
