package rules

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/routesrv/routesrv/catalogue"
	"github.com/routesrv/routesrv/eskip"
	"github.com/routesrv/routesrv/internal/routeid"
	"github.com/routesrv/routesrv/kube"
)

// The annotations of an Ingress.
const (
	ingressClassAnnotation  = "kubernetes.io/ingress.class"
	filterAnnotation        = "zalando.org/skipper-filter"
	predicateAnnotation     = "zalando.org/skipper-predicate"
	routesAnnotation        = "zalando.org/skipper-routes"
	ratelimitAnnotation     = "zalando.org/ratelimit"
	backendAnnotation       = "zalando.org/skipper-backend"
	weightsAnnotation       = "zalando.org/backend-weights"
	lbAlgorithmAnnotation   = "zalando.org/skipper-loadbalancer"
	pathModeAnnotation      = "zalando.org/skipper-ingress-path-mode"
	redirectAnnotation      = "zalando.org/skipper-ingress-redirect"
	redirectCodeAnnotation  = "zalando.org/skipper-ingress-redirect-code"
	forwardedProtoHeader    = "X-Forwarded-Proto"
	forwardedProtoPredicate = `Header("X-Forwarded-Proto"`
)

// Annotations returns the annotations of Ingresses and RouteGroups that have a meaning, besides those that options name.
func Annotations() []string {
	return []string{
		ingressClassAnnotation, filterAnnotation, predicateAnnotation, routesAnnotation, ratelimitAnnotation, backendAnnotation,
		weightsAnnotation, lbAlgorithmAnnotation, pathModeAnnotation, redirectAnnotation, redirectCodeAnnotation,
		protocolAnnotation, zoneAwareKey, routeGroupClassAnnotation,
	}
}

func (b *ingressBuilder) parse() error {
	var errs []error
	check := func(key string, parse func(string) error) {
		if v, ok := b.ing.Annotations.Lookup(key); ok {
			if err := parse(v); err != nil {
				errs = append(errs, fmt.Errorf("invalid %q annotation: %w", key, err))
			}
		}
	}
	check(filterAnnotation, func(v string) error { _, err := eskip.ParseFilters(v); return err })
	check(predicateAnnotation, func(v string) (err error) { b.ann.predicates, err = eskip.ParsePredicates(v); return err })
	check(routesAnnotation, func(v string) (err error) { b.ann.routes, err = eskip.Parse(v); return err })
	check(lbAlgorithmAnnotation, func(v string) error {
		if v != "" && !slices.Contains(catalogue.Algorithms, v) {
			return errors.New("unsupported algorithm")
		}
		return nil
	})
	return errors.Join(errs...)
}

type ingressAnnotations struct {
	filters     []*eskip.Filter
	predicates  []*eskip.Predicate
	routes      []*eskip.Route
	weights     map[string]float64
	pathMode    PathMode
	lbAlgorithm string
	forward     bool
	zoneOptOut  bool
	redirect    Redirect
	ownRedirect bool // the author matches X-Forwarded-Proto explicitly
}

// evaluate parses the other annotations: a mistake costs only the annotation.
func (b *ingressBuilder) evaluate() {
	a, ann := &b.ann, b.ing.Annotations
	a.filters = b.annotationFilters()
	if v, ok := ann.Lookup(weightsAnnotation); ok {
		// A value that is not a number counts as 0, and the others are used: this is what encoding/json leaves behind.
		if err := json.Unmarshal([]byte(v), &a.weights); err != nil {
			b.addf(Problem{Reason: InvalidAnnotation, Severity: Error}, "Error while parsing backend-weights annotation: %v", err)
		}
	}
	a.pathMode = b.set.PathMode
	if v, ok := ann.Lookup(pathModeAnnotation); ok {
		if m, err := ParsePathMode(v); err == nil && v != "" {
			a.pathMode = m
		} else {
			b.addf(Problem{Reason: InvalidAnnotation, Severity: Error}, "Failed to get path mode: invalid path mode string: %s", v)
		}
	}
	a.lbAlgorithm = b.set.DefaultLBAlgorithm
	if v, ok := ann.Lookup(lbAlgorithmAnnotation); ok {
		a.lbAlgorithm = v // even if empty: then the route names no algorithm
	}
	a.forward = b.set.ForwardBackendURL != "" && ann.Get(backendAnnotation) == "forward"
	a.zoneOptOut = ann.Get(zoneAwareKey) == "false"
	code := redirectCode(ann, b.set.HTTPSRedirectCode, &b.findings)
	if b.set.redirects(ann) {
		a.redirect.Code = code
	}
	a.redirect.Disabled = ann.Get(redirectAnnotation) == "false"
	a.ownRedirect = strings.Contains(ann.Get(predicateAnnotation), forwardedProtoPredicate) ||
		strings.Contains(ann.Get(routesAnnotation), forwardedProtoPredicate)
}

