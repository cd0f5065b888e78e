package rules

import (
	"errors"
	"fmt"
	"regexp/syntax"
	"strings"
	"unicode/utf8"

	"github.com/routesrv/routesrv/eskip"
	"github.com/routesrv/routesrv/kube"
)

// A route with an invalid expression is published as in the reference. Every proxy drops it without telling its author, so it is
// a problem here.

// checkExpression reports an expression that does not compile.
func (f *findings) checkExpression(what, expr string) {
	if plainExpression(expr) {
		return
	}
	if _, err := syntax.Parse(expr, syntax.Perl); err != nil {
		f.add(Problem{
			Reason: InvalidExpression, Severity: Warning,
			Message: fmt.Sprintf("%s %q does not compile, proxies drop its routes: %v", what, expr, err),
			Detail:  fmt.Sprintf("the %s %q is not a valid regular expression (%s), so proxies ignore its routes", what, expr, plainError(err)),
		})
	}
}

// plainError returns the specific part of a regexp error.
func plainError(err error) string {
	if e := (*syntax.Error)(nil); errors.As(err, &e) {
		return e.Code.String() + ": " + e.Expr
	}
	return err.Error()
}

// plainExpression reports whether the expression has no special characters. This is the common case, and much cheaper than
// compiling.
func plainExpression(expr string) bool {
	return !strings.ContainsAny(expr, `\()[]{}*+?|^$`) && utf8.ValidString(expr)
}

// checkHost reports a host whose expression does not compile, usually because of a wildcard.
func (f *findings) checkHost(host string) {
	if plainExpression(host) {
		return
	}
	before := len(f.list)
	f.checkExpression("host expression", hostExpr(host))
	if len(f.list) > before && strings.Contains(host, "*") {
		f.list[before].Detail = fmt.Sprintf("the host %q has a wildcard, which is not supported, so proxies ignore its routes", host)
	}
}

// checkPattern reports a path pattern that proxies drop, or keep and never match.
func (f *findings) checkPattern(pattern string) {
	if strings.IndexByte(pattern, '*') < 0 && strings.IndexByte(pattern, ':') < 0 {
		return
	}
	segments := strings.Split(pattern, "/")
	for i, s := range segments {
		switch {
		case strings.HasPrefix(s, "*") && strings.Join(segments[i+1:], "") != "":
			f.add(Problem{
				Reason: InvalidExpression, Severity: Warning,
				Message: fmt.Sprintf("path %q has a free wildcard before its end, proxies drop its routes", pattern),
				Detail:  fmt.Sprintf("the path %q has a wildcard (*) before its end, so proxies ignore its routes", pattern),
			})
		case len(s) > 1 && strings.ContainsAny(s[1:], ":*") && s[0] != ':' && s[0] != '*':
			f.add(Problem{
				Reason: InvalidExpression, Severity: Warning,
				Message: fmt.Sprintf("path %q has a wildcard inside of a segment, proxies never match it", pattern),
				Detail:  fmt.Sprintf("the path %q has a colon or an asterisk inside of a segment, so it matches no request", pattern),
			})
		}
	}
}

// checkPredicates reports mistakes in the predicates of a text.
func (f *findings) checkPredicates(predicates []*eskip.Predicate) {
	for _, p := range predicates {
		if len(p.Args) == 0 {
			continue
		}
		arg, ok := p.Args[len(p.Args)-1].(string)
		if !ok {
			continue
		}
		switch {
		case p.Name == "Host" && len(p.Args) == 1:
			f.checkExpression("host expression", arg)
		case p.Name == "PathRegexp" && len(p.Args) == 1:
			f.checkExpression("path expression", arg)
		case p.Name == "HeaderRegexp" && len(p.Args) == 2:
			f.checkExpression("header expression", arg)
		case isPathPredicate(p) && len(p.Args) == 1:
			f.checkPattern(arg)
		}
	}
}

// checkRoute reports mistakes in a route that was parsed from a text. It does not check hosts: those of a custom route are
// replaced.
func (f *findings) checkRoute(r *eskip.Route) {
	f.checkPattern(r.Path)
	for _, p := range r.PathRegexps {
		f.checkExpression("path expression", p)
	}
	for _, values := range r.HeaderRegexps {
		for _, v := range values {
			f.checkExpression("header expression", v)
		}
	}
	f.checkPredicates(r.Predicates)
}

// checkRouteGroup reports the hosts and paths of a RouteGroup that proxies cannot match.
func (f *findings) checkRouteGroup(spec *kube.RouteGroupSpec) {
	for _, h := range spec.Hosts {
		if h == "" {
			f.warnf(InvalidExpression, "an empty host matches no request")
		}
		f.checkHost(h)
	}
	for _, r := range spec.Routes {
		f.checkPattern(r.Path)
		f.checkPattern(r.PathSubtree)
		f.checkExpression("path expression", r.PathRegexp)
		for _, text := range r.Predicates {
			if !strings.Contains(text, "Host") && !strings.Contains(text, "Path") && !strings.Contains(text, "Regexp") {
				continue // not one of the checked predicates
			}
			ps, _ := eskip.ParsePredicates(text) // validated before
			f.checkPredicates(ps)
		}
	}
}