// annotationFilters joins the rate limit and the filters into one chain, which counts as a whole.
func (b *ingressBuilder) annotationFilters() []*eskip.Filter {
	text := b.ing.Annotations.Get(ratelimitAnnotation)
	if v, ok := b.ing.Annotations.Lookup(filterAnnotation); ok {
		if text != "" {
			text += " -> "
		}
		text += v
	}
	filters, err := eskip.ParseFilters(text)
	if err != nil {
		b.addf(Problem{Reason: InvalidAnnotation, Severity: Error}, "Cannot parse annotation filters: %v", err)
		return nil
	}
	return filters
}

func (s *Set) redirects(annotations kube.Pairs) bool {
	asked := annotations.Get(redirectAnnotation)
	return asked == "true" || s.HTTPSRedirect && asked != "false"
}

func redirectCode(annotations kube.Pairs, otherwise int, f *findings) int {
	v, ok := annotations.Lookup(redirectCodeAnnotation)
	if !ok {
		return otherwise
	}
	code, err := strconv.Atoi(v)
	if err == nil && (code < 300 || code >= 400) {
		err = errors.New(v)
	}
	if err != nil {
		f.addf(Problem{Reason: InvalidAnnotation, Severity: Error, Plain: true}, "invalid redirect code annotation:%v", err)
		return otherwise
	}
	return code
}

// customRoutes adds the annotated routes to a host, once for each path, even if the path's service does not exist.
func (b *ingressBuilder) customRoutes(host string, p *kube.IngressPath) {
	for i, own := range b.ann.routes {
		// Copy with new slices: the reference's copies share memory and overwrite each other.
		r := shallow(own)
		r.Id = routeid.Custom(b.ing.Namespace, b.ing.Name, own.Id, i, host, p.Path)
		r.HostRegexps = []string{b.hostExpr}
		setPath(r, b.ann.pathMode, p)
		if n := countPaths(r); n > 1 {
			b.addf(Problem{Route: r.Id, Reason: MultiplePaths, Severity: Error},
				"Ignoring route due to multiple path predicates: %d path predicates, route: %s", n, Shortened(r.String()))
			b.eastWestCompanion(r, b.copies(own, i)) // as in the reference: the companion is created nevertheless
			continue
		}
		b.set.appendAnnotated(r, b.ing.Annotations, b.set.eastWestRange(host) > 0)
		b.set.application(r, &b.ing.Meta)
		sharers := b.sharers()
		if len(r.Filters) == len(own.Filters) {
			sharers = b.copies(own, i)
		}
		b.forward(r)
		b.addToHost(host, r, mainRoute, sharers)
		b.group(host).Redirect = b.ann.redirect // there is no exception for authors who match the header themselves
		b.eastWestCompanion(r, sharers)
	}
}

// copies returns how many routes share the filters of a custom route in the reference: its copies for all paths, and their
// east-west companions, also those of refused copies. Of copies with one id, only the first is left when edit rules apply. It
// stops at maxSharers, and counts only where it matters.
func (b *ingressBuilder) copies(own *eskip.Route, index int) int {
	if len(b.set.EditRoutes) == 0 || len(own.Filters) == 0 {
		return 1
	}
	paths, ids := countPaths(own), make(map[string]bool)
	for i := range b.ing.Spec.Rules {
		rule := &b.ing.Spec.Rules[i]
		for k := range rule.Paths {
			if !rule.HTTP {
				break
			}
			id := routeid.Custom(b.ing.Namespace, b.ing.Name, own.Id, index, rule.Host, rule.Paths[k].Path)
			with := &eskip.Route{}
			setPath(with, b.ann.pathMode, &rule.Paths[k])
			if paths+countPaths(with) <= 1 {
				ids[id] = true
			}
			if b.set.EastWest {
				ids[routeid.EastWest(id)] = true
			}
			if len(ids) >= maxSharers {
				return len(ids)
			}
		}
	}
	return len(ids)
}

func countPaths(r *eskip.Route) int {
	n := 0
	if r.Path != "" {
		n++
	}
	for _, p := range r.Predicates {
		if isPathPredicate(p) {
			n++
		}
	}
	return n
}
